//! The journal trait, and what is loaded into one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::error::{Error, Result};
use crate::record::{
    Cursor, FoundRecords, Keep, MinuteQuery, MinuteStats, Numbered, Pruned, Query,
};
use crate::time::Timestamp;

/// A future that a journal returns.
pub type JournalFuture<T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'static>>;

/// Where records are kept.
///
/// A journal is whatever passes the suite in `tests/journal`.
pub trait Journal: fmt::Debug + Send + Sync + 'static {
    /// Takes in records, all of them or none; returns when they are as durable as anything there.
    ///
    /// A record is there once, however often it is loaded and by whomever: it is told from every
    /// other by its [`Cursor`](crate::record::Cursor). The recorder of a bus has up to two loads under way at a time, of
    /// different outboxes.
    ///
    /// # Errors
    ///
    /// When the journal cannot be written; loading the same again is safe.
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()>;

    /// Reads records. It looks at a bounded number of them, so it may answer few, or none, and say
    /// where to go on.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    fn page(&self, query: Query) -> JournalFuture<FoundRecords>;

    /// Counts and lateness by queue and minute, in the order of minutes, then of queues.
    ///
    /// They count every record that was loaded, those that were pruned since as well.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    fn minutes(&self, query: MinuteQuery) -> JournalFuture<Vec<MinuteStats>>;

    /// Removes some of what is beyond `keep` at `now`, a bounded part, so that nobody waits for it.
    ///
    /// A clock that has jumped ahead must not empty it. So an age counts back from the earliest of
    /// `now`, the journal's own clock and the newest record; and what is beyond an age goes at a
    /// tenth of that age in an hour, or two hours' worth where that is more. A count does not go by
    /// any clock, and has no such limit.
    ///
    /// # Errors
    ///
    /// When the journal cannot be written.
    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned>;

    /// Erases the payloads and the error texts of the records at these places, at most 1,000, all or
    /// none; those that are not there are left out. What else a record says stays. Default:
    /// [`Invalid`](crate::ErrorKind::Invalid), a journal that erases nothing.
    ///
    /// # Errors
    ///
    /// When the journal cannot be written; erasing the same again is safe.
    fn erase(&self, places: Vec<Cursor>) -> JournalFuture<()> {
        drop(places);
        let refused = format!("{self:?} cannot erase what its records hold");
        Box::pin(std::future::ready(Err(Error::invalid(refused))))
    }

    /// Lets go of files and connections.
    ///
    /// # Errors
    ///
    /// When something on its way could not be written.
    fn close(&self) -> JournalFuture<()>;
}

/// Records of one outbox, in the order of their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The outbox's name, that of its store in front.
    pub outbox: String,
    /// The records.
    pub records: Vec<Numbered>,
}
