//! Which records wait for the journal: the outbox of an embedded store.
//!
//! ```text
//!  number   1 ........... trimmed | trimmed + 1 ........... next - 1 | next
//!           in the journal        | they wait                        | the next record gets it
//! ```
//!
//! A record that was trimmed is no reader's any more. Its row stays for as long as the bound on
//! rows allows: at start it says which events are over.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::error::Result;
use crate::store::outbox::{self, OutboxLimit, OutboxWatchers, WhenFull};
use crate::store::{Outbox, OutboxWatcher};

/// What the last commit left of the outbox, and how much it may hold.
#[derive(Debug)]
pub(super) struct Waiting {
    trimmed: AtomicI64,
    next: AtomicI64,
    /// How many may wait.
    max: AtomicI64,
    /// How many may where nobody says otherwise.
    max_anyway: i64,
    refuses: AtomicBool,
    watchers: OutboxWatchers,
}

/// The numbers of the records that wait: from `first` to the one before `next`, with gaps where
/// records are damaged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) first: i64,
    pub(super) next: i64,
}

impl Waiting {
    /// Up to `trimmed` all are in the journal, `next` is the number of the next record, and at most
    /// `max` may wait unless somebody says otherwise.
    pub(super) fn new(trimmed: i64, next: i64, max: u64) -> Self {
        Self {
            trimmed: AtomicI64::new(trimmed),
            next: AtomicI64::new(next),
            max: AtomicI64::new(number(max)),
            max_anyway: number(max),
            refuses: AtomicBool::new(false),
            watchers: OutboxWatchers::default(),
        }
    }

    pub(super) fn limit(&self, limit: OutboxLimit) {
        let max = limit.max.map_or(self.max_anyway, number);
        self.max.store(max, Ordering::Relaxed);
        let refuses = limit.when_full == WhenFull::RefusePushes;
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Refuses a push when no more records may wait.
    pub(super) fn check_room(&self) -> Result<()> {
        if !self.refuses.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Span { first, next } = self.span();
        let waiting = next.saturating_sub(first);
        if waiting < self.max.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(outbox::full(waiting.cast_unsigned()))
    }

    pub(super) fn trimmed(&self) -> i64 {
        self.trimmed.load(Ordering::Acquire)
    }

    pub(super) fn span(&self) -> Span {
        // In this order: a span may be longer than what is there, never shorter.
        let trimmed = self.trimmed();
        let next = self.next.load(Ordering::Acquire);
        let first = self.first(trimmed, next);
        Span { first, next }
    }

    /// The number of the first record that is not let go.
    pub(super) fn first(&self, trimmed: i64, next: i64) -> i64 {
        let first = trimmed + 1;
        if self.refuses.load(Ordering::Relaxed) {
            return first;
        }
        first.max(next.saturating_sub(self.max.load(Ordering::Relaxed)))
    }

    /// A commit is on disk: tells the watchers when it wrote records.
    pub(super) fn committed(&self, trimmed: i64, next: i64) {
        self.trimmed.store(trimmed, Ordering::Release);
        if self.next.swap(next, Ordering::AcqRel) != next {
            self.watchers.tell(&Outbox::Store);
        }
    }

    pub(super) fn watch(&self, watcher: std::sync::Arc<dyn OutboxWatcher>) {
        self.watchers.add(watcher);
    }
}

/// As the file has numbers.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
