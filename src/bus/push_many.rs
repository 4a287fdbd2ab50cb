//! Pushing many values at once.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tracing::{Instrument, Span};

use crate::bus::ids::ids_in;
use crate::bus::push::{count, spread_out};
use crate::bus::{Queue, Receipt};
use crate::core::op::{BATCH_MAX, NewEvent, Unique, fitting};
use crate::error::{Error, Result};
use crate::event::{BucketId, Envelope, EventId, Headers};
use crate::time::{Timestamp, When};
use crate::trace;

/// The most events of one [`push_many`](Queue::push_many).
pub const PUSH_MANY_MAX: usize = 100_000;
/// The concurrent batches of a push: enough to use the store well, few enough to leave room for
/// others.
pub(super) const BATCHES_AT_ONCE: usize = 8;
/// Events of one bucket.
type Batch = (BucketId, Vec<NewEvent>);

/// The smallest batch of a large push.
const CHUNK_MIN: usize = 64;

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Pushes many values with one due time, in batches.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push), and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for more than
    /// [`PUSH_MANY_MAX`]. On an error a part of the batches may have been accepted, but nothing of
    /// the failed one, unless the kind is [`ErrorKind::Unknown`](crate::ErrorKind::Unknown).
    pub async fn push_many(
        &self,
        payloads: impl IntoIterator<Item = T>,
        when: impl Into<When>,
    ) -> Result<Vec<Receipt>> {
        let refused = |error: &Error| self.pushes.rejected(error.kind(), 1);
        let (span, batches) = self.batches(payloads, when).inspect_err(refused)?;
        let pushed = batches.into_iter().map(|batch| self.push_counted(batch));
        let pushed = stream::iter(pushed).buffered(BATCHES_AT_ONCE).try_collect();
        let pushed: Result<Vec<_>> = pushed.instrument(span.clone()).await;
        let pushed = pushed.and_then(|pushed| pushed.into_iter().flatten().collect());
        trace::pushed_many(&span, pushed.as_ref().err());
        pushed
    }

    /// Distributes events over buckets, within the span of their push; fails if none of them can be
    /// pushed.
    fn batches(
        &self,
        payloads: impl IntoIterator<Item = T>,
        when: impl Into<When>,
    ) -> Result<(Span, Vec<Batch>)> {
        let now = self.inner.now();
        let when = when.into().checked(now)?;
        let mut encoded = Vec::new();
        for payload in payloads {
            if encoded.len() == PUSH_MANY_MAX {
                return Err(Error::invalid(format!(
                    "more than {PUSH_MANY_MAX} events in one push; push them in parts"
                )));
            }
            encoded.push(self.encode(&payload)?);
        }
        let span = trace::push_many(&self.name, encoded.len());
        let mut headers = Headers::new();
        span.in_scope(|| trace::stamp(&mut headers));
        let buckets = self.inner.buckets(&self.name, &self.options);
        let share = encoded.len().div_ceil(usize::from(buckets));
        let chunk = share.clamp(CHUNK_MIN, BATCH_MAX);
        let first = fastrand::u16(..buckets);
        let mut batches = Vec::new();
        for (payloads, turn) in encoded.chunks_mut(chunk).zip(0_u16..) {
            // No overflow: a push has at most PUSH_MANY_MAX / CHUNK_MIN batches, a queue 1,024
            // buckets.
            let bucket = BucketId((first + turn) % buckets);
            let ids = ids_in(bucket, now, payloads.len());
            let event = |(value, id): (&mut Vec<u8>, EventId)| {
                self.plain_event(id, now, std::mem::take(value), when, &headers)
            };
            let events = payloads.iter_mut().zip(ids).map(event);
            let mut events = events.collect::<Result<Vec<_>>>()?;
            while !events.is_empty() {
                let fits = fitting(&events, |event| event.envelope.payload.len());
                let rest = events.split_off(fits.min(events.len()));
                batches.push((bucket, std::mem::replace(&mut events, rest)));
            }
        }
        Ok((span, batches))
    }

    async fn push_counted(&self, (bucket, events): Batch) -> Result<Vec<Result<Receipt>>> {
        let many = events.len() as u64;
        let pushed = self.push_made(bucket, events, self.inner.durability);
        let pushed = pushed.await;
        match &pushed {
            Ok(pushed) => count(&self.pushes, pushed),
            Err(error) => self.pushes.rejected(error.kind(), many),
        }
        pushed
    }

    fn plain_event(
        &self,
        id: EventId,
        now: Timestamp,
        value: Vec<u8>,
        when: When,
        headers: &Headers,
    ) -> Result<NewEvent> {
        let mut envelope = Envelope {
            pushed: now,
            attempts: self.options.attempts,
            delayed: when != When::Now,
            version: self.options.version,
            late: self.options.late,
            keeps_payload: self.options.keep_payload,
            headers: headers.clone(),
            ..Envelope::new(id, self.name.clone(), self.stored(id, value)?)
        };
        let when = spread_out(&mut envelope, self.options.spread, when, now)?;
        Ok(NewEvent {
            envelope: Arc::new(envelope),
            when: when.checked(now)?,
            on_taken: Unique::Keep,
        })
    }
}
