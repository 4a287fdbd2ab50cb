//! A line of the audit, its place, and the parts of the audit.

use serde::{Deserialize, Serialize};

use crate::bus::own_queues::beside;
use crate::error::{Error, Result};
use crate::event::{AUDIT, EventId, PROGRAM_AUDIT, QueueName};
use crate::time::Timestamp;

/// How many lines of a namespace are kept, and how many of those of programs.
pub(super) const LINES_MAX: usize = 10_000;
const PROGRAM_LINES_MAX: usize = 1_000;
/// The longest action, and the longest target, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 1_024;

/// Whether a reader may see a line.
pub(super) type IsSeen<'a> = &'a (dyn Fn(&AuditLine) -> bool + Sync);

/// A line as it is stored.
#[derive(Deserialize, Serialize)]
pub(super) struct StoredLine {
    pub(super) actor: String,
    pub(super) action: String,
    pub(super) target: String,
}

impl StoredLine {
    pub(super) fn new(actor: &str, action: &str, target: &str) -> Self {
        let target = &target[..target.floor_char_boundary(TEXT_BYTES_MAX)];
        Self {
            actor: actor.to_owned(),
            action: action.to_owned(),
            target: target.to_owned(),
        }
    }
}

/// A line of the audit of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditLine {
    /// When it was added.
    pub at: Timestamp,
    /// Who did it, as they say.
    pub actor: String,
    /// What was done, such as `queue paused`.
    pub action: String,
    /// To what: a queue, an event, a filter.
    pub target: String,
    pub(super) id: EventId,
}

/// Which lines of the audit are read: all that is set must match.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Those whose targets begin with this name and a dot.
    pub namespace: Option<String>,
    /// Those about this queue or event, and all that is of it: `shop.close` has the lines of its
    /// events, `shop.close/<id>`, of what filters found in it, and of what was done to all queues of
    /// `shop`, or to every queue. A schedule is `schedules/<name>`.
    pub target: Option<String>,
    /// Whether those that name more than the target are left out: another queue, or all of a
    /// namespace. For readers who may not know of others.
    pub only_target: bool,
    /// Those whose actor contains this text.
    pub actor: Option<String>,
    /// Those whose action contains this text, such as `paused`.
    pub action: Option<String>,
    /// Those that were added at this time or later.
    pub since: Option<Timestamp>,
    /// Those that were added before this time.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    pub(super) fn matches(&self, line: &AuditLine) -> bool {
        let has = |text: &str, part: &Option<String>| {
            part.as_deref().is_none_or(|part| text.contains(part))
        };
        // A line may name some queues, and then a filter in words.
        let names = line.target.split(',').next().unwrap_or_default();
        let is_of = |target: &String| {
            let of_it = |name: &str| {
                let rest = name.strip_prefix(target.as_str());
                let within = name.strip_suffix('*').filter(|it| it.ends_with('.'));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    || within.is_some_and(|namespace| target.starts_with(namespace))
            };
            // What was done to every queue may name what is of another namespace.
            let of_all = self.namespace.is_none() && names == "every queue";
            let is_exact = |name: &str| !name.ends_with('*') && of_it(name);
            if self.only_target {
                return names.split(' ').all(is_exact);
            }
            line.target == *target || of_all || names.split(' ').any(of_it)
        };
        self.target.as_ref().is_none_or(is_of)
            && has(&line.actor, &self.actor)
            && has(&line.action, &self.action)
            && self.since.is_none_or(|since| line.at >= since)
            && self.until.is_none_or(|until| line.at < until)
    }
}

/// A place between two lines of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditCursor {
    pub(super) at: Timestamp,
    id: EventId,
}

/// A part of the audit, which has a bound of its own.
#[derive(Clone, Copy)]
pub(super) enum Trail {
    /// What was done for somebody.
    People,
    /// What programs did.
    Programs,
}

impl Trail {
    const fn name(self) -> &'static str {
        match self {
            Self::People => AUDIT,
            Self::Programs => PROGRAM_AUDIT,
        }
    }

    pub(super) const fn lines_max(self) -> usize {
        match self {
            Self::People => LINES_MAX,
            Self::Programs => PROGRAM_LINES_MAX,
        }
    }

    /// Returns the queue of the lines about a target: that of the namespace of the name that it begins
    /// with, or that of the store.
    pub(super) fn queue(self, target: &str) -> String {
        let name = target.strip_prefix("schedules/").unwrap_or(target);
        let name = name.split(['/', ',', ' ']).next().unwrap_or_default();
        let trail = beside(name, self.name());
        if QueueName::new(&trail).is_ok() {
            return trail;
        }
        self.name().to_owned()
    }
}

impl AuditLine {
    /// The place behind which older lines are.
    #[must_use]
    pub fn cursor(&self) -> AuditCursor {
        AuditCursor {
            at: self.at,
            id: self.id,
        }
    }
}

/// Formats as `milliseconds-id`.
impl std::fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.at.as_millis(), self.id)
    }
}

impl std::str::FromStr for AuditCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (at, id) = text.split_once('-')?;
            let is_plain = at.bytes().all(|byte| byte.is_ascii_digit());
            let is_plain = is_plain && (at == "0" || !at.starts_with('0'));
            let at = is_plain.then(|| at.parse().ok()).flatten()?;
            Some(Self {
                at: Timestamp::from_millis(at),
                id: id.parse().ok()?,
            })
        };
        read().ok_or_else(|| {
            Error::invalid(format!(
                "`{}` is not a cursor of the audit; use `next` of the page before",
                crate::error::shown(text)
            ))
        })
    }
}

/// Returns the day of a time, by which its lines are found.
pub(super) fn day_of(at: Timestamp) -> u64 {
    at.as_millis() / 86_400_000
}

/// Sorts lines, the newest first.
pub(super) fn newest_first(lines: &mut [AuditLine]) {
    lines.sort_unstable_by_key(|line| std::cmp::Reverse(line.cursor()));
}
