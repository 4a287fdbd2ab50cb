//! Every operation of a store as a value, and its answer.
//!
//! An operation is atomic on one bucket and idempotent: after an [`Unknown`] answer it can be sent
//! again as it is. A push carries its ids, a fetch its request number, a settle the lease that it
//! belongs to, a heartbeat and a reap only state what is so.
//!
//! [`Unknown`]: crate::ErrorKind::Unknown

use std::sync::Arc;
use std::time::Duration;

use crate::event::{Envelope, EventId, Payload, State};
use crate::record::{Cause, NodeId, Record};
use crate::time::{Timestamp, When};

/// The most events that one operation may carry or return.
pub const BATCH_MAX: usize = 1_000;

/// One operation on one bucket.
#[derive(Clone, Debug)]
pub enum StoreOp {
    /// Adds events. Due ones become ready, others scheduled; an id that exists changes nothing.
    Push(Vec<NewEvent>),
    /// Moves scheduled events that are due to the publish list, at most `limit`.
    MoveDue {
        /// At most so many.
        limit: usize,
    },
    /// Leases events to a node.
    Fetch(Fetch),
    /// Ends attempts, each only under the lease it belongs to, and writes their records.
    Settle {
        /// The node that held them.
        node: NodeId,
        /// How each ended.
        settlements: Vec<Settlement>,
    },
    /// Says that `node` is alive, and so keeps everything that it holds in the bucket.
    Heartbeat {
        /// The node.
        node: NodeId,
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
    /// Gives an event another payload.
    Update {
        /// The event.
        id: EventId,
        /// Its new payload.
        payload: Payload,
    },
    /// Looks an event up.
    Get {
        /// The event.
        id: EventId,
    },
    /// Reads events of one state in the order of their ids.
    Peek {
        /// Which state.
        state: State,
        /// Only ids greater than this.
        after: Option<EventId>,
        /// At most so many.
        limit: usize,
    },
    /// Makes dead events ready again, with all their attempts.
    Revive {
        /// Which; those that are not dead are passed over.
        ids: Vec<EventId>,
    },
    /// Removes dead events for good.
    Drop {
        /// Which; those that are not dead are passed over.
        ids: Vec<EventId>,
    },
    /// Counts events by state.
    Stats,
    /// Counts scheduled events that fall due within each of the spans.
    Forecast {
        /// The spans, from now.
        within: Vec<Duration>,
    },
}

/// A number that a node gives to each fetch; a repeat of the fetch carries the same one.
pub type RequestId = u64;

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

/// Leases events to a node.
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
}

/// One leased attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<B = Arc<Envelope>> {
    /// The event.
    pub id: EventId,
    /// What is stored of it.
    pub body: B,
    /// When this attempt is due; it must not start earlier.
    pub due: Timestamp,
    /// Its number, from 1.
    pub attempt: u16,
    /// The fetch that leased it; with the node it is the token of the lease.
    pub request: RequestId,
    /// When it was moved to the publish list, in microseconds since the epoch.
    pub moved_us: u64,
}

impl<B> Delivery<B> {
    /// The same lease with what `f` makes of the body.
    pub fn try_map<C, E>(self, f: impl FnOnce(B) -> Result<C, E>) -> Result<Delivery<C>, E> {
        let Self {
            id,
            body,
            due,
            attempt,
            request,
            moved_us,
        } = self;
        Ok(Delivery {
            id,
            body: f(body)?,
            due,
            attempt,
            request,
            moved_us,
        })
    }
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

/// An answer and when it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<B = Arc<Envelope>> {
    /// The store's time, in microseconds since the epoch.
    pub now_us: u64,
    /// The answer.
    pub reply: Reply<B>,
}

/// What a store answers, a variant for each kind of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<B = Arc<Envelope>> {
    /// To a push: what became of each event, in their order.
    Pushed(Vec<Pushed>),
    /// To move due.
    Moved {
        /// How many; as many as the limit means: call again.
        moved: usize,
        /// When the next scheduled event is due.
        next_due: Option<Timestamp>,
    },
    /// To a fetch.
    Fetched {
        /// What is the node's now.
        deliveries: Vec<Delivery<B>>,
        /// How many ready events are left.
        ready: usize,
        /// When the next scheduled event that is not leased is due.
        next_due: Option<Timestamp>,
    },
    /// To a settle: for each settlement whether it was accepted; `false` means lease lost.
    Settled(Vec<bool>),
    /// To a heartbeat: whether the node's leases still stand. `false`: they were reaped, or it has
    /// none.
    Kept(bool),
    /// To extend: for each lease whether it still stood.
    Extended(Vec<bool>),
    /// To a reap.
    Reaped(Reaped),
    /// To a cancel.
    Cancelled(Cancelled),
    /// To reschedule.
    Rescheduled(Changed),
    /// To update.
    Updated(Changed),
    /// To get.
    Found(Option<Snapshot<B>>),
    /// To peek.
    Peeked(Vec<Snapshot<B>>),
    /// To revive and drop: how many.
    Counted(usize),
    /// To stats.
    Stats(Stats),
    /// To forecast: for each span how many.
    Forecast(Vec<usize>),
}

/// What became of one event of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// When it is due, by the store's clock.
    pub due: Timestamp,
    /// Whether it is new.
    pub verdict: PushVerdict,
}

/// Whether a pushed event is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushVerdict {
    /// It is, and the store has it.
    Accepted,
    /// It is not: this event, the same or one with its unique key, was there already.
    Duplicate(EventId),
    /// It is, and took the place of this event, which was cancelled.
    Replaced(EventId),
    /// Its id belongs to an event with another payload; nothing was changed.
    Conflict,
    /// Its id is older than what the store remembers of finished events, so nobody can know
    /// whether it is new; nothing was changed.
    TooOld,
}

/// What a reap did and saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Events made ready again.
    pub ready: usize,
    /// Events that became dead letters.
    pub dead: usize,
    /// Whether the limit cut it short.
    pub more: bool,
    /// Every node that holds something, with the number of its last heartbeat.
    pub holders: Vec<(NodeId, u64)>,
    /// When the next lease with a deadline of its own ends.
    pub next_deadline: Option<Timestamp>,
}

/// The truth about a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// No handler will start.
    Cancelled,
    /// No *new* attempt will start; but a lease had been given before, and its holder, believed
    /// dead, may still be running.
    CancelledAfterAttempt,
    /// It is too late: the event has reached this state.
    TooLate(State),
    /// No event has this id, or none that is still known.
    NotFound,
}

/// The truth about a reschedule or an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed {
    /// It is so; the event is due then.
    Changed(Timestamp),
    /// It is so; but a lease had been given before, and its holder, believed dead, may still be
    /// running the event as it was.
    ChangedAfterAttempt(Timestamp),
    /// It is too late: the event has reached this state.
    TooLate(State),
    /// No event has this id, or none that is still known.
    NotFound,
}

/// One event as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<B = Arc<Envelope>> {
    /// The event.
    pub id: EventId,
    /// Where it stands.
    pub state: State,
    /// When it is, or was, due.
    pub due: Timestamp,
    /// Attempts that have ended and count.
    pub tries: u16,
    /// Who holds it.
    pub holder: Option<NodeId>,
    /// What is stored of it; `None` when it is over.
    pub body: Option<B>,
}

/// How many events of a bucket stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Wait for their due time.
    pub scheduled: usize,
    /// Are due and wait for a consumer.
    pub ready: usize,
    /// Belong to a node.
    pub leased: usize,
    /// Are dead letters.
    pub dead: usize,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
    }
}

impl<B> Reply<B> {
    /// The same answer with what `f` makes of each body.
    pub fn try_map<C, E>(self, mut f: impl FnMut(B) -> Result<C, E>) -> Result<Reply<C>, E> {
        Ok(match self {
            Self::Fetched {
                deliveries,
                ready,
                next_due,
            } => Reply::Fetched {
                deliveries: deliveries
                    .into_iter()
                    .map(|delivery| delivery.try_map(&mut f))
                    .collect::<Result<_, E>>()?,
                ready,
                next_due,
            },
            Self::Found(found) => Reply::Found(match found {
                Some(snapshot) => Some(snapshot.try_map(&mut f)?),
                None => None,
            }),
            Self::Peeked(peeked) => Reply::Peeked(
                peeked
                    .into_iter()
                    .map(|snapshot| snapshot.try_map(&mut f))
                    .collect::<Result<_, E>>()?,
            ),
            Self::Pushed(pushed) => Reply::Pushed(pushed),
            Self::Moved { moved, next_due } => Reply::Moved { moved, next_due },
            Self::Settled(settled) => Reply::Settled(settled),
            Self::Kept(kept) => Reply::Kept(kept),
            Self::Extended(extended) => Reply::Extended(extended),
            Self::Reaped(reaped) => Reply::Reaped(reaped),
            Self::Cancelled(cancelled) => Reply::Cancelled(cancelled),
            Self::Rescheduled(changed) => Reply::Rescheduled(changed),
            Self::Updated(changed) => Reply::Updated(changed),
            Self::Counted(counted) => Reply::Counted(counted),
            Self::Stats(stats) => Reply::Stats(stats),
            Self::Forecast(forecast) => Reply::Forecast(forecast),
        })
    }
}

impl<B> Snapshot<B> {
    fn try_map<C, E>(self, f: impl FnOnce(B) -> Result<C, E>) -> Result<Snapshot<C>, E> {
        let Self {
            id,
            state,
            due,
            tries,
            holder,
            body,
        } = self;
        let body = match body {
            Some(body) => Some(f(body)?),
            None => None,
        };
        Ok(Snapshot {
            id,
            state,
            due,
            tries,
            holder,
            body,
        })
    }
}

/// Told what a store that outlives its process has to remember of each decision.
///
/// The reference store decides and calls this in the order of its decisions; a ledger never says
/// no. [`Body`](Self::Body) is what the reference store keeps of an envelope: the envelope itself
/// in memory, a row number where it lies in a file.
pub trait Ledger {
    /// What is kept in memory of an envelope.
    type Body: Clone;

    /// Whether a push takes effect only once it was confirmed.
    ///
    /// When `true`, a pushed event is *held* by [`Bucket`](crate::core::reference::Bucket) until
    /// `confirm`: nobody can lease or see it, and `forget` undoes it.
    const CONFIRMS: bool = false;

    /// An event was accepted; answers what to keep of it.
    fn added(&mut self, envelope: &Arc<Envelope>, due: Timestamp) -> Self::Body;

    /// An event waits for another due time, or has used up so many attempts.
    fn changed(&mut self, body: &Self::Body, due: Timestamp, tries: u16);

    /// An event has another payload.
    fn updated(&mut self, body: &mut Self::Body, payload: &Payload);

    /// An event became a dead letter, at `at`.
    fn buried(&mut self, body: &Self::Body, at: Timestamp, tries: u16);

    /// A dead event is ready again, due at `due`, with all its attempts.
    fn revived(&mut self, body: &Self::Body, due: Timestamp);

    /// An event is over.
    fn removed(&mut self, body: &Self::Body);

    /// An attempt, or an event, ended; written in the same step as what it tells of.
    fn recorded(&mut self, record: Record);
}
