//! The audit of a store: who did what to it, kept in the store itself.
//!
//! A line is an event of the bus's own queue `duly.audit` that is never due before it expires, so no
//! consumer gets it. Whatever works on the store finds it there: a command without a server, a
//! dashboard of another process.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bus::events::StoredEvent;
use crate::bus::fan_out::in_order;
use crate::bus::handle::Bus;
use crate::bus::queue::Queue;
use crate::bus::scan::{PAGE, Scan, ScanPage};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::event::{AUDIT, EventId};
use crate::record::{BY_BYTES_MAX, Page};
use crate::time::Timestamp;

use futures_util::TryStreamExt;

/// How many lines are kept, and how many more there may be before the oldest go.
const LINES_MAX: usize = 10_000;
const LINES_OVER: usize = 256;
/// How long a line is kept.
const KEPT: Duration = Duration::from_secs(400 * 86_400);
/// The longest action, and the longest target, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;
/// The most lines of a page.
const PAGE_MAX: usize = 1_000;

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
    id: EventId,
}

/// A place between two lines of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditCursor {
    at: Timestamp,
    id: EventId,
}

/// A line as it is stored.
#[derive(Deserialize, Serialize)]
struct StoredLine {
    actor: String,
    action: String,
    target: String,
}

impl Bus {
    /// Adds a line to the audit of the store: who did what to what. `duly` adds one for each action on
    /// its dashboard and over its API, and for each command; a program adds its own for what its
    /// operators do.
    ///
    /// The newest 10,000 lines are kept, for 400 days.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an actor of more than 128 bytes, or an
    /// action of more than 1,024; or the store's error. A target is cut off behind 1,024 bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.pause("order-close").await?;
    /// bus.add_to_audit("deploy 17", "queue paused", "order-close").await?;
    ///
    /// let page = bus.audit(None, 10).await?;
    /// assert_eq!((&*page.items[0].actor, &*page.items[0].action), ("deploy 17", "queue paused"));
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn add_to_audit(&self, actor: &str, action: &str, target: &str) -> Result<()> {
        for (name, text, most) in [
            ("actor", actor, BY_BYTES_MAX),
            ("action", action, TEXT_BYTES_MAX),
        ] {
            if text.is_empty() || text.len() > most {
                return Err(Error::invalid(format!(
                    "the {name} has {} bytes; it must have 1 to {most}",
                    text.len()
                )));
            }
        }
        let line = StoredLine {
            actor: actor.to_owned(),
            action: action.to_owned(),
            target: target[..target.floor_char_boundary(TEXT_BYTES_MAX)].to_owned(),
        };
        let queue = self.audit_queue()?;
        let event = queue.event(line).after(KEPT).expires_after(KEPT);
        event.keep_payload(false).push().await?;
        self.trim_audit(&queue).await
    }

    /// Returns a page of the audit, the newest line first, from a place on; at most `limit` lines, up
    /// to 1,000. Lines of the same millisecond come in any order, always the same.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn audit(
        &self,
        before: Option<AuditCursor>,
        limit: usize,
    ) -> Result<Page<AuditLine, AuditCursor>> {
        let limit = limit.clamp(1, PAGE_MAX);
        let mut lines = self.audit_lines().await?;
        lines.retain(|line| before.is_none_or(|before| line.cursor() < before));
        lines.sort_unstable_by_key(|line| std::cmp::Reverse(line.cursor()));
        let has_more = lines.len() > limit;
        lines.truncate(limit);
        let next = lines.last().filter(|_| has_more).map(AuditLine::cursor);
        Ok(Page::new(lines, next))
    }

    /// Reads all lines: their number is bounded. One that cannot be read, as its key is gone, is left
    /// out.
    async fn audit_lines(&self) -> Result<Vec<AuditLine>> {
        let is_audit = |queue: &crate::event::QueueName| queue.as_str() == AUDIT;
        let mut scan = Scan::unfinished(&self.inner, is_audit, None).await?;
        let (mut lines, mut read) = (Vec::new(), 0);
        while read < LINES_MAX + 2 * LINES_OVER {
            let Some(ScanPage { bucket, events }) = scan.next(PAGE).await? else {
                break;
            };
            read += events.len();
            lines.extend(events.iter().filter_map(|event| {
                let event = StoredEvent::new(self.inner.clone(), bucket.clone(), event);
                let line: StoredLine = event.payload_as().ok()?;
                Some(AuditLine {
                    at: event.pushed?,
                    actor: line.actor,
                    action: line.action,
                    target: line.target,
                    id: event.id,
                })
            }));
        }
        Ok(lines)
    }

    fn audit_queue(&self) -> Result<Queue<StoredLine>> {
        Ok(Self::from_inside(self.inner.clone())
            .queue_named(AUDIT)?
            .with_codec(Codec::Json))
    }

    /// Removes the oldest lines where there are too many.
    async fn trim_audit(&self, queue: &Queue<StoredLine>) -> Result<()> {
        let stats = self.stats(AUDIT).await?;
        if stats.scheduled <= LINES_MAX + LINES_OVER {
            return Ok(());
        }
        let mut lines = self.audit_lines().await?;
        lines.sort_unstable_by_key(AuditLine::cursor);
        let old = lines.len().saturating_sub(LINES_MAX);
        let cancelled = lines.iter().take(old).map(|line| queue.cancel(line.id));
        in_order(cancelled).try_for_each(|_| async { Ok(()) }).await
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
