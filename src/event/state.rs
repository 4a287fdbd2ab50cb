//! The states of an event and the table of legal transitions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of an event.
///
/// ```text
///            push              move due           fetch
///  caller ---------> SCHEDULED ---------> READY ---------> LEASED
///                      ^   |                ^                |
///                      |   | cancel         | reap           |
///                      |   `-> CANCELLED    `-- lease lost --+
///                      |  retry, snooze                      |
///                      `------------------------- outcome <--'
///                                               ack |  | bury
///                                                   v  v
///                                                DONE  DEAD --- revive ---> READY
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// Waits for its due time, after a push with a delay, a retry or a snooze.
    Scheduled,
    /// Due; waits in the ready list for a consumer with room.
    Ready,
    /// Leased to a node, for as long as that node's heartbeat lasts. If the process dies, the
    /// reaper makes it ready again or, when its attempts are used up, dead.
    Leased,
    /// Its handler succeeded. Final.
    Done,
    /// A dead letter: not retried automatically; can be revived or dropped.
    Dead,
    /// Cancelled before a handler started. Final.
    Cancelled,
    /// Expired, by its expiry time or its lateness policy. Final.
    Expired,
    /// Discarded: its handler said that nothing is to be done any more. Final.
    Discarded,
}

impl State {
    /// All states, in the order of an event's life.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Ready,
        Self::Leased,
        Self::Done,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
        Self::Discarded,
    ];

    /// Returns whether the transition from this state to `next` is legal.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::event::State;
    ///
    /// assert!(State::Dead.may_become(State::Ready)); // revive
    /// assert!(!State::Done.may_become(State::Ready));
    /// ```
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Scheduled => !matches!(next, Self::Done | Self::Discarded),
            Self::Ready => !matches!(next, Self::Ready | Self::Done | Self::Discarded),
            Self::Leased => !matches!(next, Self::Leased | Self::Cancelled),
            Self::Dead => matches!(next, Self::Ready | Self::Cancelled),
            Self::Done | Self::Cancelled | Self::Expired | Self::Discarded => false,
        }
    }

    /// Returns whether the event has ended. A dead event has not: it can be revived.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Done | Self::Cancelled | Self::Expired | Self::Discarded
        )
    }

    /// The state in lower case, as in records and settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Discarded => "discarded",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
