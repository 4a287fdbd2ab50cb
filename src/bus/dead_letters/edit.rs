//! Another payload for a dead letter.

use serde::Serialize;

use crate::bus::dead_letters::DeadLetters;
use crate::bus::queue::unexpected;
use crate::core::op::{Changed, Reply, StoreOp};
use crate::error::{Error, Result};
use crate::event::{EventId, Payload, State};

/// The truth about an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edited {
    /// The dead letter has the new payload, and a record says so.
    Edited,
    /// It is no dead letter but in this state; nothing was changed.
    NotDead(State),
    /// No queue that was asked has an event with this id, or remembers one.
    NotFound,
}

impl DeadLetters {
    /// Gives a dead letter another payload: what [`revive`](Self::revive) then hands to its
    /// handler. Of what was asked for, only [`queue`](Self::queue) and [`by`](Self::by) count here.
    ///
    /// An event that waits is changed by [`Queue::update`](crate::Queue::update). One that somebody
    /// else revives at this very moment has the new payload when it is revived, or keeps its own and
    /// the answer is [`NotDead`](Edited::NotDead): it never changes without a record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the payload cannot be encoded or is
    /// too large, or for something else that was asked for and is not possible; or what the store
    /// answers.
    pub async fn edit<T: Serialize + ?Sized>(self, id: EventId, payload: &T) -> Result<Edited> {
        let bytes = serde_json::to_vec(payload)
            .map_err(|error| Error::invalid("the payload cannot be encoded").because(error))?;
        self.edit_bytes(id, bytes).await
    }

    /// As [`edit`](Self::edit), with a payload that is encoded already; that its handler can decode
    /// it is not checked.
    ///
    /// # Errors
    ///
    /// As [`edit`](Self::edit).
    pub async fn edit_bytes(self, id: EventId, payload: impl Into<Payload>) -> Result<Edited> {
        self.check()?;
        let payload = self.inner.checked(payload.into())?;
        let mut answer = Edited::NotFound;
        for bucket in self.inner.open()?.buckets().await? {
            let is_asked =
                self.filter.queues.is_empty() || self.filter.queues.contains(&bucket.queue);
            if bucket.bucket != id.bucket() || !is_asked {
                continue;
            }
            let update = StoreOp::Update {
                id,
                payload: payload.clone(),
                by: self.by.clone(),
                dead_only: true,
            };
            match self.inner.apply(&bucket, update).await?.reply {
                Reply::Updated(Changed::Changed(_) | Changed::ChangedAfterAttempt(_)) => {
                    return Ok(Edited::Edited);
                }
                Reply::Updated(Changed::TooLate(state)) => answer = Edited::NotDead(state),
                Reply::Updated(Changed::NotFound) => {}
                reply => return Err(unexpected(&reply)),
            }
        }
        Ok(answer)
    }
}
