//! Inputs and actions of the node state machine.

use crate::core::membership::Member;
use crate::core::op::{AttemptOutcome, Delivery, RequestId, Response, Settlement, StoreOp};
use crate::error::ErrorKind;
use crate::event::BucketKey;
use crate::time::Mono;

/// Correlates a store call with its reply.
pub type CallId = u64;

/// An event that the node reacts to.
#[derive(Debug)]
pub enum Input<B> {
    /// The store reports that a bucket's next work is earlier than before.
    Woken {
        /// The bucket's index in the node.
        bucket: usize,
    },
    /// The bucket's owner has no room for its ready events and calls the other nodes.
    Called {
        /// The bucket's index in the node.
        bucket: usize,
    },
    /// A store call completed or failed.
    Answered {
        /// The call.
        call: CallId,
        /// When the reply arrived: the sooner that is known, the tighter is the bound of the store's
        /// time.
        arrived: Mono,
        /// The reply.
        response: Result<Response<B>, ErrorKind>,
    },
    /// A published event left the node: its handler ended, or it was handed back.
    Ended {
        /// The bucket's index in the node.
        bucket: usize,
        /// The settlement to send.
        settlement: Settlement,
    },
    /// A queue's capacity or number of workers changed; capacity 0 pauses it.
    Resized {
        /// The queue's index in the node.
        queue: usize,
        /// The new capacity, in events.
        capacity: usize,
        /// How many handlers run at once.
        workers: usize,
    },
    /// A queue's rate limit changed.
    Rated {
        /// The queue's index in the node.
        queue: usize,
        /// Handler starts per second, over all nodes; `None` is unlimited.
        rate: Option<f64>,
    },
    /// A queue's calls to the store end, with its heartbeats, so that its leases are lost; or they
    /// begin again.
    Halted {
        /// The queue's index in the node.
        queue: usize,
        /// Whether they end.
        is_halted: bool,
    },
    /// Serve another bucket; no effect if it is already served.
    Serve {
        /// The index of its queue in the node.
        queue: usize,
        /// The bucket.
        bucket: BucketKey,
    },
    /// A membership poll succeeded.
    MembersSeen {
        /// All members.
        members: Vec<Member>,
    },
    /// A membership poll failed.
    PollFailed,
    /// Stop fetching, hand back prefetched events and settle what ends.
    Stop,
}

/// An effect for the driver to carry out.
#[derive(Debug)]
pub enum Action<B> {
    /// Call the store.
    Call {
        /// The number to reply under.
        call: CallId,
        /// The bucket's index in the node.
        bucket: usize,
        /// The operation.
        op: StoreOp,
    },
    /// Poll the membership.
    PollMembers,
    /// Another node left or timed out; others take over its duties.
    MemberLost,
    /// A bucket is served from now on: subscribe to its wake-ups.
    Served {
        /// Its index in the node.
        bucket: usize,
    },
    /// Publish into a queue's ring.
    Publish {
        /// The queue's index in the node.
        queue: usize,
        /// The jobs; there is room for all of them.
        jobs: Vec<Job<B>>,
    },
    /// Hand back what waits in a queue's ring: more is published than there are credits now.
    Withdraw {
        /// The queue's index in the node.
        queue: usize,
    },
    /// Handlers may start on this bucket's leases until `until`.
    Fresh {
        /// The bucket's index in the node.
        bucket: usize,
        /// The end.
        until: Mono,
    },
    /// Leases of this bucket from fetches up to `through` may be lost: nothing may start on them.
    Lost {
        /// The bucket's index in the node.
        bucket: usize,
        /// The last fetch concerned.
        through: RequestId,
        /// `true`: the store reported that others took the leases. `false`: they were not renewed
        /// in time, or had all ended when a heartbeat arrived.
        is_certain: bool,
    },
    /// Settlements arrived after their lease was lost; the loss is on record.
    Refused {
        /// The bucket's index in the node.
        bucket: usize,
        /// How many.
        lost: usize,
    },
    /// The store has failed for good (fail-stop): nothing further happens in this bucket.
    StoreFailed {
        /// The bucket's index in the node.
        bucket: usize,
        /// The store's error.
        kind: ErrorKind,
    },
    /// The node has stopped.
    Stopped,
}

/// A leased event on its way to a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job<B> {
    /// The bucket's index in the node.
    pub bucket: usize,
    /// When it was leased, by the store's clock, in microseconds since the epoch.
    pub fetched_us: u64,
    /// The event.
    pub delivery: Delivery<B>,
}

impl<B> Job<B> {
    /// Returns the settlement that hands this delivery back: its handler never started.
    #[must_use]
    pub fn release(&self) -> Settlement {
        Settlement {
            id: self.delivery.id,
            request: self.delivery.request,
            verdict: AttemptOutcome::Release,
            started_us: 0,
            fetched_us: self.fetched_us,
        }
    }
}
