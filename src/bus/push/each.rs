//! Encoded items, distributed over batches and pushed: each for itself, or as one batch.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use futures_util::{StreamExt, TryStreamExt, stream};
use tracing::{Instrument, Span};

use crate::bus::fan_out;
use crate::bus::payloads::EncodedValue;
use crate::bus::push::batch::Batch;
use crate::bus::push::options::EventOptions;
use crate::bus::push::prepare::{EventPlace, PreparedEvent};
use crate::bus::push::receipt::{Receipt, count, lost};
use crate::bus::queue_handle::QueueHandle;
use crate::bus::state::ids::ids_in;
use crate::core::op::{BATCH_MAX, NewEvent, fitting};
use crate::error::{Error, Result};
use crate::event::{BucketId, EventId, Headers};
use crate::time::When;
use crate::trace;

/// The concurrent batches of a push: enough to use the store well, few enough to leave room for
/// others.
const BATCHES_AT_ONCE: usize = 8;
/// The smallest batch of a large push.
const CHUNK_MIN: usize = 64;

/// The items of a push, encoded; each with its place among them.
pub(super) struct EncodedItems {
    /// The due time of payloads without options.
    pub(super) when: When,
    pub(super) count: usize,
    /// Values that have no options of their own.
    pub(super) plain: Vec<(usize, EncodedValue)>,
    pub(super) events: Vec<(usize, PreparedEvent)>,
}

/// A batch, and the place of each of its events in the push.
pub(super) type PlacedBatch = (Vec<usize>, Batch);

impl QueueHandle {
    /// Pushes each item for itself.
    pub(super) async fn push_each(
        &self,
        encoded: Result<EncodedItems>,
    ) -> Result<Vec<Result<Receipt>>> {
        let refused = |error: &Error| self.pushes.rejected(error.kind(), 1);
        self.inner.open().inspect_err(|error| refused(error))?;
        let mut encoded = encoded.inspect_err(refused)?;
        let given = encoded.events.iter_mut().map(|(_, event)| event);
        let given = given.filter(|event| event.given.is_some());
        let follow = given.map(|event| self.follow_earlier_push(event));
        let followed: Result<()> = fan_out::in_order(follow).try_collect().await;
        followed.inspect_err(refused)?;
        let (count, span) = (encoded.count, trace::push_many(&self.name, encoded.count));
        let batches = self.batches(encoded, &span).inspect_err(refused)?;
        let failed = OnceLock::new();
        let pushed = batches
            .into_iter()
            .map(|batch| self.push_unless(&failed, batch));
        let pushed = stream::iter(pushed).buffered(BATCHES_AT_ONCE);
        let pushed = pushed.concat().instrument(span.clone()).await;
        let pushed = in_order(count, pushed);
        let first = pushed
            .as_ref()
            .map(|pushed| pushed.iter().find_map(|it| it.as_ref().err()));
        trace::pushed_many(&span, first.unwrap_or_else(Some));
        pushed
    }

    /// Pushes a batch whole or not at all.
    pub(super) async fn push_all(&self, batch: Result<Option<Batch>>) -> Result<Vec<Receipt>> {
        let refused = |error: &Error| self.pushes.rejected(error.kind(), 1);
        let Some(mut batch) = batch.inspect_err(refused)? else {
            return Ok(Vec::new());
        };
        let span = trace::push_many(&self.name, batch.events.len());
        let stamp = |event: &mut NewEvent| {
            trace::stamp(&mut Arc::make_mut(&mut event.envelope).headers);
        };
        span.in_scope(|| batch.events.iter_mut().for_each(stamp));
        let pushed = self.push_counted(batch).instrument(span.clone()).await;
        let pushed = pushed.and_then(|receipts| receipts.into_iter().collect());
        trace::pushed_many(&span, pushed.as_ref().err());
        pushed
    }

    async fn push_counted(&self, batch: Batch) -> Result<Vec<Result<Receipt>>> {
        let many = batch.events.len() as u64;
        let pushed = self.push_batch(batch).await;
        match &pushed {
            Ok(pushed) => count(&self.pushes, pushed),
            Err(error) => self.pushes.rejected(error.kind(), many),
        }
        pushed
    }

    /// Pushes a batch unless one before it has failed; an error concerns each event of it.
    async fn push_unless(
        &self,
        failed: &OnceLock<Arc<Error>>,
        (places, batch): PlacedBatch,
    ) -> Vec<(usize, Result<Receipt>)> {
        let error = match failed.get() {
            Some(error) => Arc::clone(error),
            None => match self.push_counted(batch).await {
                Ok(receipts) => return places.into_iter().zip(receipts).collect(),
                Err(error) => Arc::clone(failed.get_or_init(|| Arc::new(error))),
            },
        };
        let each = |place| {
            let own = Error::new(error.kind(), error.to_string());
            (place, Err(own.because(Arc::clone(&error))))
        };
        places.into_iter().map(each).collect()
    }

    /// Distributes items over batches, with the trace context of their push.
    pub(super) fn batches(&self, encoded: EncodedItems, span: &Span) -> Result<Vec<PlacedBatch>> {
        let mut headers = Headers::new();
        span.in_scope(|| trace::stamp(&mut headers));
        let mut batches = self.plain_batches(encoded.plain, encoded.when, &headers)?;
        let mut groups = BTreeMap::<_, Vec<(usize, PreparedEvent)>>::new();
        for (place, mut event) in encoded.events {
            span.in_scope(|| event.stamp());
            let bucket = event.event.envelope.bucket();
            let group = (bucket, event.given.is_some(), event.durability);
            groups.entry(group).or_default().push((place, event));
        }
        for ((bucket, _, durability), mut group) in groups {
            let bytes = |(_, it): &(usize, PreparedEvent)| it.event.envelope.payload.len();
            while !group.is_empty() {
                let rest = group.split_off(fitting(&group, bytes).min(group.len()));
                let (mut places, mut events, mut given) = (Vec::new(), Vec::new(), Vec::new());
                for (place, it) in std::mem::replace(&mut group, rest) {
                    places.push(place);
                    events.push(it.event);
                    given.extend(it.given);
                }
                let batch = Batch {
                    bucket,
                    durability,
                    events,
                    given,
                };
                batches.push((places, batch));
            }
        }
        Ok(batches)
    }

    /// Distributes values without options over buckets.
    fn plain_batches(
        &self,
        mut values: Vec<(usize, EncodedValue)>,
        when: When,
        headers: &Headers,
    ) -> Result<Vec<PlacedBatch>> {
        let (now, buckets) = (self.inner.now(), self.buckets());
        let share = values.len().div_ceil(usize::from(buckets));
        let chunk = share.clamp(CHUNK_MIN, BATCH_MAX);
        let first = fastrand::u16(..buckets);
        let mut batches = Vec::new();
        for (values, turn) in values.chunks_mut(chunk).zip(0_u16..) {
            // No overflow: a push has at most PUSH_MANY_MAX / CHUNK_MIN batches, a queue 1,024
            // buckets.
            let bucket = BucketId((first + turn) % buckets);
            let mut places: Vec<usize> = values.iter().map(|(place, _)| *place).collect();
            let ids = ids_in(bucket, now, values.len());
            let event = |((_, value), id): (&mut (usize, EncodedValue), EventId)| {
                let place = EventPlace {
                    id,
                    bucket,
                    pushed: now,
                };
                let options = EventOptions {
                    when: Some(when),
                    headers: headers.clone(),
                    ..EventOptions::default()
                };
                self.build(place, now, value.take(), options)
            };
            let events = values.iter_mut().zip(ids).map(event);
            let mut events = events.collect::<Result<Vec<_>>>()?;
            while !events.is_empty() {
                let fits = fitting(&events, |event| event.envelope.payload.len());
                let fits = fits.min(events.len());
                let (later, rest) = (places.split_off(fits), events.split_off(fits));
                let batch = Batch {
                    bucket,
                    durability: self.inner.durability,
                    events: std::mem::replace(&mut events, rest),
                    given: Vec::new(),
                };
                batches.push((std::mem::replace(&mut places, later), batch));
            }
        }
        Ok(batches)
    }
}

/// Returns the results in the order of the push.
fn in_order(
    count: usize,
    mut pushed: Vec<(usize, Result<Receipt>)>,
) -> Result<Vec<Result<Receipt>>> {
    pushed.sort_unstable_by_key(|(place, _)| *place);
    if pushed.len() == count {
        Ok(pushed.into_iter().map(|(_, receipt)| receipt).collect())
    } else {
        Err(lost())
    }
}
