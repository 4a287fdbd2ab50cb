//! What happened, in the words that the checkers read.

use std::fmt;

use serde::{Deserialize, Serialize};

use duly::event::State;
use duly::records::{NodeId, Outcome};
use duly::store::operation::{Lease, PushVerdict};
use duly::time::Timestamp;
use duly::{Cancelled, Changed, EventId};

/// One line of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it happened, in microseconds of a clock that is never set: any origin will do.
    pub at_us: u64,
    /// What the store's clock showed, in microseconds since the epoch.
    pub store_us: u64,
    /// The event concerned, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<EventId>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
///
/// There are two witnesses. What *clients* saw, those who push and handle, any program can write
/// down. What the *store* did, step by step, only one who sits beside it can: a simulator. A
/// history of clients is completed at its end with the store's records and the events' last
/// states, and then [`Account`](super::Account) follows it; [`Checker`](super::Checker) follows
/// one that holds both.
///
/// Payloads are told by a number, for example a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// A client pushes, perhaps not for the first time.
    PushAsked {
        /// What.
        payload: u64,
        /// How often it may be tried.
        attempts: u16,
    },
    /// A client was told what became of its push.
    PushAnswered {
        /// What it was told.
        verdict: Told,
        /// What it had pushed.
        payload: u64,
        /// The due time that the receipt names, of a push that was accepted.
        due: Option<Timestamp>,
    },
    /// A client was told that its push did not happen.
    PushRefused,
    /// A client does not know whether its operation happened.
    Unknown,
    /// A client was told what became of its cancel.
    CancelAnswered {
        /// What it was told.
        truth: Truth,
    },
    /// A handler starts.
    Started {
        /// What tells this attempt from all others.
        lease: Lease,
        /// Its number.
        attempt: u16,
        /// When it was due.
        due: Timestamp,
        /// What the handler sees.
        payload: u64,
    },
    /// A handler ended, or a delivery was handed back.
    Ended {
        /// Of which attempt.
        lease: Lease,
        /// How.
        ending: Ending,
        /// In how many microseconds it wants to be due again.
        delay_us: u64,
    },
    /// The store wrote a record; or the record was read afterwards, in the order of the records.
    Recorded {
        /// Who held the event.
        node: NodeId,
        /// Which attempt.
        attempt: u16,
        /// How it ended.
        outcome: Outcome,
        /// When it had been due.
        due: Timestamp,
    },
    /// Where the event stands at the end of the history; nothing when the store knows no such
    /// event.
    Found {
        /// That.
        state: Option<State>,
    },

    /// The store accepted an event.
    Added {
        /// When it is due.
        due: Timestamp,
        /// What was pushed.
        payload: u64,
        /// How often it may be tried.
        attempts: u16,
    },
    /// The store accepted a push with a unique key, or kept it out because of another event.
    UniqueAsked {
        /// A number for the key, the same for the same one.
        key: u64,
        /// Whether it was to replace the event that waits with the key.
        replaces: bool,
        /// Which event has kept it out.
        taken_by: Option<EventId>,
    },
    /// The store applied a cancel, with this answer.
    CancelApplied {
        /// The answer.
        truth: Truth,
    },
    /// The store took an event back in favour of a new one with its unique key.
    Replaced,
    /// The store changed an event's due time.
    Rescheduled {
        /// The answer.
        truth: Truth,
        /// The new due time.
        due: Timestamp,
    },
    /// The store changed an event's payload.
    Updated {
        /// The answer.
        truth: Truth,
        /// The new payload.
        payload: u64,
    },
    /// The store gave an event to a node, or told it so again.
    Leased {
        /// To whom, by which fetch.
        lease: Lease,
        /// The number of the attempt.
        attempt: u16,
        /// When it is due.
        due: Timestamp,
        /// What was stored.
        payload: u64,
    },
    /// A lease has a deadline of its own, beside which nothing keeps it.
    Held {
        /// Which; of a lease that has one already it says nothing new.
        lease: Lease,
        /// Until when it stands at least.
        until: Timestamp,
    },
    /// The store was asked to move the deadline of a lease.
    Extended {
        /// Which.
        lease: Lease,
        /// Whether it still stood, and stands on.
        stood: bool,
        /// Until when at least, if it did.
        until: Timestamp,
    },
    /// The store was asked to end an attempt.
    Settled {
        /// Which.
        lease: Lease,
        /// How.
        ending: Ending,
        /// Whether it did.
        accepted: bool,
    },
    /// The store took an event back from a node that fell silent and had announced no start: no
    /// attempt counts.
    HandedBack {
        /// The lease that ended.
        lease: Lease,
    },
    /// The event became a dead letter.
    Buried,
    /// A dead letter is ready again.
    Revived,
    /// The event is over.
    Removed,

    /// A process takes part as a node.
    Joined {
        /// As which.
        node: NodeId,
        /// The process's number in its operating system.
        process: u32,
    },
    /// A node died, with everything that it held.
    Died {
        /// Which.
        node: NodeId,
    },
    /// A node was told to stop.
    Stopping {
        /// Which.
        node: NodeId,
    },
    /// A node says that its stop is done.
    Stopped {
        /// Which.
        node: NodeId,
    },
    /// The last fault is over.
    Healed,
}

/// How a handler ended, or that it never began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// It succeeded.
    Ack,
    /// It failed, and may be tried again.
    Retry,
    /// It asked to be called again later.
    Snooze,
    /// It failed for good.
    Bury,
    /// It said that the event is of no use.
    Discard,
    /// The event had expired before the handler started.
    Expire,
    /// It was handed back and never started.
    Release,
}

/// The store's answer to a push, without what only a store needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Told {
    /// It is there.
    Accepted,
    /// It was there before.
    Duplicate,
    /// Another event with its unique key was there.
    Taken,
    /// Another payload was pushed under its id.
    Conflict,
    /// Nobody can know any more whether its id is new.
    TooOld,
    /// Its id was made too far ahead of the store's time.
    TooNew,
    /// It was refused, and an earlier attempt may have been accepted.
    Unknown,
}

/// The store's answer to a change by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Truth {
    /// It is so.
    Done,
    /// It is so; but a lease was lost before, and its holder may still run.
    DoneAfterAttempt,
    /// The event has reached this state.
    TooLate(State),
    /// No such event.
    NotFound,
}

impl Told {
    /// What became of the push of `id`.
    #[must_use]
    pub fn of(verdict: PushVerdict, id: EventId) -> Self {
        match verdict {
            PushVerdict::Accepted | PushVerdict::Replaced(_) => Self::Accepted,
            PushVerdict::Duplicate(other) if other != id => Self::Taken,
            PushVerdict::Duplicate(_) => Self::Duplicate,
            PushVerdict::Conflict => Self::Conflict,
            PushVerdict::TooOld => Self::TooOld,
            PushVerdict::TooNew => Self::TooNew,
            PushVerdict::Unknown => Self::Unknown,
        }
    }
}

impl From<Cancelled> for Truth {
    fn from(cancelled: Cancelled) -> Self {
        match cancelled {
            Cancelled::Cancelled => Self::Done,
            Cancelled::CancelledAfterAttempt => Self::DoneAfterAttempt,
            Cancelled::TooLate(state) => Self::TooLate(state),
            Cancelled::NotFound => Self::NotFound,
            // This crate is of the same version as duly, which has no other.
            other => unreachable!("{other:?}"),
        }
    }
}

impl From<Changed> for Truth {
    fn from(changed: Changed) -> Self {
        match changed {
            Changed::Changed(_) => Self::Done,
            Changed::ChangedAfterAttempt(_) => Self::DoneAfterAttempt,
            Changed::TooLate(state) => Self::TooLate(state),
            Changed::NotFound => Self::NotFound,
            // This crate is of the same version as duly, which has no other.
            other => unreachable!("{other:?}"),
        }
    }
}

/// One line that a person can read: milliseconds, the last digits of the id, what happened.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.3} ms  ", self.at_us as f64 / 1_000.0)?;
        match self.id {
            Some(id) => write!(f, "{:>5}  ", id.entropy() & 0xFFFF)?,
            None => write!(f, "    -  ")?,
        }
        write!(f, "{:?}  (store {})", self.what, self.store_us)
    }
}
