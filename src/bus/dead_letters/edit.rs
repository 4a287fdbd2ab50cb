//! Editing the payload of a dead letter, also together with its revival.

use std::sync::Arc;

use serde::Serialize;

use crate::bus::dead_letters::DeadLetters;
use crate::bus::payloads::{is_encrypted, version_over};
use crate::codec::{Codec, Encoded, PayloadForm, encode};
use crate::core::op::{ChangeOutcome, DeadLetterEdit, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, Envelope, EventId, Payload, State};

/// The result of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edited {
    /// The dead letter has the new payload, and a record of the edit.
    Edited,
    /// It is dead, and has another payload than the one that was given as its own; nothing was
    /// changed.
    Conflict,
    /// It is in this state and not dead; nothing was changed. A dead letter that
    /// [`edit_and_revive`](DeadLetters::edit_and_revive) cannot revive, as its expiry has passed, is
    /// [`Expired`](State::Expired) here.
    NotDead(State),
    /// No queue in question has an event with this id, or a tombstone of one.
    NotFound,
}

impl DeadLetters {
    /// Replaces the payload of a dead letter, which [`revive`](Self::revive) then delivers to its
    /// handler. Only [`queue`](Self::queue) and [`by`](Self::by) apply here.
    ///
    /// To change an event that waits, use [`Queue::update`](crate::Queue::update). If the dead
    /// letter is revived concurrently, either it has the new payload when revived, or it keeps its
    /// own and the result is [`NotDead`](Edited::NotDead): it never changes without a record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the payload cannot be encoded or is
    /// too large, when the queue has a handler in this program that could not read it, or for an
    /// invalid option; or the store's error.
    pub async fn edit<T: Serialize + ?Sized>(self, id: EventId, payload: &T) -> Result<Edited> {
        self.replace(id, None, encoded(payload)).await
    }

    /// Like [`edit`](Self::edit), with a value that is already encoded by the codec of its queue;
    /// whether its handler can decode it is not checked. It is encrypted if the queue says so or the
    /// replaced payload is.
    ///
    /// # Errors
    ///
    /// As [`edit`](Self::edit).
    pub async fn edit_bytes(self, id: EventId, payload: impl Into<Payload>) -> Result<Edited> {
        let payload = payload.into();
        let value = |_: &Codec| Ok((payload.as_bytes().to_vec(), false));
        self.replace(id, None, value).await
    }

    /// Replaces the payload of a dead letter and makes it ready again, with all its attempts, in one
    /// step: nothing comes between the two. `was` is its payload as it was read; if it has another
    /// one by now, nothing is changed and the result is [`Conflict`](Edited::Conflict). The edit and
    /// the revival leave a record each. Only [`queue`](Self::queue) and [`by`](Self::by) apply here.
    ///
    /// # Errors
    ///
    /// As [`edit`](Self::edit).
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # async fn mend(bus: Bus) -> duly::Result<()> {
    /// let letters = bus.dead_letters().queue("mail").page().await?;
    /// for letter in letters.items {
    ///     let mended = letter.payload_as::<String>()? + "@example.org";
    ///     let mend = bus.dead_letters().queue("mail").by("ann");
    ///     mend.edit_and_revive(letter.id, &letter.payload, &mended).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn edit_and_revive<T: Serialize + ?Sized>(
        self,
        id: EventId,
        was: &Payload,
        payload: &T,
    ) -> Result<Edited> {
        self.replace(id, Some(was), encoded(payload)).await
    }

    /// Replaces the payload; revives, too, if `was` is given and still its payload. `value` returns
    /// the new one, encoded, and whether it must decode as that of its handler.
    async fn replace(
        self,
        id: EventId,
        was: Option<&Payload>,
        value: impl Fn(&Codec) -> Result<(Vec<u8>, bool)>,
    ) -> Result<Edited> {
        self.check()?;
        let mut result = Edited::NotFound;
        let queues = &self.filter.queues;
        let is_asked = |bucket: &BucketKey| {
            id.may_lie_in(bucket.bucket) && (queues.is_empty() || queues.contains(&bucket.queue))
        };
        let reach = self.inner.reach(is_asked).await?;
        for bucket in reach.buckets {
            // Only the queue that has it knows its codec and encryption.
            let Some(found) = self.inner.apply(&bucket, StoreOp::get(id)).await? else {
                continue;
            };
            let (queue, options) = (&bucket.queue, self.inner.options(&bucket.queue));
            let (value, must_decode) = value(&options.codec)?;
            let replaced = found.body.as_deref();
            let written = self.inner.knows_version(queue).then_some(options.version);
            let form = PayloadForm {
                codec: options.codec,
                version: replaced.and_then(|replaced| version_over(replaced, written)),
            };
            // The event's pusher encrypts, though this process may not.
            let encrypt = options.encrypt || replaced.is_some_and(is_encrypted);
            let payload = self.inner.stored((id, queue), form, encrypt, value)?;
            if must_decode && let Some(check) = self.inner.checks.get(queue) {
                let mut edited = Envelope::new(id, queue.clone(), payload.clone());
                edited.version = replaced.map_or(0, |replaced| replaced.version);
                let decoded = check.decode(&self.inner.keys, options.version, &edited);
                decoded.map_err(|why| {
                    Error::invalid(format!(
                        "queue {queue}: its handler could not read this: {why}"
                    ))
                })?;
            }
            let by = self.by.clone();
            let edit = match (was, found.body) {
                (None, _) => StoreOp::edit(id, payload, by),
                (Some(was), Some(body)) if body.payload == *was => {
                    let was = body.fingerprint();
                    StoreOp::edit_and_revive(DeadLetterEdit {
                        id,
                        was,
                        payload,
                        by,
                    })
                }
                (Some(_), _) if found.state == State::Dead => return Ok(Edited::Conflict),
                (Some(_), _) => {
                    result = Edited::NotDead(found.state);
                    continue;
                }
            };
            let action = was.map_or("dead letters edited", |_| "dead letters revived");
            let line = self.line(action, [queue.as_str()]);
            let inner = Arc::clone(&self.inner);
            let edit = async move { inner.apply(&bucket, edit).await };
            match line.step(edit, is_changed).await? {
                edited if is_changed(&edited) => return Ok(Edited::Edited),
                ChangeOutcome::TooLate(State::Dead) => result = Edited::Conflict,
                ChangeOutcome::TooLate(state) => result = Edited::NotDead(state),
                _ => {}
            }
        }
        match (result, reach.left_out) {
            (Edited::NotFound, Some(error)) => Err(error),
            (result, _) => Ok(result),
        }
    }
}

fn is_changed(edited: &ChangeOutcome) -> bool {
    matches!(
        edited,
        ChangeOutcome::Changed(_) | ChangeOutcome::ChangedAfterAttempt(_)
    )
}

/// Encodes a value that its handler must be able to read.
fn encoded<T: Serialize + ?Sized>(payload: &T) -> impl Fn(&Codec) -> Result<(Vec<u8>, bool)> {
    move |codec| match encode(*codec, payload).and_then(Encoded::certain) {
        Ok(bytes) => Ok((bytes, true)),
        Err(error) => Err(Error::invalid("the payload cannot be encoded").because(error)),
    }
}
