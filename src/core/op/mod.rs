//! Every operation of a store as a value, and its answer.
//!
//! An operation is atomic on one bucket and idempotent: after an [`Unknown`] answer it can be sent
//! again as it is. A push carries its ids, a fetch its request number, a settle the lease that it
//! belongs to, a heartbeat and a reap only state what is so.
//!
//! [`Unknown`]: crate::ErrorKind::Unknown

mod ledger;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::ledger::Ledger;
pub use self::reply::{
    Answer, Cancelled, Changed, Delivery, PeekCursor, PushVerdict, Pushed, Reaped, Reply, Snapshot,
    Stats,
};
use crate::event::{Envelope, EventId, Payload};
use crate::record::{Cause, NodeId};
use crate::time::When;

/// The most events that one operation may carry or return.
pub const BATCH_MAX: usize = 1_000;

/// How many bytes of payload are enough for one operation: 4 MiB.
///
/// A fetch and a page end with the event that reaches this bound, so they return at least one event
/// of any size; a push or a rewrite of more than one event must stay within it. Without the bound a
/// batch of large payloads keeps a server busy for seconds.
pub const BATCH_BYTES: usize = 4 << 20;

/// How many of the first of `items`, whose payloads have so many `bytes`, go with one operation.
pub(crate) fn fitting<T>(items: &[T], bytes: impl Fn(&T) -> usize) -> usize {
    let mut sum = 0;
    let fits = items.iter().take(BATCH_MAX).take_while(|item| {
        sum += bytes(item);
        sum <= BATCH_BYTES
    });
    fits.count().max(1)
}

/// How many unique keys of events that are done stay taken in a bucket: beyond that the one that is
/// free first is free at once.
pub const HOLDS_MAX: usize = 100_000;

/// One operation on one bucket.
#[derive(Clone, Debug)]
pub enum StoreOp {
    /// Adds events. Due ones become ready, others scheduled; an id that exists changes nothing.
    /// More than one event must stay within [`BATCH_BYTES`].
    Push(Vec<NewEvent>),
    /// Moves scheduled events that are due to the publish list, at most `limit`.
    MoveDue {
        /// At most so many.
        limit: usize,
        /// Whether to call the other nodes if something is ready then: who asks has no room for it.
        calls: bool,
    },
    /// Leases events to a node.
    Fetch(Fetch),
    /// Ends attempts, each only under the lease it belongs to, and writes their records.
    Settle {
        /// The node that held them.
        node: NodeId,
        /// How each ended. There may be none, where only a start is announced.
        settlements: Vec<Settlement>,
        /// On which leases of the node handlers may start from the answer on.
        started: StartMark,
    },
    /// Says that `node` is alive, and so keeps everything that it holds in the bucket.
    Heartbeat {
        /// The node.
        node: NodeId,
        /// What the node knows that it holds. A store keeps it for its audit and decides nothing
        /// by it: the node compares its own account with the store's.
        holds: Holding,
        /// On which leases of the node handlers may have started, for a store that has forgotten it.
        started: StartMark,
    },
    /// Says exactly what a node holds of some of its fetches. Whatever else the store has leased
    /// to it by them is handed back, at most `limit` events: after a failover that lost the last
    /// writes these are leases whose settlement the store has forgotten.
    Reconcile {
        /// The node.
        node: NodeId,
        /// The first fetch that this is about.
        from: RequestId,
        /// The last one. All of them have been answered.
        through: RequestId,
        /// What the node holds, by fetch, in ascending order; at most [`BATCH_MAX`] events. Leases
        /// with deadlines of their own are not concerned.
        held: Vec<(RequestId, Vec<EventId>)>,
        /// On which leases of the node handlers may have started, for a store that has forgotten it.
        started: StartMark,
        /// At most so many events.
        limit: usize,
    },
    /// Moves the deadlines of leases that have one of their own.
    Extend {
        /// The node that holds them.
        node: NodeId,
        /// Which leases: the event and the request that fetched it.
        leases: Vec<(EventId, RequestId)>,
        /// The new deadline, from now.
        hold: Duration,
    },
    /// Takes back what silent nodes hold and what is past its own deadline, at most `limit`.
    Reap {
        /// Nodes that fell silent: each with the last heartbeat number seen of it. One that has
        /// beaten since is spared.
        silent: Vec<(NodeId, u64)>,
        /// At most so many events.
        limit: usize,
    },
    /// Takes an event back.
    Cancel {
        /// The event.
        id: EventId,
    },
    /// Gives an event another due time.
    Reschedule {
        /// The event.
        id: EventId,
        /// When it shall be due.
        when: When,
    },
    /// Gives an event another payload. Of a dead one a record says so.
    Update {
        /// The event.
        id: EventId,
        /// Its new payload.
        payload: Payload,
        /// Who does it, for the record.
        by: Option<String>,
        /// Only a dead one is changed, so that none changes without a record; of any other the
        /// answer is its state.
        dead_only: bool,
    },
    /// Gives events the same values in another form: a new key, say. Each only if its payload is
    /// still the one that was read, and nobody holds it. No record says so. More than one must stay
    /// within [`BATCH_BYTES`].
    Rewrite(Vec<Rewriting>),
    /// Looks an event up.
    Get {
        /// The event.
        id: EventId,
    },
    /// Reads what is not over, in whatever state, page by page, in an order of the store's own; those
    /// of one key in the order of their ids.
    ///
    /// What is there from the first page to the last comes in at least one of them, whatever becomes
    /// of it meanwhile. What comes or ends meanwhile may come, and on a store of many nodes an event
    /// may come twice. A page costs what it holds, however many events there are.
    Peek {
        /// Which of them.
        by: PeekBy,
        /// Where the page before ended; `None` for the first.
        from: Option<PeekCursor>,
        /// About so many, at least one. A page may have fewer, above all where [`BATCH_BYTES`] end
        /// it, and a few more; only what it says of the next one tells whether it is the last.
        limit: usize,
    },
    /// Reads dead events, in the order of their ids, page by page.
    ReadDead {
        /// Only ids greater than this.
        after: Option<EventId>,
        /// At most so many, at least one; [`BATCH_BYTES`] may end the page before.
        limit: usize,
    },
    /// Makes dead events ready again, with all their attempts; each leaves a record.
    Revive {
        /// Which; those that are not dead are passed over.
        ids: Vec<EventId>,
        /// Who does it, for the record.
        by: Option<String>,
    },
    /// Removes dead events for good; each leaves a record.
    Drop {
        /// Which; those that are not dead are passed over.
        ids: Vec<EventId>,
        /// Who does it, for the record.
        by: Option<String>,
    },
    /// Counts events by state.
    Stats,
    /// Counts scheduled events that fall due within each of the spans.
    Forecast {
        /// The spans, from now, none shorter than the one before; at most [`BATCH_MAX`].
        within: Vec<Duration>,
    },
}

/// Which events a [`StoreOp::Peek`] reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PeekBy {
    /// All of them.
    #[default]
    All,
    /// Those with this key.
    Key(String),
    /// The one that has this unique key: while it waits or runs, not any more when it is dead.
    Unique(String),
}

/// The value of one event in another form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewriting {
    /// The event.
    pub id: EventId,
    /// The [fingerprint](Envelope::fingerprint) of it as it was read.
    pub was: u64,
    /// Its payload in the other form.
    pub payload: Payload,
}

/// A number that a node gives to each fetch; a repeat of the fetch carries the same one.
pub type RequestId = u64;

/// What a node holds in a bucket for as long as its heartbeat lasts, by its own account or by the
/// store's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// How many leases.
    pub leases: usize,
    /// The last fetch that is known: leases of later ones are not counted.
    pub last: RequestId,
}

/// How far the handlers of a node may have started in a bucket: on every lease of its fetches before
/// `request`, and on the first `leases` of that one.
///
/// A node announces a start before it happens, and starts nothing beyond what the store has
/// acknowledged. So when it dies, the store knows of every other lease that its handler never
/// started, and hands the event back without an attempt. The mark is one number for each node, it
/// only grows, and an operation that carries a smaller one changes nothing: to announce costs the
/// same however many events it is about. Leases with deadlines of their own are not concerned, they
/// count as started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct StartMark {
    /// The fetch.
    pub request: RequestId,
    /// How many of its leases, from the first one.
    pub leases: usize,
}

impl StartMark {
    /// Whether a handler may have started on the lease at `place` of the fetch `request`.
    #[must_use]
    pub fn covers(self, request: RequestId, place: usize) -> bool {
        (request, place) < (self.request, self.leases)
    }
}

/// What tells one lease of an event from all others: who fetched it, and by which fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The node that holds it.
    pub node: NodeId,
    /// The number of its fetch.
    pub request: RequestId,
}

/// One event of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The event.
    pub envelope: Arc<Envelope>,
    /// When it is due.
    pub when: When,
    /// What to do when its unique key is taken.
    pub on_taken: Unique,
}

/// What a push does when an event with its unique key waits already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unique {
    /// The waiting one stays; the push answers *duplicate of* it. The default.
    #[default]
    Keep,
    /// The waiting one is cancelled in the same step. One whose handler may have started is left
    /// alone, and the new one is accepted beside it.
    Replace,
}

/// Leases events to a node, at most so many as fit into [`BATCH_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Who asks.
    pub node: NodeId,
    /// The number of this fetch; its repeat answers the same batch.
    pub request: RequestId,
    /// At most so many ready events.
    pub limit: usize,
    /// Also scheduled ones that are due within this span.
    pub ahead: Duration,
    /// At most so many of those.
    pub ahead_limit: usize,
    /// `None`: for as long as the node's heartbeat lasts. Otherwise until this long from now.
    pub hold: Option<Duration>,
    /// On the first so many of what it leases handlers may start, and on every earlier lease of the
    /// node. 0 announces nothing, and neither does a fetch that leases nothing.
    pub starts: usize,
}

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The event.
    pub id: EventId,
    /// The fetch that leased it.
    pub request: RequestId,
    /// What becomes of it.
    pub verdict: Verdict,
    /// When its handler started, in microseconds since the epoch; 0 when it did not.
    pub started_us: u64,
    /// When it was leased, in microseconds since the epoch.
    pub fetched_us: u64,
}

/// What becomes of an event after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Ack,
    /// It failed and is due again after a delay, unless this was its last attempt.
    Retry(Duration, Failing),
    /// It is due again after a delay, and the attempt does not count.
    Snooze(Duration),
    /// It becomes a dead letter.
    Bury(Failing),
    /// It is of no use any more.
    Discard(Option<String>),
    /// It reached its expiry before its handler started.
    Expire,
    /// Its handler never started: it is ready again at once, and the attempt does not count.
    Release,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// What kind of failure it was.
    pub cause: Cause,
    /// The handler's words.
    pub error: Option<String>,
}
