//! A stored event.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::bus::dead_letters::display;
use crate::bus::inner::Inner;
use crate::core::op::{CancelOutcome, ChangeOutcome, Snapshot, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, EventId, Headers, Payload, QueueName, State};
use crate::store::Operation;
use crate::time::{Timestamp, When};

/// A snapshot of a stored event, whatever its payload type.
///
/// Of an event that is over, only its id, queue, state, due time and attempts are known.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The event.
    pub id: EventId,
    /// Its queue.
    pub queue: QueueName,
    /// Its state.
    pub state: State,
    /// When it is, or was, due.
    pub due: Timestamp,
    /// The counted attempts that have ended; 0 before the end of the first.
    pub tries: u16,
    /// The most attempts; `None` where that is unknown.
    pub tries_max: Option<u16>,
    /// Since when it is ready, leased or dead; `None` in any other state, and where that is
    /// unknown.
    pub since: Option<Timestamp>,
    /// When it was pushed.
    pub pushed: Option<Timestamp>,
    /// When it expires: it is not started afterwards.
    pub expires: Option<Timestamp>,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// The unique key that it was pushed with. Another event may hold it now.
    pub unique: Option<String>,
    /// Its headers.
    pub headers: Headers,
    /// Its payload, as it is stored; `None` when it is over, and when its bytes are damaged.
    pub payload: Option<Payload>,
    /// When its last attempt ended, of one that waits for the next; `None` also where the store does
    /// not know it.
    pub(super) ended: Option<Timestamp>,
    bucket: BucketId,
    inner: Arc<Inner>,
}

impl StoredEvent {
    pub(in crate::bus) fn new(inner: Arc<Inner>, key: BucketKey, snapshot: &Snapshot) -> Self {
        let body = snapshot.body.as_deref();
        Self {
            id: snapshot.id,
            queue: key.queue,
            bucket: key.bucket,
            state: snapshot.state,
            due: snapshot.due,
            tries: snapshot.tries,
            tries_max: body.map(|body| body.attempts),
            since: snapshot.since,
            pushed: body.map(|body| body.pushed),
            expires: body.and_then(|body| body.expires),
            key: body.and_then(|body| body.key.clone()),
            unique: body.and_then(|body| body.unique.clone()),
            headers: body.map(|body| body.headers.clone()).unwrap_or_default(),
            payload: body.map(|body| body.payload.clone()),
            ended: snapshot.ended,
            inner,
        }
    }

    /// Returns the bucket that it lies in.
    pub(in crate::bus) fn bucket(&self) -> BucketId {
        self.bucket
    }

    /// Decodes its payload by its own codec, and decrypts it with the bus's keys. It is not
    /// upgraded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it is no `T`, or cannot be decrypted;
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) when there is none.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T> {
        let none = || {
            let (id, state) = (self.id, self.state);
            Error::new(
                ErrorKind::NotFound,
                format!("event {id} is {state}, and no payload of it is left"),
            )
        };
        let payload = self.payload.as_ref().ok_or_else(none)?;
        self.inner.value(self.id, &self.queue, payload)
    }

    /// Formats its payload for display, as
    /// [`DeadLetter::payload_shown`](crate::dead_letters::DeadLetter::payload_shown) does: of an
    /// encrypted one only the id of its key. `None` when there is no payload.
    #[must_use]
    pub fn payload_shown(&self) -> Option<String> {
        let payload = self.payload.as_ref()?;
        Some(display::payload(payload.as_bytes()))
    }

    /// Cancels the event, and returns the result, by its current state.
    ///
    /// # Errors
    ///
    /// As [`Queue::cancel`](crate::Queue::cancel).
    pub async fn cancel(&self) -> Result<CancelOutcome> {
        self.apply(StoreOp::cancel(self.id)).await
    }

    /// Reschedules the event, and returns the result, by its current state.
    ///
    /// # Errors
    ///
    /// As [`Queue::reschedule`](crate::Queue::reschedule).
    pub async fn reschedule(&self, when: impl Into<When>) -> Result<ChangeOutcome> {
        let when = when.into().checked(self.inner.now())?;
        self.apply(StoreOp::reschedule(self.id, when)).await
    }

    async fn apply<R>(&self, operation: Operation<R>) -> Result<R> {
        let bucket = BucketKey::new(self.queue.clone(), self.bucket);
        self.inner.apply(&bucket, operation).await
    }
}

/// Leaves the payload out.
impl fmt::Debug for StoredEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredEvent")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("state", &self.state)
            .field("due", &self.due)
            .field("tries", &self.tries)
            .field("key", &self.key)
            .field("unique", &self.unique)
            .finish_non_exhaustive()
    }
}
