//! What happened, in the words that the checker reads.
//!
//! One type for all: the simulator writes it, and real processes can, so that one checker follows
//! both.

use std::fmt;

use duly::EventId;
use duly::core::op::{Cancelled, Changed, PushVerdict, RequestId};
use duly::event::State;
use duly::record::{NodeId, Outcome};
use duly::time::Timestamp;

use crate::rng::mix;

/// One line of history.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// True time.
    pub at_us: u64,
    /// The store's time.
    pub store_us: u64,
    /// The event concerned, if one is.
    pub id: Option<EventId>,
    pub what: What,
}

/// What a lease is told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    pub node: NodeId,
    pub request: RequestId,
}

/// How a handler ended, or that it never began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    Ack,
    Retry,
    Snooze,
    Bury,
    Discard,
    Expire,
    Release,
}

/// What happened.
#[derive(Clone, Copy, Debug, Hash)]
pub enum What {
    /// A client pushes, perhaps not for the first time.
    PushAsked { payload: u64, attempts: u16 },
    /// A client was told what became of its push; `payload` is what it pushed.
    PushAnswered { verdict: Told, payload: u64 },
    /// A client was told what became of its cancel.
    CancelAnswered(Truth),
    /// A client does not know whether its operation happened, and repeats it.
    Unknown,
    /// The store accepted an event.
    Added {
        due: Timestamp,
        payload: u64,
        attempts: u16,
    },
    /// The store applied a cancel, with this answer.
    CancelApplied(Truth),
    /// The store took an event back in favour of a new one with its unique key.
    Replaced,
    /// The store changed an event's due time.
    Rescheduled { truth: Truth, due: Timestamp },
    /// The store changed an event's payload.
    Updated { truth: Truth, payload: u64 },
    /// The store gave an event to a node, or told it so again.
    Leased {
        token: Token,
        attempt: u16,
        due: Timestamp,
        payload: u64,
    },
    /// A handler starts.
    Started {
        token: Token,
        due: Timestamp,
        payload: u64,
    },
    /// A handler ended, or a delivery was handed back; `delay_us` until it is due again.
    Ended {
        token: Token,
        ending: Ending,
        delay_us: u64,
    },
    /// The store was asked to end an attempt.
    Settled {
        token: Token,
        ending: Ending,
        accepted: bool,
    },
    /// The store wrote a record.
    Recorded {
        node: NodeId,
        attempt: u16,
        outcome: Outcome,
    },
    /// The event became a dead letter.
    Buried,
    /// A dead letter is ready again.
    Revived,
    /// The event is over.
    Removed,
    /// A node died, with everything that it held.
    Died(NodeId),
    /// A node was told to stop.
    Stopping(NodeId),
    /// A node says that its stop is done.
    Stopped(NodeId),
    /// The last fault is over.
    Healed,
}

/// The store's answer to a push, without what only a store needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    Accepted,
    Duplicate,
    /// Another event with its unique key was there.
    Taken,
    Conflict,
    TooOld,
}

/// The store's answer to a change by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    Done,
    DoneAfterAttempt,
    TooLate(State),
    NotFound,
}

impl Told {
    /// What became of the push of `id`.
    pub fn of(verdict: PushVerdict, id: EventId) -> Self {
        match verdict {
            PushVerdict::Accepted | PushVerdict::Replaced(_) => Self::Accepted,
            PushVerdict::Duplicate(other) if other != id => Self::Taken,
            PushVerdict::Duplicate(_) => Self::Duplicate,
            PushVerdict::Conflict => Self::Conflict,
            PushVerdict::TooOld => Self::TooOld,
        }
    }
}

impl From<Cancelled> for Truth {
    fn from(cancelled: Cancelled) -> Self {
        match cancelled {
            Cancelled::Cancelled => Self::Done,
            Cancelled::CancelledAfterAttempt => Self::DoneAfterAttempt,
            Cancelled::TooLate(state) => Self::TooLate(state),
            _ => Self::NotFound,
        }
    }
}

impl From<Changed> for Truth {
    fn from(changed: Changed) -> Self {
        match changed {
            Changed::Changed(_) => Self::Done,
            Changed::ChangedAfterAttempt(_) => Self::DoneAfterAttempt,
            Changed::TooLate(state) => Self::TooLate(state),
            _ => Self::NotFound,
        }
    }
}

/// All that happened in one world, and a number that tells two histories apart.
#[derive(Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
    hash: u64,
}

impl History {
    pub fn write(&mut self, entry: Entry) {
        self.fold(entry.at_us);
        self.fold(entry.store_us);
        if let Some(id) = entry.id {
            self.fold(id.entropy());
        }
        let mut hasher = Fold(self.hash);
        std::hash::Hash::hash(&entry.what, &mut hasher);
        self.hash = hasher.0;
        self.entries.push(entry);
    }

    /// Lets a number take part in the hash that is in no entry.
    pub fn fold(&mut self, value: u64) {
        self.hash = mix(self.hash ^ value).wrapping_add(0x9E37_79B9_7F4A_7C15);
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines of one event, and those that concern everything.
    pub fn of(&self, id: Option<EventId>) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(move |entry| id.is_none() || entry.id.is_none() || entry.id == id)
    }
}

/// A hasher without a secret, so that a hash means the same in every run.
struct Fold(u64);

impl std::hash::Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

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
