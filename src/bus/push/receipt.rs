//! The receipt of a push.

use crate::core::engine::ID_AHEAD_MAX;
use crate::core::op::{PushOutcome, PushReport};
use crate::core::push::PushedId;
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventId;
use crate::metrics::PushCounters;
use crate::store::Durability;
use crate::time::Timestamp;
use crate::trace::names::{ACCEPTED, DUPLICATE, REPLACED};

/// The receipt of a push: its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    id: EventId,
    due: Timestamp,
    durability: Durability,
    verdict: PushOutcome,
}

impl Receipt {
    /// Returns the event's id: that of the existing event when the push was a duplicate.
    #[must_use]
    pub fn id(&self) -> EventId {
        match self.verdict {
            PushOutcome::Duplicate(id) => id,
            _ => self.id,
        }
    }

    /// Returns when it is due, by the store's clock.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.due
    }

    /// Returns the durability of the event: what was requested, or more if the store's own is
    /// higher.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns whether the event is new.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        !self.is_duplicate()
    }

    /// Returns whether the event, or one with its unique key, existed already; nothing was changed.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        matches!(self.verdict, PushOutcome::Duplicate(_))
    }

    /// Returns the waiting event that it replaced; that one is cancelled.
    #[must_use]
    pub fn replaced(&self) -> Option<EventId> {
        match self.verdict {
            PushOutcome::Replaced(id) => Some(id),
            _ => None,
        }
    }
}

impl Receipt {
    /// Returns its outcome and its due time, as fields of the push's span.
    pub(super) fn span_fields(&self) -> (&'static str, Timestamp) {
        let outcome = match self.verdict {
            PushOutcome::Duplicate(_) => DUPLICATE,
            PushOutcome::Replaced(_) => REPLACED,
            _ => ACCEPTED,
        };
        (outcome, self.due)
    }
}

/// Returns the receipt of an event that the store decided on at `now_us`.
pub(super) fn receipt(
    (id, made): (EventId, PushedId),
    pushed: PushReport,
    durability: Durability,
    now_us: u64,
) -> Result<Receipt> {
    let PushReport { due, verdict } = pushed;
    let (kind, text) = match (verdict, made) {
        (PushOutcome::Accepted | PushOutcome::Duplicate(_) | PushOutcome::Replaced(_), _) => {
            return Ok(Receipt {
                id,
                due,
                durability,
                verdict,
            });
        }
        (PushOutcome::Conflict, _) => (
            ErrorKind::Conflict,
            format!("the id {id} belongs to an event with another payload"),
        ),
        (PushOutcome::TooOld, PushedId::FromCaller) => (
            ErrorKind::Conflict,
            format!(
                "the id {id} is older than the tombstones of the store, or of a time to come of which \
                 its bucket has had too many, so its event may have been handled already; it was not \
                 pushed. Check its records, and push it under a new id only if handling it twice does \
                 no harm"
            ),
        ),
        (PushOutcome::TooOld, PushedId::Generated | PushedId::Renewed) => (
            ErrorKind::Unavailable,
            format!(
                "the bucket accepts no id as old as {id}, although it was made by the store's time; \
                 nothing was pushed. Push again in a moment"
            ),
        ),
        (PushOutcome::TooNew, _) => (
            ErrorKind::Invalid,
            format!(
                "the id {id} was made at {}, and the store's time is {}; an id may be at most \
                 {ID_AHEAD_MAX:?} ahead. Set the clock that ids are made by, or make them by \
                 `Queue::new_id`",
                id.created(),
                Timestamp::from_millis(now_us / 1_000),
            ),
        ),
        (PushOutcome::Unknown, _) => (
            ErrorKind::Unknown,
            format!(
                "the event {id} may have been accepted: an earlier attempt of this push got no \
                 response, and its tombstone is gone. Check its records before pushing it under a \
                 new id"
            ),
        ),
    };
    Err(Error::new(kind, text))
}

/// Counts the results of a push.
pub(super) fn count(pushes: &PushCounters, pushed: &[Result<Receipt>]) {
    let (mut new, mut duplicates) = (0, 0);
    for pushed in pushed {
        match pushed {
            Ok(receipt) if receipt.is_duplicate() => duplicates += 1,
            Ok(_) => new += 1,
            Err(error) => pushes.rejected(error.kind(), 1),
        }
    }
    pushes.accepted(new, duplicates);
}

/// Returns the error of a push without a result.
pub(super) fn lost() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the store returned no result for a push",
    )
}
