//! Outboxes: the records of a store that wait for the journal.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::record::Numbered;

/// The limit of records in one read of an outbox.
pub const OUTBOX_BATCH_MAX: usize = 10_000;

/// One sequence of records of a store.
///
/// Records are numbered consecutively as they are written, and wait until they are in the journal;
/// without a journal, the last ones stay.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outbox {
    /// The single outbox of a store that has one.
    Store,
    /// The outbox of one bucket.
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

/// A page of records of an outbox, with the outbox's bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutboxPage {
    /// The records, by ascending number.
    pub records: Vec<Numbered>,
    /// The last number that was examined, damaged records included: continue after it.
    pub last: u64,
    /// The number of damaged records that were skipped.
    pub damaged: u64,
    /// Whether records follow in the form of a newer duly, which this one cannot read. They are
    /// neither skipped nor to be trimmed, and wait for that version's recorder.
    pub newer: bool,
    /// The number of the oldest record.
    pub first: u64,
    /// The number of the next record: the outbox has `next - first` records.
    pub next: u64,
    /// The number of the last record that was trimmed, by whichever process: those between it and `first`
    /// were dropped, as the outbox was full.
    pub trimmed: u64,
}

impl OutboxPage {
    /// Returns whether more can be read after this page, even if all of it was damaged.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.newer && self.last.saturating_add(1) < self.next
    }
}

/// The size limit of an outbox, and the policy for reaching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimit {
    /// The limit of waiting records; `None`: as many as the store keeps anyway, and as many as other
    /// processes that share it keep by a limit of theirs.
    pub max: Option<u64>,
    /// What happens beyond the limit.
    pub when_full: WhenFull,
}

/// The policy of a full outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Drops the oldest records, which never reach the journal; each drop is logged and counted.
    /// Handlers and pushes go on. The default, and the only policy without a journal.
    #[default]
    DropOldest,
    /// Refuses new events with [`Full`](crate::ErrorKind::Full) until the journal has caught up,
    /// and drops no record. Stored events are still handled, so the outbox can grow by their
    /// records.
    RefusePushes,
}

/// The error of a push to a full outbox with `waiting` records.
pub(crate) fn full(waiting: u64) -> Error {
    Error::new(
        ErrorKind::Full,
        format!(
            "{waiting} records wait for the journal, which is the limit: check why the journal does \
             not take them"
        ),
    )
}

/// Refuses a limit of outboxes in a store without any.
pub(crate) fn no_limit(limit: OutboxLimit) -> Result<()> {
    if limit.max.is_none() && limit.when_full == WhenFull::DropOldest {
        return Ok(());
    }
    Err(Error::invalid(
        "no record waits for a journal in this store, which keeps its records itself: leave \
         `records.outbox_max` and `records.when_full` out; `records.keep_max` bounds how many it keeps",
    ))
}

/// A callback for new records in an outbox.
pub trait OutboxWatcher: Send + Sync {
    /// `outbox` has new records. Called often and from anywhere, so it must be quick.
    fn recorded(&self, outbox: &Outbox);
}
