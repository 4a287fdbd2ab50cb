//! What happens to a node, and what it answers that should happen.

use crate::core::op::{Answer, Delivery, RequestId, Settlement, StoreOp, Verdict};
use crate::core::roll::Member;
use crate::error::ErrorKind;
use crate::event::BucketKey;
use crate::time::Mono;

/// The number of a call to the store, by which its answer finds back.
pub type CallId = u64;

/// What happened.
#[derive(Debug)]
pub enum Input<B> {
    /// The store says that a bucket's next work comes earlier than it was.
    Woken {
        /// The bucket's place in the node.
        bucket: usize,
    },
    /// The node that looks first at a bucket has no room for what is ready there.
    Called {
        /// The bucket's place in the node.
        bucket: usize,
    },
    /// A call was answered, or it is clear that it will not be.
    Answered {
        /// Which call.
        call: CallId,
        /// The answer.
        answer: Result<Answer<B>, ErrorKind>,
    },
    /// A published event is off the node's hands: its handler ended, or it was handed back.
    Ended {
        /// The bucket's place in the node.
        bucket: usize,
        /// What is to be settled.
        settlement: Settlement,
    },
    /// A queue takes so many events from now on; 0 pauses it.
    Resized {
        /// The queue's place in the node.
        queue: usize,
        /// Its new capacity.
        capacity: usize,
        /// How many of its handlers run at once.
        workers: usize,
    },
    /// Handlers of a queue start at most so often from now on.
    Rated {
        /// The queue's place in the node.
        queue: usize,
        /// How many in a second, on all nodes together; `None`: as many as there is room for.
        rate: Option<f64>,
    },
    /// There is one more bucket to serve; one that is served already changes nothing.
    Serve {
        /// The place of its queue in the node.
        queue: usize,
        /// The bucket.
        bucket: BucketKey,
    },
    /// A roll call was answered.
    Rolled {
        /// Every member.
        members: Vec<Member>,
    },
    /// A roll call was not answered.
    NotRolled,
    /// The node shall fetch nothing more, hand back what it holds and settle what ends.
    Stop,
}

/// What should happen.
#[derive(Debug)]
pub enum Action<B> {
    /// Ask the store.
    Call {
        /// The number to answer under.
        call: CallId,
        /// The bucket's place in the node.
        bucket: usize,
        /// The operation.
        op: StoreOp,
    },
    /// Call the roll of the store.
    CallRoll,
    /// Another node is gone, by its own word or by its silence: what it would have done next, others
    /// look after now.
    Bereft,
    /// A bucket is served from now on: tell when its next work comes earlier.
    Served {
        /// Its place in the node.
        bucket: usize,
    },
    /// Publish into a queue's ring.
    Publish {
        /// The queue's place in the node.
        queue: usize,
        /// What to publish; there is room for all of it.
        jobs: Vec<Job<B>>,
    },
    /// Handlers may start on this bucket's leases until then.
    Fresh {
        /// The bucket's place in the node.
        bucket: usize,
        /// The end.
        until: Mono,
    },
    /// Leases of this bucket from fetches up to `through` may be lost: nothing may start on them.
    Lost {
        /// The bucket's place in the node.
        bucket: usize,
        /// The last fetch concerned.
        through: RequestId,
        /// Whether the store has said that others took them. Otherwise they were only not renewed in
        /// time, or all of them had ended when a heartbeat came.
        is_certain: bool,
    },
    /// So many settles came after their lease was lost; the loss is on record.
    Refused {
        /// The bucket's place in the node.
        bucket: usize,
        /// How many.
        lost: usize,
    },
    /// The store has stopped for ever: nothing further happens in this bucket.
    Doubt {
        /// The bucket's place in the node.
        bucket: usize,
        /// What the store answered.
        kind: ErrorKind,
    },
    /// All that was asked of a stop is done.
    Stopped,
}

/// A leased event on its way to a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job<B> {
    /// The bucket's place in the node.
    pub bucket: usize,
    /// When it was leased, by the store's clock, in microseconds since the epoch.
    pub fetched_us: u64,
    /// The event.
    pub delivery: Delivery<B>,
}

impl<B> Job<B> {
    /// Hands this delivery back: its handler never started.
    #[must_use]
    pub fn release(&self) -> Settlement {
        Settlement {
            id: self.delivery.id,
            request: self.delivery.request,
            verdict: Verdict::Release,
            started_us: 0,
            fetched_us: self.fetched_us,
        }
    }
}
