//! Outboxes: where records wait for the journal.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind};
use crate::event::BucketKey;
use crate::record::Numbered;

/// The most records that one read of an outbox answers.
pub const OUTBOX_BATCH_MAX: usize = 10_000;

/// One sequence of records of a store.
///
/// They are numbered one after the other as they are written, and wait until they are in the
/// journal; where there is none, the last ones stay.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outbox {
    /// The one of a store that has only one.
    Store,
    /// That of one bucket.
    Bucket(BucketKey),
}

impl fmt::Display for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("store"),
            Self::Bucket(bucket) => bucket.fmt(f),
        }
    }
}

/// Some records of an outbox, and what it holds beside them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutboxPage {
    /// The records, in the order of their numbers.
    pub records: Vec<Numbered>,
    /// Up to which number it was looked, damaged records included: reading goes on after it.
    pub last: u64,
    /// Numbers of damaged records that were passed over.
    pub damaged: u64,
    /// Whether records follow that a newer duly has written in a form that this one does not read:
    /// they are neither passed over nor to be trimmed, and wait for its recorder.
    pub newer: bool,
    /// The number of the oldest record that is there.
    pub first: u64,
    /// The number that the next record will get: `next - first` are there.
    pub next: u64,
}

impl OutboxPage {
    /// Whether there is more to be read after what was looked at, even if all of that was damaged.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.newer && self.last.saturating_add(1) < self.next
    }
}

/// How much an outbox keeps, and what happens when that is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimit {
    /// How many records wait at most; `None`: as many as the store keeps anyway.
    pub max: Option<u64>,
    /// What happens when there are more.
    pub when_full: WhenFull,
}

/// What happens when more records wait for the journal than an outbox keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest are let go, never to reach the journal; it is logged and counted. Handlers and
    /// pushes go on. The default, and all there is without a journal.
    #[default]
    DropOldest,
    /// New events are refused as [`Full`](crate::ErrorKind::Full) until the journal has caught up,
    /// and no record is let go. What is stored is handled to its end, so the outbox can grow by
    /// that.
    RefusePushes,
}

/// The error of a push while `waiting` records wait and no more are to.
pub(crate) fn full(waiting: u64) -> Error {
    Error::new(
        ErrorKind::Full,
        format!(
            "{waiting} records wait for the journal, and no more are to wait: see what keeps the \
             journal"
        ),
    )
}

/// Told by a store that an outbox has records that it had not before.
pub trait OutboxWatcher: Send + Sync {
    /// `outbox` has new records. Called often and from anywhere, so it must be quick.
    fn recorded(&self, outbox: &Outbox);
}

/// Who is told of new records.
#[derive(Default)]
pub(crate) struct OutboxWatchers(Mutex<Vec<Arc<dyn OutboxWatcher>>>);

/// How many watchers are told; beyond that the one that came first is let go.
const WATCHERS_MAX: usize = 64;

impl OutboxWatchers {
    /// From now on `watcher` is told as well.
    pub(crate) fn add(&self, watcher: Arc<dyn OutboxWatcher>) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.len() == WATCHERS_MAX {
            watchers.remove(0);
        }
        watchers.push(watcher);
    }

    /// Tells everybody.
    pub(crate) fn tell(&self, outbox: &Outbox) {
        let watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for watcher in watchers.iter() {
            watcher.recorded(outbox);
        }
    }
}

impl fmt::Debug for OutboxWatchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxWatchers").finish_non_exhaustive()
    }
}
