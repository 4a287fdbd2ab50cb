//! A filter over records, and a page of them.

use crate::event::{EventId, QueueName};
use crate::record::{Outcome, Record};

/// Which records to read; everything that is not asked for matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this event.
    pub id: Option<EventId>,
    /// Only with this outcome.
    pub outcome: Option<Outcome>,
    /// Only with a record number greater than this: the cursor of the page before.
    pub after: Option<u64>,
    /// At most so many, from 1 to 1,000. Default: 100.
    pub limit: Option<u32>,
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
        self.queue
            .as_ref()
            .is_none_or(|queue| *queue == record.queue)
            && self.id.is_none_or(|id| id == record.id)
            && self.outcome.is_none_or(|outcome| outcome == record.outcome)
    }
}

/// Some results, in order, and where the next ones start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C = u64> {
    /// The results.
    pub items: Vec<T>,
    /// The cursor for the next page; `None` when this is the last one.
    pub next: Option<C>,
}
