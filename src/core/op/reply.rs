//! The replies of a store.

use std::sync::Arc;

use crate::core::op::{Holding, Reply, RequestId};
use crate::event::{Envelope, EventId, State};
use crate::record::NodeId;
use crate::time::Timestamp;

/// One leased attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<B = Arc<Envelope>> {
    /// The event.
    pub id: EventId,
    /// The stored event.
    pub body: B,
    /// When this attempt is due; it must not start earlier.
    pub due: Timestamp,
    /// The attempt number, from 1.
    pub attempt: u16,
    /// The fetch that leased it; together with the node, the lease token.
    pub request: RequestId,
    /// Its index among the leases of that fetch, from 0.
    pub place: usize,
    /// When it was moved to the ready list, in microseconds since the epoch.
    pub moved_us: u64,
}

impl<B> Delivery<B> {
    /// Maps the body with `f`, which is given the event's id as well.
    pub fn try_map<C, E>(
        self,
        f: impl FnOnce(EventId, B) -> Result<C, E>,
    ) -> Result<Delivery<C>, E> {
        let Self {
            id,
            body,
            due,
            attempt,
            request,
            place,
            moved_us,
        } = self;
        Ok(Delivery {
            id,
            body: f(id, body)?,
            due,
            attempt,
            request,
            place,
            moved_us,
        })
    }
}

/// A reply with the store's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response<B = Arc<Envelope>> {
    /// The store's time, in microseconds since the epoch.
    pub now_us: u64,
    /// The reply.
    pub reply: Reply<B>,
}

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveReport {
    /// How many events were moved; as many as the limit means that there are more.
    pub moved: usize,
    /// How many events are ready now.
    pub ready: usize,
    /// When the next scheduled event is due.
    pub next_due: Option<Timestamp>,
    /// What has expired and was not told of yet.
    pub aside: SetAside,
}

/// The result of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchReport<B = Arc<Envelope>> {
    /// The new leases.
    pub deliveries: Vec<Delivery<B>>,
    /// How many ready events are left.
    pub ready: usize,
    /// When the next scheduled event that is not leased is due.
    pub next_due: Option<Timestamp>,
    /// When the last of the next [`CROWD`](super::CROWD) scheduled events is due; `None` if there are
    /// fewer, or it is more than [`CROWD_SPAN`](super::CROWD_SPAN) behind the first one.
    pub crowd_due: Option<Timestamp>,
    /// Whether it ended at the byte limit, so that fewer events than requested do not mean that
    /// there are no more.
    pub full: bool,
    /// The node's leases, these included, and its last fetch before this one. A number below that
    /// of an earlier successful fetch shows that the store has forgotten that fetch.
    pub holding: Holding,
    /// What has expired and was not told of yet.
    pub aside: SetAside,
}

/// That of a fetch which brought nothing.
impl<B> Default for FetchReport<B> {
    fn default() -> Self {
        Self {
            deliveries: Vec::new(),
            ready: 0,
            next_due: None,
            crowd_due: None,
            full: false,
            holding: Holding::default(),
            aside: SetAside::default(),
        }
    }
}

/// How many events were ended because they were of no use any more, and not leased. Each is told of
/// once at most: by the first move or fetch of its bucket, of whichever node, after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAside {
    /// Those that had expired.
    pub expired: usize,
    /// Those that were too late, and became dead letters.
    pub late: usize,
}

/// The result of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatReport {
    /// Whether the node's leases still stand. `false`: they were reaped, or it has none.
    pub stands: bool,
    /// The node's leases, by the store's count.
    pub holding: Holding,
}

/// A page of live events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekPage<B = Arc<Envelope>> {
    /// The events of the page.
    pub events: Vec<Snapshot<B>>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<PeekCursor>,
}

/// A page of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPage<B = Arc<Envelope>> {
    /// The events of the page.
    pub letters: Vec<Snapshot<B>>,
    /// The id after which the next page begins; `None`: this is the last.
    pub next: Option<EventId>,
}

/// The result of pushing one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushReport {
    /// When it is due, by the store's clock.
    pub due: Timestamp,
    /// Whether the event is new.
    pub verdict: PushOutcome,
}

/// Whether a pushed event is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// It is new and stored.
    Accepted,
    /// It is not: this event, itself or one with its unique key, exists already.
    Duplicate(EventId),
    /// It is new and replaced this event, which was cancelled.
    Replaced(EventId),
    /// Its id belongs to an event with another payload; nothing was changed.
    Conflict,
    /// Its id is older than the dedup window, or of a time to come of which there were too many, so
    /// it is not known whether it is new; nothing was changed by this push.
    TooOld,
    /// Its id was generated too far ahead of the store's time; nothing was changed.
    TooNew,
    /// The store refused it, but an earlier attempt of the same push, whose reply was lost, may
    /// have been accepted: it is not known whether the event exists, or did.
    Unknown,
}

/// The result of a reap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReapReport {
    /// Events made ready again.
    pub ready: usize,
    /// Events that became dead letters.
    pub dead: usize,
    /// Whether the limit cut it short.
    pub more: bool,
    /// Every node that holds leases, with the number of its last heartbeat.
    pub holders: Vec<(NodeId, u64)>,
    /// When the next lease with its own deadline ends.
    pub next_deadline: Option<Timestamp>,
}

/// The result of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the event may be running or gone, and only this says so"]
pub enum CancelOutcome {
    /// No handler will start.
    Cancelled,
    /// No *new* attempt will start, but the event was leased before, and its holder, believed dead,
    /// may still be running it.
    CancelledAfterAttempt,
    /// Too late: the event has reached this state.
    TooLate(State),
    /// No known event has this id; one that waits in an outbox is not known yet.
    NotFound,
}

/// The result of a reschedule or an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the event may be running or gone, and only this says so"]
pub enum ChangeOutcome {
    /// The change is made; the event is due then.
    Changed(Timestamp),
    /// The change is made; but the event was leased before, and its holder, believed dead, may
    /// still be running it unchanged.
    ChangedAfterAttempt(Timestamp),
    /// Too late: the event has reached this state.
    TooLate(State),
    /// No known event has this id; one that waits in an outbox is not known yet.
    NotFound,
}

/// An opaque position in the events of a bucket; only the store that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekCursor(Box<[u8]>);

impl PeekCursor {
    /// Wraps a position in the store's encoding.
    #[must_use]
    pub fn new(words: impl Into<Box<[u8]>>) -> Self {
        Self(words.into())
    }

    /// The position in the store's encoding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One event as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<B = Arc<Envelope>> {
    /// The event.
    pub id: EventId,
    /// Its state.
    pub state: State,
    /// When it is, or was, due.
    pub due: Timestamp,
    /// Attempts that have ended and count.
    pub tries: u16,
    /// Since when it is ready, leased or dead; `None` in other states and if unknown.
    pub since: Option<Timestamp>,
    /// When its last attempt ended, of one that waits for the next; `None` also where the store does
    /// not know it.
    pub ended: Option<Timestamp>,
    /// The node that holds its lease.
    pub holder: Option<NodeId>,
    /// The fetch that leased it; with the node, the lease.
    pub request: Option<RequestId>,
    /// When its lease ends, if it has its own deadline.
    pub until: Option<Timestamp>,
    /// The lease that ended it as done; `None` in other states and if unknown.
    pub done_by: Option<(NodeId, RequestId)>,
    /// The stored event; `None` if it has ended or its bytes are damaged.
    pub body: Option<B>,
}

/// Statistics of a bucket: events by state, and the age of the next ready one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events that wait for their due time.
    pub scheduled: usize,
    /// Due events that wait for a consumer, whether they were moved to the ready list or not.
    pub ready: usize,
    /// Events leased to a node.
    pub leased: usize,
    /// Dead letters.
    pub dead: usize,
    /// Since when the next event to be fetched is ready: when the first event of the ready list was
    /// moved there, or when the first one that was not moved yet was due, whichever is earlier. `None`
    /// if none is ready, or if so many events have left the list since that a store would have to
    /// search.
    pub oldest_ready: Option<Timestamp>,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
        self.oldest_ready = match (self.oldest_ready, other.oldest_ready) {
            (Some(this), Some(that)) => Some(this.min(that)),
            (this, that) => this.or(that),
        };
    }
}

impl<B> FetchReport<B> {
    pub(super) fn try_map<C, E>(
        self,
        mut f: impl FnMut(EventId, B) -> Result<C, E>,
    ) -> Result<FetchReport<C>, E> {
        let Self {
            deliveries,
            ready,
            next_due,
            crowd_due,
            full,
            holding,
            aside,
        } = self;
        let mapped = deliveries.into_iter();
        Ok(FetchReport {
            deliveries: mapped
                .map(|delivery| delivery.try_map(&mut f))
                .collect::<Result<_, E>>()?,
            ready,
            next_due,
            crowd_due,
            full,
            holding,
            aside,
        })
    }
}

/// Maps the body of each.
pub(super) fn each_body<B, C, E>(
    snapshots: Vec<Snapshot<B>>,
    mut f: impl FnMut(EventId, B) -> Result<C, E>,
) -> Result<Vec<Snapshot<C>>, E> {
    let mapped = snapshots.into_iter();
    mapped.map(|snapshot| snapshot.try_map(&mut f)).collect()
}

impl<B> Snapshot<B> {
    pub(super) fn try_map<C, E>(
        self,
        f: impl FnOnce(EventId, B) -> Result<C, E>,
    ) -> Result<Snapshot<C>, E> {
        let Self {
            id,
            state,
            due,
            tries,
            since,
            ended,
            holder,
            request,
            until,
            done_by,
            body,
        } = self;
        let body = match body {
            Some(body) => Some(f(id, body)?),
            None => None,
        };
        Ok(Snapshot {
            id,
            state,
            due,
            tries,
            since,
            ended,
            holder,
            request,
            until,
            done_by,
            body,
        })
    }
}
