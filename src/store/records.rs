//! Records that a store keeps where they are asked for.

use std::fmt;
use std::sync::Arc;

use crate::record::{FoundRecords, Keep, MinuteQuery, MinuteStats, Query};
use crate::store::future::StoreFuture;

/// The records of a store that has no [outbox](super::Outbox): it writes them where they are asked
/// for, in the same step as the outcomes, and removes the oldest by itself.
pub trait RecordTable: fmt::Debug + Send + Sync {
    /// Reads records. It looks at a bounded number of them, so it may return few, or none, and say
    /// where to go on. What was decided before the call is in it.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn page(self: Arc<Self>, query: Query) -> StoreFuture<FoundRecords>;

    /// Reads counts and lateness by queue and minute, in the order of minutes, then of queues.
    ///
    /// They count every record that was written, those that were removed since as well.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn minutes(self: Arc<Self>, query: MinuteQuery) -> StoreFuture<Vec<MinuteStats>>;

    /// Sets how long records are kept, and how many. Default: [`Keep::default`].
    fn keep(&self, keep: Keep);
}
