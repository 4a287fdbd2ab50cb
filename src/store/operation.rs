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
//! use duly::store::{MemoryStore, Store};
//! use duly::store::operation::{Reply, StoreOp};
//! # use duly::event::{BucketId, BucketKey};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> duly::Result<()> {
//! let store = MemoryStore::new();
//! let bucket = BucketKey::new("orders".parse()?, BucketId(0));
//! let answer = store.apply(&bucket, StoreOp::Stats).await?;
//! assert_eq!(answer.reply, Reply::Stats(Default::default()));
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

pub use crate::core::op::{
    Answer, AttemptOutcome, BATCH_BYTES, BATCH_MAX, Delivery, FailureReason, Fetch, HOLDS_MAX,
    Holding, Lease, NewEvent, PeekBy, PeekCursor, PushOutcome, Pushed, Reaped, Reply, RequestId,
    Rewriting, Settlement, Snapshot, StartMark, Stats, StoreOp,
};
use crate::core::op::{Cancelled, Changed};
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId, Payload};
use crate::store::Store;
use crate::time::When;

/// An operation, with the function that extracts its reply `R` from the store's.
pub(crate) struct Operation<R> {
    op: StoreOp,
    reply: fn(Reply) -> Option<R>,
}

impl<R> Operation<R> {
    /// Applies the operation to a bucket.
    ///
    /// # Errors
    ///
    /// The store's, and [`Corrupt`](crate::ErrorKind::Corrupt) when the reply is of another
    /// operation.
    pub(crate) async fn apply(self, store: &dyn Store, bucket: &BucketKey) -> Result<R> {
        Ok(self.apply_timed(store, bucket).await?.0)
    }

    /// As [`apply`](Self::apply), with the time of the store in microseconds.
    pub(crate) async fn apply_timed(
        self,
        store: &dyn Store,
        bucket: &BucketKey,
    ) -> Result<(R, u64)> {
        let Answer { now_us, reply } = store.apply(bucket, self.op).await?;
        let reply = (self.reply)(reply).ok_or_else(unexpected)?;
        Ok((reply, now_us))
    }
}

/// The error for a reply that does not match the operation.
pub(crate) fn unexpected() -> Error {
    Error::corrupt("the store's reply does not match the operation")
}

/// Extracts the reply of one variant.
macro_rules! replies {
    ($variant:pat => $reply:expr) => {
        |reply| match reply {
            $variant => Some($reply),
            _ => None,
        }
    };
}

impl StoreOp {
    pub(crate) fn cancel(id: EventId) -> Operation<Cancelled> {
        Operation {
            op: Self::Cancel { id },
            reply: replies!(Reply::Cancelled(cancelled) => cancelled),
        }
    }

    pub(crate) fn reschedule(id: EventId, when: When) -> Operation<Changed> {
        Operation {
            op: Self::Reschedule { id, when },
            reply: replies!(Reply::Rescheduled(changed) => changed),
        }
    }

    /// Updates a waiting event.
    pub(crate) fn update(id: EventId, payload: Payload) -> Operation<Changed> {
        Operation {
            op: Self::Update {
                id,
                payload,
                by: None,
                dead_only: false,
            },
            reply: replies!(Reply::Updated(changed) => changed),
        }
    }

    /// Edits a dead letter.
    pub(crate) fn edit(id: EventId, payload: Payload, by: Option<String>) -> Operation<Changed> {
        Operation {
            op: Self::Update {
                id,
                payload,
                by,
                dead_only: true,
            },
            reply: replies!(Reply::Updated(changed) => changed),
        }
    }

    pub(crate) fn rewrite(rewritings: Vec<Rewriting>) -> Operation<usize> {
        Operation {
            op: Self::Rewrite(rewritings),
            reply: replies!(Reply::Counted(count) => count),
        }
    }

    pub(crate) fn get(id: EventId) -> Operation<Option<Snapshot>> {
        Operation {
            op: Self::Get { id },
            reply: replies!(Reply::Found(found) => found),
        }
    }

    /// Reads a page, and the position of the next one.
    pub(crate) fn peek(
        by: PeekBy,
        from: Option<PeekCursor>,
        limit: usize,
    ) -> Operation<(Vec<Snapshot>, Option<PeekCursor>)> {
        Operation {
            op: Self::Peek { by, from, limit },
            reply: replies!(Reply::Peeked { events, next } => (events, next)),
        }
    }

    /// Reads a page, and the dead letter after which the next page begins.
    pub(crate) fn read_dead(
        after: Option<EventId>,
        limit: usize,
    ) -> Operation<(Vec<Snapshot>, Option<EventId>)> {
        Operation {
            op: Self::ReadDead { after, limit },
            reply: replies!(Reply::Dead { letters, next } => (letters, next)),
        }
    }

    pub(crate) fn revive(ids: Vec<EventId>, by: Option<String>) -> Operation<usize> {
        Operation {
            op: Self::Revive { ids, by },
            reply: replies!(Reply::Counted(count) => count),
        }
    }

    pub(crate) fn drop_dead(ids: Vec<EventId>, by: Option<String>) -> Operation<usize> {
        Operation {
            op: Self::Drop { ids, by },
            reply: replies!(Reply::Counted(count) => count),
        }
    }

    pub(crate) fn stats() -> Operation<Stats> {
        Operation {
            op: Self::Stats,
            reply: replies!(Reply::Stats(stats) => stats),
        }
    }

    /// Counts the events that are due within each of these spans.
    pub(crate) fn forecast(within: Vec<Duration>) -> Operation<Vec<usize>> {
        Operation {
            op: Self::Forecast { within },
            reply: replies!(Reply::Forecast(counts) => counts),
        }
    }
}
