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

use std::time::Duration;

pub use crate::core::op::{
    Answer, AttemptOutcome, BATCH_BYTES, BATCH_MAX, CROWD, CROWD_SPAN, DeadLetterEdit, DeadPage,
    Delivery, FREE_INTERRUPTIONS_MAX, FailureReason, Fetch, Fetched, HOLDS_MAX, Holding, Kept,
    Lease, Moved, NewEvent, PeekBy, PeekCursor, Peeked, PushOutcome, Pushed, Reaped, Reply,
    RequestId, Rewriting, SetAside, Settlement, Snapshot, StartMark, Stats, StoreOp,
};
use crate::core::op::{Cancelled, Changed};
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId, Payload};
use crate::record::NodeId;
use crate::store::contract::Store;
use crate::time::When;

/// An operation with its own type of reply `R`.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is applied"]
pub struct Operation<R> {
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
    pub async fn apply(self, store: &dyn Store, bucket: &BucketKey) -> Result<R> {
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
    ($variant:ident) => {
        |reply| match reply {
            Reply::$variant(reply) => Some(reply),
            _ => None,
        }
    };
}

/// The operations, each with its type of reply.
impl StoreOp {
    /// Adds events. Replies with the result for each, in order.
    pub fn push(events: Vec<NewEvent>) -> Operation<Vec<Pushed>> {
        Operation {
            op: Self::Push(events),
            reply: replies!(Pushed),
        }
    }

    /// Moves due events to the ready list.
    pub fn move_due(limit: usize, calls: bool) -> Operation<Moved> {
        Operation {
            op: Self::MoveDue { limit, calls },
            reply: replies!(Moved),
        }
    }

    /// Leases events to a node.
    pub fn fetch(fetch: Fetch) -> Operation<Fetched> {
        Operation {
            op: Self::Fetch(fetch),
            reply: replies!(Fetched),
        }
    }

    /// Ends attempts. Replies for each whether its lease still stood.
    pub fn settle(
        node: NodeId,
        settlements: Vec<Settlement>,
        started: StartMark,
    ) -> Operation<Vec<bool>> {
        Operation {
            op: Self::Settle {
                node,
                settlements,
                started,
            },
            reply: replies!(Settled),
        }
    }

    /// Renews the leases of a node.
    pub fn heartbeat(node: NodeId, holds: Holding, started: StartMark) -> Operation<Kept> {
        Operation {
            op: Self::Heartbeat {
                node,
                holds,
                started,
            },
            reply: replies!(Kept),
        }
    }

    /// States which leases of these fetches, from the first to the last, a node still holds. Replies
    /// what was taken back.
    pub fn reconcile(
        node: NodeId,
        (from, through): (RequestId, RequestId),
        held: Vec<(RequestId, Vec<EventId>)>,
        started: StartMark,
        limit: usize,
    ) -> Operation<Reaped> {
        Operation {
            op: Self::Reconcile {
                node,
                from,
                through,
                held,
                started,
                limit,
            },
            reply: replies!(Reaped),
        }
    }

    /// Moves the deadlines of leases. Replies for each whether it still stood.
    pub fn extend(
        node: NodeId,
        leases: Vec<(EventId, RequestId)>,
        hold: Duration,
    ) -> Operation<Vec<bool>> {
        Operation {
            op: Self::Extend { node, leases, hold },
            reply: replies!(Extended),
        }
    }

    /// Takes back the leases of timed-out nodes, and those past their deadline.
    pub fn reap(silent: Vec<(NodeId, u64)>, limit: usize) -> Operation<Reaped> {
        Operation {
            op: Self::Reap { silent, limit },
            reply: replies!(Reaped),
        }
    }

    /// Cancels an event.
    pub fn cancel(id: EventId) -> Operation<Cancelled> {
        Operation {
            op: Self::Cancel { id },
            reply: replies!(Cancelled),
        }
    }

    /// Changes the due time of a waiting event.
    pub fn reschedule(id: EventId, when: When) -> Operation<Changed> {
        Operation {
            op: Self::Reschedule { id, when },
            reply: replies!(Rescheduled),
        }
    }

    /// Replaces the payload of a waiting event.
    pub fn update(id: EventId, payload: Payload) -> Operation<Changed> {
        Operation {
            op: Self::Update {
                id,
                payload,
                by: None,
                dead_only: false,
            },
            reply: replies!(Updated),
        }
    }

    /// Replaces the payload of a dead letter.
    pub fn edit(id: EventId, payload: Payload, by: Option<String>) -> Operation<Changed> {
        Operation {
            op: Self::Update {
                id,
                payload,
                by,
                dead_only: true,
            },
            reply: replies!(Updated),
        }
    }

    /// Replaces the payload of a dead letter that is still as it was read, and revives it.
    pub fn edit_and_revive(edit: DeadLetterEdit) -> Operation<Changed> {
        Operation {
            op: Self::EditAndRevive(edit),
            reply: replies!(Updated),
        }
    }

    /// Re-encodes payloads. Replies how many.
    pub fn rewrite(rewritings: Vec<Rewriting>) -> Operation<usize> {
        Operation {
            op: Self::Rewrite(rewritings),
            reply: replies!(Counted),
        }
    }

    /// Reads one event.
    pub fn get(id: EventId) -> Operation<Option<Snapshot>> {
        Operation {
            op: Self::Get { id },
            reply: replies!(Found),
        }
    }

    /// Reads a page of live events.
    pub fn peek(by: PeekBy, from: Option<PeekCursor>, limit: usize) -> Operation<Peeked> {
        Operation {
            op: Self::Peek { by, from, limit },
            reply: replies!(Peeked),
        }
    }

    /// Reads a page of dead letters.
    pub fn read_dead(after: Option<EventId>, limit: usize) -> Operation<DeadPage> {
        Operation {
            op: Self::ReadDead { after, limit },
            reply: replies!(Dead),
        }
    }

    /// Makes dead letters ready again. Replies how many.
    pub fn revive(ids: Vec<EventId>, by: Option<String>) -> Operation<usize> {
        Operation {
            op: Self::Revive { ids, by },
            reply: replies!(Counted),
        }
    }

    /// Removes dead letters for good. Replies how many.
    pub fn drop_dead(ids: Vec<EventId>, by: Option<String>) -> Operation<usize> {
        Operation {
            op: Self::Drop { ids, by },
            reply: replies!(Counted),
        }
    }

    /// Counts events by state.
    pub fn stats() -> Operation<Stats> {
        Operation {
            op: Self::Stats,
            reply: replies!(Stats),
        }
    }

    /// Counts the events that are due within each of these spans.
    pub fn forecast(within: Vec<Duration>) -> Operation<Vec<usize>> {
        Operation {
            op: Self::Forecast { within },
            reply: replies!(Forecast),
        }
    }
}
