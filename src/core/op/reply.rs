//! What a store answers.

use std::sync::Arc;

use crate::core::op::{Holding, RequestId};
use crate::event::{Envelope, EventId, State};
use crate::record::NodeId;
use crate::time::Timestamp;

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
    /// Its place among what that fetch leased, from 0.
    pub place: usize,
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
            place,
            moved_us,
        } = self;
        Ok(Delivery {
            id,
            body: f(body)?,
            due,
            attempt,
            request,
            place,
            moved_us,
        })
    }
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
        /// How many are ready now.
        ready: usize,
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
        /// Whether it ended at its bound of bytes, so that fewer events than asked for do not mean
        /// that there are no more.
        full: bool,
        /// What the node holds now, these deliveries among it, and its last fetch before this one.
        /// A number that is smaller than that of a fetch that was answered before shows that the
        /// store has forgotten that fetch.
        holding: Holding,
    },
    /// To a settle: for each settlement whether it was accepted; `false` means lease lost.
    Settled(Vec<bool>),
    /// To a heartbeat.
    Kept {
        /// Whether the node's leases still stand. `false`: they were reaped, or it has none.
        stands: bool,
        /// What the node holds, by the store's account.
        holding: Holding,
    },
    /// To extend: for each lease whether it still stood.
    Extended(Vec<bool>),
    /// To a reap, and to a reconcile, which names no holders and no deadline.
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
    Peeked {
        /// What is on the page.
        events: Vec<Snapshot<B>>,
        /// Where the next page begins; `None`: this was the last.
        next: Option<PeekCursor>,
    },
    /// To read dead.
    Dead {
        /// What is on the page.
        letters: Vec<Snapshot<B>>,
        /// After which id the next page begins; `None`: this was the last.
        next: Option<EventId>,
    },
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
    /// whether it is new; nothing was changed by this push.
    TooOld,
    /// Its id was made further ahead of the store's time than an id may be; nothing was changed.
    TooNew,
    /// The store refused it, and an earlier attempt of the same push, whose answer was lost, may
    /// have been accepted: nobody can know whether the event is there, or was.
    Unknown,
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
#[must_use = "the event may be running or gone, and only this says so"]
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
#[must_use = "the event may be running or gone, and only this says so"]
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

/// A place on the way through the events of a bucket: only the store that said it can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekCursor(Box<[u8]>);

impl PeekCursor {
    /// A place, in the words of the store.
    #[must_use]
    pub fn new(words: impl Into<Box<[u8]>>) -> Self {
        Self(words.into())
    }

    /// The words of the store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
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
    /// Since when it is ready, leased or dead; `None` of any other, and where it is not known.
    pub since: Option<Timestamp>,
    /// Who holds it.
    pub holder: Option<NodeId>,
    /// When its lease ends, if that has a deadline of its own.
    pub until: Option<Timestamp>,
    /// What is stored of it; `None` when it is over, and when its bytes are damaged.
    pub body: Option<B>,
}

/// How many events of a bucket stand where, and for how long the next one has been ready.
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
    /// Since when the first event of the publish list is there: the one that is fetched next.
    /// `None` when none is ready, or when so many events have left the list since that a store
    /// would have to search for it.
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

impl<B> Reply<B> {
    /// The same answer with what `f` makes of each body.
    pub fn try_map<C, E>(self, mut f: impl FnMut(B) -> Result<C, E>) -> Result<Reply<C>, E> {
        Ok(match self {
            Self::Fetched {
                deliveries,
                ready,
                next_due,
                full,
                holding,
            } => Reply::Fetched {
                deliveries: deliveries
                    .into_iter()
                    .map(|delivery| delivery.try_map(&mut f))
                    .collect::<Result<_, E>>()?,
                ready,
                next_due,
                full,
                holding,
            },
            Self::Found(found) => Reply::Found(match found {
                Some(snapshot) => Some(snapshot.try_map(&mut f)?),
                None => None,
            }),
            Self::Peeked { events, next } => Reply::Peeked {
                events: each(events, f)?,
                next,
            },
            Self::Dead { letters, next } => Reply::Dead {
                letters: each(letters, f)?,
                next,
            },
            Self::Pushed(pushed) => Reply::Pushed(pushed),
            Self::Moved {
                moved,
                ready,
                next_due,
            } => Reply::Moved {
                moved,
                ready,
                next_due,
            },
            Self::Settled(settled) => Reply::Settled(settled),
            Self::Kept { stands, holding } => Reply::Kept { stands, holding },
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

fn each<B, C, E>(
    snapshots: Vec<Snapshot<B>>,
    mut f: impl FnMut(B) -> Result<C, E>,
) -> Result<Vec<Snapshot<C>>, E> {
    let mapped = snapshots.into_iter();
    mapped.map(|snapshot| snapshot.try_map(&mut f)).collect()
}

impl<B> Snapshot<B> {
    fn try_map<C, E>(self, f: impl FnOnce(B) -> Result<C, E>) -> Result<Snapshot<C>, E> {
        let Self {
            id,
            state,
            due,
            tries,
            since,
            holder,
            until,
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
            since,
            holder,
            until,
            body,
        })
    }
}
