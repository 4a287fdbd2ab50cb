//! The states of an event and the one table of legal moves between them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an event stands.
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
    /// Waits for its due time. A push with a delay, a retry and a snooze set it; the mover, a
    /// cancel or the expiry take it away.
    Scheduled,
    /// Due, and waits in the publish list for a consumer with room.
    Ready,
    /// Belongs to a node, for as long as that node's heartbeat lasts. If the process dies, the
    /// reaper makes it ready again or, when its attempts are used up, dead.
    Leased,
    /// A handler succeeded, or discarded it. Final.
    Done,
    /// Will not be tried again by itself: kept, listed, and can be revived or dropped.
    Dead,
    /// Taken back by its owner before a handler started. Final.
    Cancelled,
    /// Reached its expiry, or was too late to be of use. Final.
    Expired,
}

impl State {
    /// Every state, in the order of an event's life.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::Ready,
        Self::Leased,
        Self::Done,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
    ];

    /// Whether an event may go from this state to `next`: the one table of legal moves.
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
            Self::Scheduled => !matches!(next, Self::Done),
            Self::Ready => !matches!(next, Self::Ready | Self::Done),
            Self::Leased => !matches!(next, Self::Leased | Self::Cancelled),
            Self::Dead => matches!(next, Self::Ready | Self::Cancelled),
            Self::Done | Self::Cancelled | Self::Expired => false,
        }
    }

    /// Whether the event's life is over. A dead event is not: it can be revived.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Expired)
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
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
