//! The journal: where consumption records are kept for later querying.
//!
//! ```text
//!   settle ──> outbox ──────────> recorder ──────────> journal
//!  (one step, in the store)   (reads, loads, trims)   (SQL, with indexes)
//!                  \                                   /
//!                   `──────────> reading <────────────'
//! ```
//!
//! A store writes records in the same step as the outcomes, into an [outbox](crate::store::Outbox).
//! A recorder carries them to the journal in bulk and trims the outbox once they are there, so a
//! slow or absent database slows no handler and loses nothing. Whoever reads looks into both.

mod choices;
pub(crate) mod counting;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod reading;
pub(crate) mod recorder;
#[cfg(feature = "embedded")]
mod sqlite;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use self::choices::RecordChoices;
pub use self::memory::MemoryJournal;
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresJournal;
pub use self::recorder::{JournalStatus, RecorderOptions};
#[cfg(feature = "embedded")]
pub use self::sqlite::{SqliteJournal, SqliteOptions};
use crate::error::Result;
pub use crate::record::{Found, Keep, Pruned};
use crate::record::{MinuteQuery, MinuteStats, Numbered, Query};
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
    fn page(&self, query: Query) -> JournalFuture<Found>;

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
