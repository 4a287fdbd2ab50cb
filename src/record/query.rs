//! Queries for records: filter, order, cursor and page.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, shown};
use crate::event::{EventId, QueueName, TraceId};
use crate::record::{Cause, NodeId, Outcome, Record};
use crate::time::Timestamp;

/// A record and its sequence number in its outbox.
pub type Numbered = (u64, Record);

/// A filter for records; fields that are not set match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only records of this event.
    pub id: Option<EventId>,
    /// Only records of this queue.
    pub queue: Option<QueueName>,
    /// Only these outcomes; empty: all.
    pub outcomes: Vec<Outcome>,
    /// Only this cause.
    pub cause: Option<Cause>,
    /// Only records finished then or later.
    pub since: Option<Timestamp>,
    /// Only records finished before then.
    pub until: Option<Timestamp>,
    /// Only events with this key.
    pub key: Option<String>,
    /// Only attempts of this node.
    pub node: Option<NodeId>,
    /// Only this trace.
    pub trace: Option<TraceId>,
    /// Only errors that contain this text; case-sensitive.
    pub error: Option<String>,
    /// The order. Default: oldest first.
    pub order: Order,
    /// Only records after this cursor: [`Page::next`] of the previous page.
    pub after: Option<Cursor>,
    /// The page size, from 1 to 1,000. Default: 100.
    pub limit: Option<u32>,
}

/// The order of records: by the time at which they finished, then by number, then by event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Oldest first.
    #[default]
    Oldest,
    /// Newest first.
    Newest,
}

/// A position between two records.
///
/// It is stable while records arrive: the following pages repeat no record, and skip none that
/// existed when the first page was read.
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
    /// Returns the cursor of a record, which is unique.
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
                "`{}` is not a cursor; pass the one that the last page returned",
                shown(text)
            ))
        })
    }
}

impl Query {
    /// The largest page size.
    pub const LIMIT_MAX: u32 = 1_000;

    /// Returns the page size.
    #[must_use]
    pub fn page_len(&self) -> usize {
        self.limit.unwrap_or(100).clamp(1, Self::LIMIT_MAX) as usize
    }

    /// Returns whether `record` matches; ignores the cursor.
    #[must_use]
    pub fn matches(&self, record: &Record) -> bool {
        fn is<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
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

    /// Returns whether a record at `place` comes after the cursor.
    #[must_use]
    pub fn is_after(&self, place: Cursor) -> bool {
        self.after.is_none_or(|after| match self.order {
            Order::Oldest => place > after,
            Order::Newest => place < after,
        })
    }
}

/// A page of results, in order, with the cursor of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C = Cursor> {
    /// The results.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` if there are no more results. A page may be short or
    /// empty although there are more, because each scans a bounded number of records.
    pub next: Option<C>,
    /// The cursor from which a later query goes on; of records, also after the last page: it stands
    /// behind the last record, or where this page began if that has none.
    ///
    /// Oldest first, it finds what finishes later. Buckets write their records independently, so
    /// one may be written a moment after another that finished later: who follows records without
    /// missing any reads [until](crate::records::Records::until) some seconds ago.
    pub end: Option<C>,
}

impl<T, C: Clone> Page<T, C> {
    /// Creates a page that [ends](Self::end) where the next one begins.
    #[must_use]
    pub fn new(items: Vec<T>, next: Option<C>) -> Self {
        let end = next.clone();
        Self { items, next, end }
    }
}
