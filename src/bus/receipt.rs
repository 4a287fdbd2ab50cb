//! What a push answers.

use crate::core::op::{PushVerdict, Pushed};
use crate::core::push::PushedId;
use crate::core::reference::ID_AHEAD_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventId;
use crate::store::Durability;
use crate::time::Timestamp;
use crate::trace::names::{ACCEPTED, DUPLICATE, REPLACED};

/// What a push answers: proof of what was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    id: EventId,
    due: Timestamp,
    durability: Durability,
    verdict: PushVerdict,
}

impl Receipt {
    /// The event's id: that of the event which was there already when the push was a duplicate.
    #[must_use]
    pub fn id(&self) -> EventId {
        match self.verdict {
            PushVerdict::Duplicate(id) => id,
            _ => self.id,
        }
    }

    /// When it is due, by the store's clock.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.due
    }

    /// What the event survives from now on: what was asked for, or what the store does by itself
    /// where that is more.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether the event is new.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        !self.is_duplicate()
    }

    /// Whether it was there already, the same or one with its unique key; nothing was changed.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        matches!(self.verdict, PushVerdict::Duplicate(_))
    }

    /// The waiting event whose place it took; that one is cancelled.
    #[must_use]
    pub fn replaced(&self) -> Option<EventId> {
        match self.verdict {
            PushVerdict::Replaced(id) => Some(id),
            _ => None,
        }
    }
}

impl Receipt {
    /// Its outcome and its due time, as the span of its push tells them.
    pub(super) fn told(&self) -> (&'static str, Timestamp) {
        let outcome = match self.verdict {
            PushVerdict::Duplicate(_) => DUPLICATE,
            PushVerdict::Replaced(_) => REPLACED,
            _ => ACCEPTED,
        };
        (outcome, self.due)
    }
}

/// What a push of an event is answered with, that the store decided on at `now_us`.
pub(super) fn receipt(
    (id, made): (EventId, PushedId),
    pushed: Pushed,
    durability: Durability,
    now_us: u64,
) -> Result<Receipt> {
    let Pushed { due, verdict } = pushed;
    let (kind, text) = match (verdict, made) {
        (PushVerdict::Accepted | PushVerdict::Duplicate(_) | PushVerdict::Replaced(_), _) => {
            return Ok(Receipt {
                id,
                due,
                durability,
                verdict,
            });
        }
        (PushVerdict::Conflict, _) => (
            ErrorKind::Conflict,
            format!("the id {id} belongs to an event with another payload"),
        ),
        (PushVerdict::TooOld, PushedId::Given) => (
            ErrorKind::Conflict,
            format!(
                "the id {id} is older than what the store remembers of finished events, so nobody \
                 can know whether its event was handled already; it was not pushed now. Look for \
                 its records, and push it under a new id only where handling it twice does no harm"
            ),
        ),
        (PushVerdict::TooOld, PushedId::Made | PushedId::Renewed) => (
            ErrorKind::Unavailable,
            format!(
                "the bucket accepts no id as old as {id}, though it was made by the store's time; \
                 nothing was pushed. Push again in a moment"
            ),
        ),
        (PushVerdict::TooNew, _) => (
            ErrorKind::Invalid,
            format!(
                "the id {id} says that it was made at {}, and the store's time is {}; an id may be \
                 at most {ID_AHEAD_MAX:?} ahead. Set the clock right by which ids are made, or make \
                 them by `Queue::new_id`",
                id.created(),
                Timestamp::from_millis(now_us / 1_000),
            ),
        ),
        (PushVerdict::Unknown, _) => (
            ErrorKind::Unknown,
            format!(
                "the event {id} may have been accepted: an earlier attempt of this push got no \
                 answer, and the store does not know any more what became of it. Look for its \
                 records before it is pushed under a new id"
            ),
        ),
    };
    Err(Error::new(kind, text))
}
