//! State machine of one push across its attempts: what may be tried again, under which id, and what
//! the pusher is told.
//!
//! Two levels repeat a push. A store that is reached over a network sends it again under the same
//! id while its servers do not answer ([`Attempts`]); the bus sends it again under a new id when
//! the store refuses the time of an id that the bus made ([`PushedId`]). The second is only safe
//! when it is certain that no attempt of the first has happened, so what the first level knows
//! travels to the second in the verdict: [`PushVerdict::Unknown`].

use crate::core::op::PushVerdict;
use crate::error::ErrorKind;
use crate::event::EventId;

/// What is known of a push whose attempts all carry the same ids.
///
/// # Examples
///
/// ```
/// use duly::{ErrorKind, EventId};
/// use duly::__internal::Attempts;
/// use duly::event::BucketId;
/// use duly::store::operation::PushVerdict;
/// use duly::time::Timestamp;
///
/// let id = EventId::from_parts(Timestamp::EPOCH, BucketId(0), 1);
/// let mut attempts = Attempts::default();
/// assert_eq!(attempts.verdict(id, PushVerdict::TooOld), PushVerdict::TooOld);
/// assert!(attempts.failed(ErrorKind::Unknown), "it may be tried again");
/// assert_eq!(attempts.verdict(id, PushVerdict::TooOld), PushVerdict::Unknown);
/// assert_eq!(attempts.verdict(id, PushVerdict::Duplicate(id)), PushVerdict::Accepted);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    may_have_happened: bool,
}

impl Attempts {
    /// An attempt failed. Returns whether another one may succeed.
    pub fn failed(&mut self, kind: ErrorKind) -> bool {
        self.may_have_happened |= kind == ErrorKind::Unknown;
        matches!(kind, ErrorKind::Unknown | ErrorKind::Unavailable)
    }

    /// An attempt whose outcome is not known was made beside the one that is answered.
    pub fn may_have_happened(&mut self) {
        self.may_have_happened = true;
    }

    /// The kind of the error of a push that is given up after an attempt failed with `last`.
    #[must_use]
    pub fn given_up(&self, last: ErrorKind) -> ErrorKind {
        match self.may_have_happened {
            // An earlier attempt may have happened, whatever became of the last one.
            true => ErrorKind::Unknown,
            false => last,
        }
    }

    /// What the store's verdict on the event `id` means after the attempts before.
    #[must_use]
    pub fn verdict(&self, id: EventId, verdict: PushVerdict) -> PushVerdict {
        match verdict {
            verdict if !self.may_have_happened => verdict,
            PushVerdict::Duplicate(other) if other == id => PushVerdict::Accepted,
            // It may be there or be over, somebody may have given it another payload, and an earlier
            // attempt may still be under way.
            PushVerdict::TooOld | PushVerdict::TooNew | PushVerdict::Conflict => {
                PushVerdict::Unknown
            }
            verdict => verdict,
        }
    }
}

/// The id of a pushed event: who made it, and whether it was made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushedId {
    /// The caller gave it, and may push it again.
    Given,
    /// The bus made it for this push: nobody else knows it.
    Made,
    /// The bus made it anew, as the store refused the time of the first one.
    Renewed,
}

/// What the bus does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPush {
    /// Nothing: this is what became of the event.
    Done(PushVerdict),
    /// It pushes the event under a new id, with the store's time.
    Renew,
}

impl PushedId {
    /// What follows from the verdict on the event `id`.
    #[must_use]
    pub fn next(self, id: EventId, verdict: PushVerdict) -> NextPush {
        match (self, verdict) {
            // Only an earlier attempt of this push can have brought it.
            (Self::Made | Self::Renewed, PushVerdict::Duplicate(other)) if other == id => {
                NextPush::Done(PushVerdict::Accepted)
            }
            (Self::Made, PushVerdict::TooOld | PushVerdict::TooNew) => NextPush::Renew,
            (_, verdict) => NextPush::Done(verdict),
        }
    }
}
