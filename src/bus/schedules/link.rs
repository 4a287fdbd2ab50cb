//! A schedule as it is stored: the one event of it that waits, a link of a chain.
//!
//! The link says how far the schedule has come. It is due when the schedule is to be looked at
//! again: a bus leases it, pushes the occurrences that follow, then the next link, and acks it. Each of
//! these pushes has an id that the link determines, so that a bus that does it over, after a crash at
//! any point, changes nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::bus::own_queues::{OWN_BUCKETS, SCHEDULES, beside};
use crate::bus::schedules::declaration::Declarations;
use crate::error::{Error, Result, shown};
use crate::event::{BucketId, BucketKey, EventId, QueueName};
use crate::schedule::ScheduleOptions;
use crate::schedule::plan::Progress;
use crate::time::Timestamp;

/// The version of its stored form.
pub(super) const VERSION: u32 = 1;
/// The longest name of a schedule.
pub(super) const NAME_MAX: usize = 200;

/// A link of the chain of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    pub(super) version: u32,
    pub(super) name: String,
    /// Tells the schedule from an earlier one of its name that was removed.
    pub(super) life: u64,
    /// The number of the link.
    pub(super) number: u64,
    pub(super) options: ScheduleOptions,
    pub(super) progress: Progress,
    /// Increases with each change of the schedule.
    pub(super) change: u64,
    /// The change that the link was made under: another one is still to be carried out.
    pub(super) applied: u64,
    /// Since when its options hold: earlier instants are none of theirs.
    pub(super) since: Timestamp,
    /// The options until then, of which instants may be left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<ScheduleOptions>,
    pub(super) pushed: Pushed,
    /// The event of the last occurrence that was to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<LastEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<Timestamp>,
    /// It takes back what was pushed and is to come, for a change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) withdraws: bool,
    /// It is to end with this link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) removed: bool,
    #[serde(default)]
    pub(super) declarations: Declarations,
}

/// What a link and those before it have pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pushed {
    pub(super) queue: QueueName,
    pub(super) bucket: u16,
    /// The change under which.
    pub(super) change: u64,
    /// The instants that were to come, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ahead: Vec<Timestamp>,
    /// The instant before these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Timestamp>,
}

/// Where the event of an occurrence lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastEvent {
    pub(super) queue: QueueName,
    pub(super) bucket: u16,
    pub(super) id: EventId,
}

impl Pushed {
    /// Nothing that is to come, in a bucket of a queue.
    pub(super) fn none(
        (queue, bucket): (QueueName, u16),
        change: u64,
        before: Option<Timestamp>,
    ) -> Self {
        Self {
            queue,
            bucket,
            change,
            ahead: Vec::new(),
            before,
        }
    }

    /// The bucket that it lies in.
    pub(super) fn place(&self) -> BucketKey {
        BucketKey::new(self.queue.clone(), BucketId(self.bucket))
    }
}

impl Link {
    /// The first link of a schedule, which begins at `now`; `buckets`: those of its queue.
    pub(super) fn first(
        (name, options): (&str, ScheduleOptions),
        declarations: Declarations,
        buckets: u16,
        now: Timestamp,
    ) -> Self {
        Self {
            version: VERSION,
            name: name.to_owned(),
            life: fastrand::u64(..),
            number: 0,
            progress: Progress {
                through: now,
                last: None,
            },
            change: 1,
            applied: 1,
            since: now,
            former: None,
            pushed: Pushed::none((options.queue().clone(), bucket_of(name, buckets)), 1, None),
            last: None,
            paused: None,
            withdraws: false,
            removed: false,
            options,
            declarations,
        }
    }

    /// Gives it other options from `now` on; one that was removed begins anew.
    pub(super) fn set_options(&mut self, options: ScheduleOptions, now: Timestamp) {
        let before = std::mem::replace(&mut self.options, options);
        if std::mem::take(&mut self.removed) {
            self.paused = None; // it is another schedule
            self.progress.through = self.progress.through.max(now);
        }
        // Of two changes that nobody has carried out, the first never held.
        self.former.get_or_insert(before);
        self.since = now;
        self.change += 1;
    }

    /// The schedule with the options before a change, while instants of these are left.
    pub(super) fn acting(&self) -> Option<Self> {
        let options = self.former.clone()?;
        Some(Self {
            options,
            ..self.clone()
        })
    }

    /// The bucket of all links of a schedule, in the queue of its namespace.
    pub(super) fn home(name: &str) -> Result<BucketKey> {
        let queue = QueueName::new(&beside(name, SCHEDULES))?;
        Ok(BucketKey::new(queue, BucketId::of_text(name, OWN_BUCKETS)))
    }

    /// The id of the link: no other has it, and whoever makes it gives it the same one.
    pub(super) fn id(&self, queue: &QueueName) -> EventId {
        let words = format!("{}/{:x}/{}", self.name, self.life, self.number);
        EventId::for_name(queue, &words)
    }

    /// The id of an occurrence that was pushed as `pushed` says.
    pub(super) fn id_of(&self, pushed: &Pushed, instant: Timestamp) -> EventId {
        let (change, instant) = (pushed.change, instant.as_millis());
        let words = format!("{}/{:x}/{change}/{instant}", self.name, self.life);
        EventId::for_name(&pushed.queue, &words)
    }

    /// Notes the last occurrence that is to run, if there was one.
    pub(super) fn note_last(&mut self) {
        self.last = self.progress.last.map(|instant| LastEvent {
            queue: self.pushed.queue.clone(),
            bucket: self.pushed.bucket,
            id: self.id_of(&self.pushed, instant),
        });
    }

    /// A part of `span` that is its own, so that schedules of one instant are not looked at together.
    pub(super) fn part_of(&self, span: Duration) -> Duration {
        let part = xxh3_64(self.name.as_bytes()) % 1_000;
        span.mul_f64(part as f64 / 1_000.0)
    }
}

/// The bucket that the occurrences of a schedule go to.
pub(super) fn bucket_of(name: &str, buckets: u16) -> u16 {
    BucketId::of_text(name, buckets).0
}

/// Rejects what cannot be the name of a schedule.
pub(in crate::bus) fn check_name(name: &str) -> Result<()> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{}` cannot be the name of a schedule; it is 1 to {NAME_MAX} letters, digits, `.`, `_` or `-`",
        shown(name)
    )))
}
