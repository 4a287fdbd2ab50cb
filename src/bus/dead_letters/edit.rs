//! Another payload for a dead letter.

use serde::Serialize;

use crate::bus::dead_letters::DeadLetters;
use crate::bus::payloads::encode_for;
use crate::core::op::{Changed, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId, Payload, QueueName, State};
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
    /// An event that waits is changed by [`Queue::update`](crate::Queue::update). One that somebody
    /// else revives at this very moment has the new payload when it is revived, or keeps its own
    /// and the answer is [`NotDead`](Edited::NotDead): it never changes without a record.
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

    /// As [`edit`](Self::edit), with a value that is encoded already, by the codec of its queue;
    /// that its handler can decode it is not checked. It is encrypted where the queue says so.
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
        let queues = &self.filter.queues;
        let is_asked = |bucket: &BucketKey| {
            bucket.bucket == id.bucket() && (queues.is_empty() || queues.contains(&bucket.queue))
        };
        let reach = self.inner.reach(is_asked).await?;
        for bucket in reach.buckets {
            // Only the queue that has it says how its payload is encoded.
            if self.inner.apply(&bucket, StoreOp::get(id)).await?.is_none() {
                continue;
            }
            let (queue, options) = (&bucket.queue, self.inner.options(&bucket.queue));
            let value = value(queue, &options)?;
            // The envelope tells the version of what is replaced.
            let version = Some(options.version).filter(|version| *version > 0);
            let payload = self.inner.stored((id, queue), &options, version, value)?;
            let edit = StoreOp::edit(id, payload, self.by.clone());
            match self.inner.apply(&bucket, edit).await? {
                Changed::Changed(_) | Changed::ChangedAfterAttempt(_) => return Ok(Edited::Edited),
                Changed::TooLate(state) => answer = Edited::NotDead(state),
                Changed::NotFound => {}
            }
        }
        match (answer, reach.left_out) {
            (Edited::NotFound, Some(error)) => Err(error),
            (answer, _) => Ok(answer),
        }
    }
}
