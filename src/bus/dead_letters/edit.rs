//! Another payload for a dead letter.

use serde::Serialize;

use crate::bus::dead_letters::DeadLetters;
use crate::bus::dead_letters::walk::get;
use crate::bus::payloads::encode_for;
use crate::bus::queue::unexpected;
use crate::core::op::{Changed, Reply, StoreOp};
use crate::error::Result;
use crate::event::{EventId, Payload, QueueName, State};
use crate::flow::QueueOptions;

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
    /// An event that waits is changed by [`Queue::update`](crate::Queue::update). One that is
    /// revived by somebody else at this very moment has the new payload as well, unless it is
    /// handled already.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the payload cannot be encoded or is
    /// too large, or for something else that was asked for and is not possible; or what the store
    /// answers.
    pub async fn edit<T: Serialize + ?Sized>(self, id: EventId, payload: &T) -> Result<Edited> {
        self.edit_by(id, |queue, options| encode_for(queue, options, payload))
            .await
    }

    /// As [`edit`](Self::edit), with a value that is encoded already, by the codec of its queue; that
    /// its handler can decode it is not checked. It is encrypted where the queue says so.
    ///
    /// # Errors
    ///
    /// As [`edit`](Self::edit).
    pub async fn edit_bytes(self, id: EventId, payload: impl Into<Payload>) -> Result<Edited> {
        let payload = self.inner.checked(payload.into())?;
        self.edit_by(id, |_, _| Ok(payload.as_bytes().to_vec()))
            .await
    }

    async fn edit_by(
        self,
        id: EventId,
        value: impl Fn(&QueueName, &QueueOptions) -> Result<Vec<u8>>,
    ) -> Result<Edited> {
        self.check()?;
        let mut answer = Edited::NotFound;
        for bucket in self.inner.open()?.buckets().await? {
            let is_asked =
                self.filter.queues.is_empty() || self.filter.queues.contains(&bucket.queue);
            if bucket.bucket != id.bucket() || !is_asked {
                continue;
            }
            let Some(found) = get(&self.inner, &bucket, id).await? else {
                continue;
            };
            if found.state != State::Dead {
                answer = Edited::NotDead(found.state);
                continue;
            }
            let (queue, options) = (&bucket.queue, self.inner.options(&bucket.queue));
            let value = value(queue, &options)?;
            // The envelope tells the version of what is replaced.
            let version = Some(options.version).filter(|version| *version > 0);
            let payload = self.inner.stored((id, queue), &options, version, value)?;
            let update = StoreOp::Update {
                id,
                payload,
                by: self.by,
            };
            return match self.inner.apply(&bucket, update).await?.reply {
                Reply::Updated(Changed::Changed(_) | Changed::ChangedAfterAttempt(_)) => {
                    Ok(Edited::Edited)
                }
                Reply::Updated(Changed::TooLate(state)) => Ok(Edited::NotDead(state)),
                Reply::Updated(Changed::NotFound) => Ok(Edited::NotFound),
                reply => Err(unexpected(&reply)),
            };
        }
        Ok(answer)
    }
}
