//! Prepared events: built, encoded, and ready to be pushed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::bus::fan_out::in_order;
use crate::bus::payloads::EncodedValue;
use crate::bus::push::options::EventOptions;
use crate::bus::queue_handle::QueueHandle;
use crate::core::op::{NewEvent, StoreOp, Unique};
use crate::error::{Error, Result};
use crate::event::{BucketId, Envelope, EventId, check_spread};
use crate::store::Durability;
use crate::time::{Timestamp, When};
use crate::trace;

/// An event on its way to the store.
pub(super) struct PreparedEvent {
    pub(super) event: NewEvent,
    /// Its encoded value, if the caller chose its id.
    pub(super) given: Option<EncodedValue>,
    pub(super) durability: Option<Durability>,
}

impl PreparedEvent {
    /// Adds the trace context of the push.
    pub(super) fn stamp(&mut self) {
        trace::stamp(&mut Arc::make_mut(&mut self.event.envelope).headers);
    }
}

/// The id and the bucket of a new event, and the time of its push.
#[derive(Clone, Copy)]
pub(super) struct EventPlace {
    pub(super) id: EventId,
    pub(super) bucket: BucketId,
    pub(super) pushed: Timestamp,
}

impl QueueHandle {
    /// Builds what is sent to the store, under the id that its caller chose or a new one.
    pub(super) fn prepare(
        &self,
        value: EncodedValue,
        options: EventOptions,
    ) -> Result<PreparedEvent> {
        let now = self.inner.now();
        let given = options.id.map(|_| value.clone());
        let place = self.place(&options, now);
        let durability = options.durability.or(self.inner.durability);
        let event = self.build(place, now, value, options)?;
        event.envelope.check(self.inner.payload_bytes_max)?;
        Ok(PreparedEvent {
            event,
            given,
            durability,
        })
    }

    fn place(&self, options: &EventOptions, now: Timestamp) -> EventPlace {
        let buckets = self.buckets();
        if let Some(id) = options.id {
            return EventPlace {
                id,
                bucket: id.place(buckets),
                pushed: now,
            };
        }
        let unique = options.unique.as_ref().map(|(key, _)| key);
        let id = match unique.or(options.key.as_ref()) {
            Some(text) => EventId::random(now, BucketId::of_text(text, buckets)),
            None => self.inner.ids.id(buckets, now),
        };
        EventPlace {
            id,
            bucket: id.bucket(),
            // An id of a run may be a little older. Its event is then, too, so that nothing has to
            // be stored of that.
            pushed: id.created(),
        }
    }

    /// Builds an event by its options and those of its queue.
    pub(super) fn build(
        &self,
        place: EventPlace,
        now: Timestamp,
        value: EncodedValue,
        options: EventOptions,
    ) -> Result<NewEvent> {
        let attempts = options.attempts.unwrap_or(self.options.attempts);
        if attempts == 0 {
            return Err(Error::invalid("attempts is 0; it must be 1 to 65535"));
        }
        let when = options.when.unwrap_or(When::Now);
        let (unique, on_taken) = match options.unique {
            Some((key, on_taken)) => (Some(key), on_taken),
            None => (None, Unique::Keep),
        };
        let payload = self.stored(place.id, value, None)?;
        let mut envelope = Envelope {
            pushed: place.pushed,
            attempts,
            delayed: when != When::Now,
            version: options.version.unwrap_or(self.options.version),
            keeps_payload: options.keep_payload.unwrap_or(self.options.keep_payload),
            key: options.key,
            unique,
            expires: options
                .expires
                .or_else(|| options.expires_after.map(|span| now + span)),
            late: options.late.unwrap_or(self.options.late),
            headers: options.headers,
            ..Envelope::new(place.id, self.name.clone(), payload)
        };
        if let Some(period) = options.unique_for {
            envelope.keep_unique_for(period)?;
        }
        let window = options.spread.unwrap_or(self.options.spread);
        let when = spread_out(&mut envelope, window, when, now)?;
        envelope.put_in(place.bucket);
        Ok(NewEvent {
            envelope: Arc::new(envelope),
            when: when.checked(now)?,
            on_taken,
        })
    }

    /// Puts an event with an id of its caller's into the bucket where an earlier push has put it,
    /// if the queue had another number of buckets then.
    pub(super) async fn follow_earlier_push(&self, prepared: &mut PreparedEvent) -> Result<()> {
        if prepared.given.is_none() {
            return Ok(());
        }
        let (inner, envelope) = (&self.inner, &mut prepared.event.envelope);
        let id = envelope.id;
        let first = self.bucket(envelope.bucket());
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
}

/// Applies jitter over `window` to the requested time; returns the due time.
fn spread_out(
    envelope: &mut Envelope,
    window: Duration,
    when: When,
    now: Timestamp,
) -> Result<When> {
    check_spread(window)?;
    if window.is_zero() {
        return Ok(when);
    }
    let part = envelope.spread_over(window, when);
    Ok(match when {
        When::Now => When::After(part),
        When::After(delay) => When::After(delay.saturating_add(part)),
        When::At(due) => When::At(due.max(now) + part),
    })
}
