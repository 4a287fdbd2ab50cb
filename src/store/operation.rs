//! Store operations, each typed with its reply.
//!
//! An operation is atomic on one bucket and idempotent: after an [`Unknown`] error it can be sent
//! again as it is. A push carries its ids, a fetch its request number, a settle the lease that it
//! belongs to, a heartbeat and a reap only state what is so.
//!
//! [`Unknown`]: crate::ErrorKind::Unknown
//!
//! # Examples
//!
//! ```
//! use duly::store::MemoryStore;
//! use duly::store::operation::{Stats, StoreOp};
//! # use duly::event::{BucketId, BucketKey};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> duly::Result<()> {
//! let store = MemoryStore::new();
//! let bucket = BucketKey::new("orders".parse()?, BucketId(0));
//! let stats = StoreOp::stats().apply(&store, &bucket).await?;
//! assert_eq!(stats, Stats::default());
//! # Ok(())
//! # }
//! ```

pub use crate::core::op::{
    AttemptOutcome, BATCH_BYTES, BATCH_MAX, CROWD, CROWD_SPAN, DeadLetterEdit, DeadPage, Delivery,
    FREE_INTERRUPTIONS_MAX, FailureReason, Fetch, FetchReport, HOLDS_MAX, HeartbeatReport, Holding,
    Lease, MoveReport, NewEvent, Operation, PeekBy, PeekCursor, PeekPage, PushOutcome, PushReport,
    ReapReport, Reply, RequestId, Response, Rewriting, SetAside, Settlement, Snapshot, StartMark,
    Stats, StoreOp,
};
use crate::error::{Error, Result};
use crate::event::BucketKey;
use crate::store::contract::Store;

impl<R> Operation<R> {
    /// Applies the operation to a bucket.
    ///
    /// # Errors
    ///
    /// The store's, and [`Corrupt`](crate::ErrorKind::Corrupt) when the reply is of another
    /// operation.
    pub async fn apply(self, store: &dyn Store, bucket: &BucketKey) -> Result<R> {
        Ok(self.apply_timed(store, bucket).await?.0)
    }

    /// As [`apply`](Self::apply), with the time of the store in microseconds.
    pub(crate) async fn apply_timed(
        self,
        store: &dyn Store,
        bucket: &BucketKey,
    ) -> Result<(R, u64)> {
        let Response { now_us, reply } = store.apply(bucket, self.op).await?;
        let reply = (self.reply)(reply).ok_or_else(unexpected)?;
        Ok((reply, now_us))
    }
}

/// The error for a reply that does not match the operation.
pub(crate) fn unexpected() -> Error {
    Error::corrupt("the store's reply does not match the operation")
}
