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
mod contract;
pub(crate) mod counting;
mod gap;
mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod reading;
pub(crate) mod recorder;
#[cfg(feature = "embedded")]
mod sqlite;
#[cfg(test)]
mod tests;
pub(crate) mod waiting;

pub use self::choices::RecordChoices;
pub use self::contract::{Batch, Journal, JournalFuture};
pub use self::memory::MemoryJournal;
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresJournal;
pub use self::recorder::{JournalStatus, RecorderOptions};
#[cfg(feature = "embedded")]
pub use self::sqlite::{SqliteJournal, SqliteOptions};
pub use crate::record::{FoundRecords, Keep, Pruned};
