//! What a push answers.

use crate::core::op::{PushVerdict, Pushed};
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

/// What a push is answered with.
pub(super) fn receipt(id: EventId, pushed: Pushed, durability: Durability) -> Result<Receipt> {
    let Pushed { due, verdict } = pushed;
    match verdict {
        PushVerdict::Conflict => Err(Error::new(
            ErrorKind::Conflict,
            format!("the id {id} belongs to an event with another payload"),
        )),
        PushVerdict::TooOld => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "the id {id} is older than what the store remembers of finished events, so nobody \
                 can know whether it is new; push with a new id"
            ),
        )),
        _ => Ok(Receipt {
            id,
            due,
            durability,
            verdict,
        }),
    }
}
