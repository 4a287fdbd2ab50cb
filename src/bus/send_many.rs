//! Pushing many events at once, each with all its options.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tracing::Instrument;

use crate::bus::prepared::PreparedEvent;
use crate::bus::push::{count, lost};
use crate::bus::push_many::BATCHES_AT_ONCE;
use crate::bus::{EventBuilder, PUSH_MANY_MAX, Queue, Receipt, fan_out};
use crate::core::op::{BATCH_BYTES, BATCH_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketId;
use crate::store::Durability;
use crate::trace;

/// Events of one bucket that go to the store together, and the index of each in the push.
type Batch = Vec<(usize, PreparedEvent)>;

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Pushes many events in batches, each with its own key, unique key, id, due time and other
    /// options of [`event`](Self::event). For many payloads with one due time and nothing else
    /// there is [`push_many`](Self::push_many).
    ///
    /// The receipts are in the order of the events.
    ///
    /// # Errors
    ///
    /// As [`EventBuilder::send`]; [`ErrorKind::Invalid`] for more than [`PUSH_MANY_MAX`] and for an
    /// event of another queue: nothing was pushed then. An error of the store may come after some
    /// were accepted; with preset [ids](EventBuilder::id), repeating the push is safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let close = |order: u64| {
    ///     let event = queue.event(order).after(Duration::from_secs(1800));
    ///     event.key(format!("order:{order}")).id(queue.id_for_name(&format!("close:{order}")))
    /// };
    ///
    /// let sent = queue.send_many([7, 8, 9].map(close)).await?;
    /// assert!(sent.iter().all(Receipt::is_accepted));
    /// let again = queue.send_many([7, 8, 9].map(close)).await?;
    /// assert!(again.iter().all(Receipt::is_duplicate));
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn send_many(
        &self,
        events: impl IntoIterator<Item = EventBuilder<T>>,
    ) -> Result<Vec<Receipt>> {
        self.send_each(events).await?.into_iter().collect()
    }

    /// Pushes many events as [`send_many`](Self::send_many) does, and returns a result for each, in
    /// the order of the events: one that is refused, as its id belongs to another payload, says
    /// nothing of the others.
    ///
    /// When a call of the store fails, the events of that call and those that were not sent yet have
    /// its error; those before it keep their receipts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for more than [`PUSH_MANY_MAX`] events and for one that is invalid by
    /// itself, such as an event of another queue: nothing was pushed then.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let id = queue.id_for_name("close:7");
    /// queue.event(7).id(id).send().await?;
    ///
    /// let sent = queue.send_each([queue.event(70).id(id), queue.event(8)]).await?;
    /// assert!(sent[0].is_err(), "the id has another payload");
    /// assert!(sent[1].as_ref().is_ok_and(Receipt::is_accepted));
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn send_each(
        &self,
        events: impl IntoIterator<Item = EventBuilder<T>>,
    ) -> Result<Vec<Result<Receipt>>> {
        let refused = |error: &Error| self.pushes.rejected(error.kind(), 1);
        self.inner.open().inspect_err(|error| refused(error))?;
        let mut prepared = self.prepared(events).inspect_err(refused)?;
        self.follow_earlier_pushes(&mut prepared)
            .await
            .inspect_err(refused)?;
        let (many, span) = (prepared.len(), trace::push_many(&self.name, prepared.len()));
        span.in_scope(|| prepared.iter_mut().for_each(PreparedEvent::stamp));
        let (batches, failed) = (batches(prepared).into_iter(), OnceLock::new());
        let pushed = stream::iter(batches.map(|batch| self.send_unless(&failed, batch)));
        let pushed = pushed.buffered(BATCHES_AT_ONCE).collect::<Vec<_>>();
        let pushed = in_order(many, pushed.instrument(span.clone()).await);
        let first = pushed
            .as_ref()
            .map(|pushed| pushed.iter().find_map(|it| it.as_ref().err()));
        trace::pushed_many(&span, first.unwrap_or_else(Some));
        pushed
    }

    /// As [`follow_earlier_push`](Self::follow_earlier_push) of each.
    async fn follow_earlier_pushes(&self, prepared: &mut [PreparedEvent]) -> Result<()> {
        let follow = prepared.iter_mut().map(|it| self.follow_earlier_push(it));
        fan_out::in_order(follow).try_collect().await
    }

    /// Sends a batch unless one before it has failed; an error concerns each event of it.
    async fn send_unless(
        &self,
        failed: &OnceLock<Arc<Error>>,
        batch: Batch,
    ) -> Vec<(usize, Result<Receipt>)> {
        let places: Vec<usize> = batch.iter().map(|(place, _)| *place).collect();
        let error = match failed.get() {
            Some(error) => Arc::clone(error),
            None => match self.send_batch(batch).await {
                Ok(receipts) => return receipts,
                Err(error) => Arc::clone(failed.get_or_init(|| Arc::new(error))),
            },
        };
        let each = |place| {
            let own = Error::new(error.kind(), error.to_string());
            (place, Err(own.because(Arc::clone(&error))))
        };
        places.into_iter().map(each).collect()
    }

    fn prepared(
        &self,
        events: impl IntoIterator<Item = EventBuilder<T>>,
    ) -> Result<Vec<PreparedEvent>> {
        let mut prepared = Vec::new();
        for event in events {
            if prepared.len() == PUSH_MANY_MAX {
                return Err(Error::invalid(format!(
                    "more than {PUSH_MANY_MAX} events in one push; push them in parts"
                )));
            }
            self.check_is_ours(&event)?;
            prepared.push(event.prepare()?);
        }
        Ok(prepared)
    }

    /// Rejects an event of another queue.
    pub(super) fn check_is_ours(&self, event: &EventBuilder<T>) -> Result<()> {
        let other = event.queue();
        if other.name != self.name || !Arc::ptr_eq(&other.inner, &self.inner) {
            return Err(Error::invalid(format!(
                "an event of queue {} was passed to queue {} of this bus; build it with `event` of \
                 the same queue",
                other.name, self.name
            )));
        }
        Ok(())
    }

    async fn send_batch(&self, batch: Batch) -> Result<Vec<(usize, Result<Receipt>)>> {
        let Some((_, first)) = batch.first() else {
            return Ok(Vec::new());
        };
        let (bucket, durability) = (first.event.envelope.bucket(), first.durability);
        let events = batch.iter().map(|(_, it)| it.event.clone()).collect();
        let pushed = match first.given {
            Some(_) => self.push_given(bucket, events, durability).await,
            None => self.push_made(bucket, events, durability).await,
        };
        let many = batch.len() as u64;
        let pushed = pushed.inspect_err(|error| self.pushes.rejected(error.kind(), many))?;
        let (mut places, mut receipts) = (Vec::new(), Vec::new());
        for ((place, it), receipt) in batch.into_iter().zip(pushed) {
            let receipt = match (receipt, it.given) {
                (Err(error), Some(value)) if error.kind() == ErrorKind::Conflict => {
                    let same = self.same_in_another_form(&it.event, &value, durability);
                    same.await?.ok_or(error)
                }
                (receipt, _) => receipt,
            };
            places.push(place);
            receipts.push(receipt);
        }
        count(&self.pushes, &receipts);
        Ok(places.into_iter().zip(receipts).collect())
    }
}

/// Returns events that can go to the store together, in their order.
fn batches(prepared: Vec<PreparedEvent>) -> Vec<Batch> {
    let mut groups = BTreeMap::<(BucketId, bool, Option<Durability>), (Vec<Batch>, usize)>::new();
    for (place, it) in prepared.into_iter().enumerate() {
        let bucket = it.event.envelope.bucket();
        let group = (bucket, it.given.is_some(), it.durability);
        let (batches, bytes) = groups.entry(group).or_default();
        *bytes += it.event.envelope.payload.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH_MAX && *bytes <= BATCH_BYTES => {
                batch.push((place, it));
            }
            _ => {
                *bytes = it.event.envelope.payload.len();
                batches.push(vec![(place, it)]);
            }
        }
    }
    let groups = groups.into_values();
    groups.flat_map(|(batches, _)| batches).collect()
}

/// Returns the results in the order of the push.
fn in_order(
    many: usize,
    pushed: Vec<Vec<(usize, Result<Receipt>)>>,
) -> Result<Vec<Result<Receipt>>> {
    let mut pushed: Vec<_> = pushed.into_iter().flatten().collect();
    pushed.sort_unstable_by_key(|(place, _)| *place);
    if pushed.len() == many {
        Ok(pushed.into_iter().map(|(_, receipt)| receipt).collect())
    } else {
        Err(lost())
    }
}
