//! A prepared event: built, encoded, and ready to be pushed.

use std::sync::Arc;

use futures_util::TryStreamExt;
use serde::Serialize;

use crate::bus::fan_out::in_order;
use crate::bus::push::{id_in, lost, spread_out};
use crate::bus::{EventBuilder, Queue, Receipt};
use crate::core::op::{NewEvent, StoreOp, Unique};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, Envelope};
use crate::store::Durability;
use crate::time::When;
use crate::trace;

/// An event on its way to the store.
pub(super) struct PreparedEvent {
    pub(super) event: NewEvent,
    /// Its encoded value, if the caller chose its id.
    pub(super) given: Option<Vec<u8>>,
    pub(super) durability: Option<Durability>,
}

impl PreparedEvent {
    /// Adds the trace context of the push.
    pub(super) fn stamp(&mut self) {
        trace::stamp(&mut Arc::make_mut(&mut self.event.envelope).headers);
    }
}

impl<T: Serialize + Send + Sync + 'static> EventBuilder<T> {
    /// Builds what is sent to the store.
    pub(super) fn prepare(self) -> Result<PreparedEvent> {
        let queue = self.queue;
        let now = queue.inner.now();
        let text = self
            .unique
            .as_ref()
            .map(|(key, _)| key)
            .or(self.key.as_ref());
        let buckets = queue.inner.buckets(&queue.name, &queue.options);
        let id = match (self.id, text) {
            (Some(id), _) => id,
            (None, Some(text)) => id_in(BucketId::of_text(text, buckets), now),
            (None, None) => queue.inner.ids.id(buckets, now),
        };
        let bucket = match self.id {
            Some(id) => id.place(buckets),
            None => id.bucket(),
        };
        // An id of a run may be a little older. Its event is then, too, so that nothing has to be
        // stored of that.
        let pushed = match self.id {
            Some(_) => now,
            None => id.created(),
        };
        let attempts = self.attempts.unwrap_or(queue.options.attempts);
        if attempts == 0 {
            return Err(Error::invalid("attempts is 0; it must be 1 to 65535"));
        }
        let queue = match self.codec {
            Some(codec) => queue.with_codec(codec),
            None => queue,
        };
        let value = queue.encode(&self.payload)?;
        let given = self.id.map(|_| value.clone());
        let mut envelope = Envelope {
            pushed,
            attempts,
            delayed: self.when != When::Now,
            version: queue.options.version,
            keeps_payload: self.keep_payload.unwrap_or(queue.options.keep_payload),
            key: self.key,
            unique: self.unique.as_ref().map(|(key, _)| key.clone()),
            expires: self.expires_after.map(|span| now + span),
            late: self.late.unwrap_or(queue.options.late),
            headers: self.headers,
            ..Envelope::new(id, queue.name.clone(), queue.stored(id, value)?)
        };
        if let Some(period) = self.unique_for {
            envelope.keep_unique_for(period)?;
        }
        let spread = self.spread.unwrap_or(queue.options.spread);
        let when = spread_out(&mut envelope, spread, self.when, now)?;
        envelope.put_in(bucket);
        envelope.check(queue.inner.payload_bytes_max)?;
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when: when.checked(now)?,
            on_taken: self.unique.map_or(Unique::Keep, |(_, on_taken)| on_taken),
        };
        Ok(PreparedEvent {
            event,
            given,
            durability: self.durability.or(queue.inner.durability),
        })
    }

    /// Returns the queue that it is pushed to.
    pub(super) fn queue(&self) -> &Queue<T> {
        &self.queue
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Puts an event with an id of its caller's into the bucket where an earlier push has put it,
    /// if the queue had another number of buckets then.
    pub(super) async fn follow_earlier_push(&self, prepared: &mut PreparedEvent) -> Result<()> {
        if prepared.given.is_none() {
            return Ok(());
        }
        let (inner, envelope) = (&self.inner, &mut prepared.event.envelope);
        let id = envelope.id;
        let first = BucketKey::new(self.name.clone(), envelope.bucket());
        if inner.open()?.is_shared() && id.tells_time() && first.bucket == id.bucket() {
            // Nearly always it has been there before. Pushes of such ids must go on while another
            // server is away, and take no more time.
            return Ok(());
        }
        let (others, _away) = inner.other_places(&first, id).await?;
        let found = others.into_iter().map(|other| async move {
            let found = inner.apply(&other, StoreOp::get(id)).await?;
            Ok::<_, Error>(found.map(|_| other.bucket))
        });
        let mut found = in_order(found);
        while let Some(found) = found.try_next().await? {
            if let Some(bucket) = found {
                Arc::make_mut(envelope).put_in(bucket);
                break;
            }
        }
        Ok(())
    }

    /// Pushes one event, under its own id or a generated one.
    pub(super) async fn push_prepared(&self, prepared: PreparedEvent) -> Result<Receipt> {
        let PreparedEvent {
            event,
            given,
            durability,
        } = prepared;
        let bucket = event.envelope.bucket();
        let Some(value) = given else {
            let mut receipts = self.push_made(bucket, vec![event], durability).await?;
            return receipts.pop().unwrap_or_else(|| Err(lost()));
        };
        let events = vec![event.clone()];
        let mut receipts = self.push_given(bucket, events, durability).await?;
        match receipts.pop().unwrap_or_else(|| Err(lost())) {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let same = self.same_in_another_form(&event, &value, durability);
                same.await?.ok_or(error)
            }
            receipt => receipt,
        }
    }
}
