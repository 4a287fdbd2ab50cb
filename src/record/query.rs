//! Which records to read, in which order, and a page of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, shown};
use crate::event::{EventId, QueueName, TraceId};
use crate::record::{Cause, NodeId, Outcome, Record};
use crate::time::Timestamp;

/// A record and its number in its outbox: numbers count up by one as records are written.
pub type Numbered = (u64, Record);

/// Which records to read; everything that is not asked for matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only of this event.
    pub id: Option<EventId>,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only with one of these outcomes; empty: with any.
    pub outcomes: Vec<Outcome>,
    /// Only with this cause.
    pub cause: Option<Cause>,
    /// Only finished then or later.
    pub since: Option<Timestamp>,
    /// Only finished before then.
    pub until: Option<Timestamp>,
    /// Only of events with this key.
    pub key: Option<String>,
    /// Only of attempts that this node held.
    pub node: Option<NodeId>,
    /// Only of this trace.
    pub trace: Option<TraceId>,
    /// Only with this text somewhere in the error, as it is written.
    pub error: Option<String>,
    /// In which order. Default: the oldest first.
    pub order: Order,
    /// Only what comes after this one in that order: [`Page::next`] of the page before.
    pub after: Option<Cursor>,
    /// At most so many, from 1 to 1,000. Default: 100.
    pub limit: Option<u32>,
}

/// In which order records are read: that of the time at which they finished, then that of their
/// numbers, then of their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The oldest first.
    #[default]
    Oldest,
    /// The newest first.
    Newest,
}

/// A place between two records.
///
/// It stays where it is while records arrive: going on from there gives no record twice, and none
/// is passed over that was there when the first page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// When the record before it finished, in microseconds since the epoch.
    pub finished_us: u64,
    /// The number of that record.
    pub number: u64,
    /// Its event.
    pub id: EventId,
}

impl Cursor {
    /// The place of a record: it tells it from every other one.
    #[must_use]
    pub fn of((number, record): &Numbered) -> Self {
        Self {
            finished_us: record.stages.finished_us,
            number: *number,
            id: record.id,
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.finished_us, self.number, self.id)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let mut parts = text.split('-');
            let cursor = Self {
                finished_us: parts.next()?.parse().ok()?,
                number: parts.next()?.parse().ok()?,
                id: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(cursor)
        };
        read().ok_or_else(|| {
            Error::invalid(format!(
                "`{}` is no cursor: take the one that a page answered",
                shown(text)
            ))
        })
    }
}

impl Query {
    /// The most records of one page.
    pub const LIMIT_MAX: u32 = 1_000;

    /// How many records a page may hold.
    #[must_use]
    pub fn page_len(&self) -> usize {
        self.limit.unwrap_or(100).clamp(1, Self::LIMIT_MAX) as usize
    }

    /// Whether `record` is one of those asked for; the cursor is not looked at.
    #[must_use]
    pub fn matches(&self, record: &Record) -> bool {
        fn is<T: PartialEq>(asked: &Option<T>, found: &T) -> bool {
            asked.as_ref().is_none_or(|asked| asked == found)
        }
        let finished_us = record.stages.finished_us;
        is(&self.id, &record.id)
            && is(&self.queue, &record.queue)
            && (self.outcomes.is_empty() || self.outcomes.contains(&record.outcome))
            && (self.cause.is_none() || self.cause == record.cause)
            && self
                .since
                .is_none_or(|since| finished_us >= since.as_micros())
            && self
                .until
                .is_none_or(|until| finished_us < until.as_micros())
            && (self.key.is_none() || self.key == record.key)
            && is(&self.node, &record.node)
            && (self.trace.is_none() || self.trace == record.trace)
            && self.error.as_ref().is_none_or(|text| {
                let error = record.error.as_ref();
                error.is_some_and(|error| error.contains(text))
            })
    }

    /// Whether a record at `place` comes after the cursor.
    #[must_use]
    pub fn is_after(&self, place: Cursor) -> bool {
        self.after.is_none_or(|after| match self.order {
            Order::Oldest => place > after,
            Order::Newest => place < after,
        })
    }
}

/// Some results, in order, and where the next ones start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C = Cursor> {
    /// The results.
    pub items: Vec<T>,
    /// Where to go on; `None` when there are no more. A page may have fewer results than were
    /// asked for, or none, and there are more all the same: each looks at a bounded number of
    /// records.
    pub next: Option<C>,
}
