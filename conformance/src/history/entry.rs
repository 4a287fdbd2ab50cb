//! The entries of a history.

use std::fmt;

use serde::{Deserialize, Serialize};

use duly::event::State;
use duly::records::{NodeId, Outcome};
use duly::store::operation::{Lease, PushOutcome};
use duly::time::Timestamp;
use duly::{CancelOutcome, ChangeOutcome, EventId};

/// One entry of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The time, in microseconds of a clock that is never set, with any origin.
    pub at_us: u64,
    /// The store's clock, in microseconds since the epoch.
    pub store_us: u64,
    /// The event concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<EventId>,
    /// The observation.
    #[serde(flatten)]
    pub what: EntryKind,
}

/// An observation.
///
/// There are two sources. What *clients* observe, by pushing and handling, any program can log.
/// What the *store* does, step by step, only a program beside it can: a simulator. A history of
/// clients is completed at its end with the store's records and the events' last states, and then
/// [`ClientChecker`](super::ClientChecker) checks it; [`Checker`](super::Checker) checks a history with both.
///
/// Payloads are represented by a number, for example a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A client pushes, possibly again.
    PushAsked {
        /// The payload.
        payload: u64,
        /// The attempts allowed.
        attempts: u16,
    },
    /// A client received the result of its push.
    PushAnswered {
        /// The result.
        verdict: PushResult,
        /// The payload that it had pushed.
        payload: u64,
        /// The due time in the receipt, if the push was accepted.
        due: Option<Timestamp>,
    },
    /// A client was told that its push did not happen.
    PushRefused,
    /// A client's operation ended with an unknown result.
    Unknown,
    /// A client received the result of its cancel.
    CancelAnswered {
        /// The result.
        truth: ChangeResult,
    },
    /// A handler starts.
    Started {
        /// Identifies the attempt.
        lease: Lease,
        /// Its number.
        attempt: u16,
        /// The due time.
        due: Timestamp,
        /// The payload that the handler sees.
        payload: u64,
    },
    /// A handler ended, or a delivery was handed back.
    Ended {
        /// The attempt.
        lease: Lease,
        /// How it ended.
        ending: AttemptEnd,
        /// The delay until the event should be due again, in microseconds.
        delay_us: u64,
    },
    /// The store wrote a record, or the record was read later, in the order of records.
    Recorded {
        /// The node that held the event.
        node: NodeId,
        /// The attempt.
        attempt: u16,
        /// How it ended.
        outcome: Outcome,
        /// The due time.
        due: Timestamp,
    },
    /// The state of the event at the end of the history.
    LastState {
        /// The state; `None` when the store has no such event.
        state: Option<State>,
    },

    /// The store accepted an event.
    Added {
        /// The due time.
        due: Timestamp,
        /// The payload.
        payload: u64,
        /// The attempts allowed.
        attempts: u16,
    },
    /// The store accepted a push with a unique key, or refused it because of another event.
    UniqueAsked {
        /// A number for the key, the same for the same one.
        key: u64,
        /// Whether it was to replace the waiting event with that key.
        replaces: bool,
        /// The event because of which it was refused.
        taken_by: Option<EventId>,
    },
    /// The store applied a cancel. What the same operation ended first, because it had expired or
    /// was too late, comes before.
    CancelApplied {
        /// The result.
        truth: ChangeResult,
    },
    /// The store cancelled an event in favour of a new one with its unique key.
    Replaced,
    /// The store changed an event's due time.
    Rescheduled {
        /// The result.
        truth: ChangeResult,
        /// The new due time.
        due: Timestamp,
    },
    /// The store changed an event's payload.
    Updated {
        /// The result.
        truth: ChangeResult,
        /// The new payload.
        payload: u64,
    },
    /// The store leased an event to a node, or repeated that.
    Leased {
        /// The node and the fetch.
        lease: Lease,
        /// The number of the attempt.
        attempt: u16,
        /// The due time.
        due: Timestamp,
        /// The stored payload.
        payload: u64,
    },
    /// A lease has a deadline of its own, which heartbeats do not extend.
    Held {
        /// The lease; a repeat has no effect.
        lease: Lease,
        /// The deadline, at least.
        until: Timestamp,
    },
    /// A call to extend a lease.
    Extended {
        /// The lease.
        lease: Lease,
        /// Whether it still existed, and was extended.
        stood: bool,
        /// The new deadline, at least, if it was.
        until: Timestamp,
    },
    /// A call to settle an attempt.
    Settled {
        /// The lease.
        lease: Lease,
        /// The outcome.
        ending: AttemptEnd,
        /// Whether it was accepted.
        accepted: bool,
    },
    /// The store took an event back from a silent node that had announced no start: no attempt
    /// counts.
    HandedBack {
        /// The lease that ended.
        lease: Lease,
    },
    /// The event became a dead letter.
    Buried,
    /// A dead letter is ready again.
    Revived,
    /// The event has ended.
    Removed,

    /// A process joined as a node.
    Joined {
        /// The node.
        node: NodeId,
        /// The process id.
        process: u32,
    },
    /// A node died, with all its leases.
    Died {
        /// The node.
        node: NodeId,
    },
    /// A node was asked to stop.
    Stopping {
        /// The node.
        node: NodeId,
    },
    /// A node reports that it has stopped.
    Stopped {
        /// The node.
        node: NodeId,
    },
    /// The last fault is over.
    Healed,
}

/// How a handler ended, or that it never started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptEnd {
    /// It succeeded.
    Ack,
    /// It failed, and may be retried.
    Retry,
    /// It requested to be called again later.
    Snooze,
    /// It failed for good.
    Bury,
    /// It reported that the event is of no use.
    Discard,
    /// The event had expired before the handler started.
    Expire,
    /// It was handed back before it started.
    Release,
    /// A stop of its node cut it off; it counts only beyond the interruptions that are free.
    Interrupt,
}

/// The store's result of a push, without fields that only a store needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PushResult {
    /// It was accepted.
    Accepted,
    /// It existed before.
    Duplicate,
    /// Another event has its unique key.
    KeyTaken,
    /// Another payload was pushed under its id.
    Conflict,
    /// Its id may have been forgotten.
    TooOld,
    /// Its id was created too far ahead of the store's time.
    TooNew,
    /// It was refused, but an earlier attempt may have been accepted.
    Unknown,
}

/// The store's result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeResult {
    /// It is done.
    Done,
    /// It is done, but a lease was lost before, and its handler may still run.
    DoneAfterAttempt,
    /// The event has reached this state.
    TooLate(State),
    /// There is no such event.
    NotFound,
}

impl PushResult {
    /// Converts the store's result of a push of `id`.
    #[must_use]
    pub fn of(verdict: PushOutcome, id: EventId) -> Self {
        match verdict {
            PushOutcome::Accepted | PushOutcome::Replaced(_) => Self::Accepted,
            PushOutcome::Duplicate(other) if other != id => Self::KeyTaken,
            PushOutcome::Duplicate(_) => Self::Duplicate,
            PushOutcome::Conflict => Self::Conflict,
            PushOutcome::TooOld => Self::TooOld,
            PushOutcome::TooNew => Self::TooNew,
            PushOutcome::Unknown => Self::Unknown,
        }
    }
}

impl From<CancelOutcome> for ChangeResult {
    fn from(cancelled: CancelOutcome) -> Self {
        match cancelled {
            CancelOutcome::Cancelled => Self::Done,
            CancelOutcome::CancelledAfterAttempt => Self::DoneAfterAttempt,
            CancelOutcome::TooLate(state) => Self::TooLate(state),
            CancelOutcome::NotFound => Self::NotFound,
            // This crate is of the same version as duly, which has no other.
            other => unreachable!("{other:?}"),
        }
    }
}

impl From<ChangeOutcome> for ChangeResult {
    fn from(changed: ChangeOutcome) -> Self {
        match changed {
            ChangeOutcome::Changed(_) => Self::Done,
            ChangeOutcome::ChangedAfterAttempt(_) => Self::DoneAfterAttempt,
            ChangeOutcome::TooLate(state) => Self::TooLate(state),
            ChangeOutcome::NotFound => Self::NotFound,
            // This crate is of the same version as duly, which has no other.
            other => unreachable!("{other:?}"),
        }
    }
}

/// Formats an entry for display: milliseconds, the last digits of the id, the observation.
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
