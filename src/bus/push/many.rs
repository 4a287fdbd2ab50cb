//! Pushing many events: each for itself, or all or none.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::bus::push::batch::Batch;
use crate::bus::push::each::EncodedItems;
use crate::bus::push::event::EventBuilder;
use crate::bus::push::prepare::EventPlace;
use crate::bus::push::receipt::Receipt;
use crate::bus::queue::Queue;
use crate::bus::queue_handle::QueueHandle;
use crate::core::op::{BATCH_BYTES, BATCH_MAX, NewEvent};
use crate::error::{Error, Result};
use crate::event::{BucketId, EventId};
use crate::store::Durability;
use crate::time::{Timestamp, When};

/// The most items of one [`push_many`](Queue::push_many).
pub const PUSH_MANY_MAX: usize = 100_000;
/// The most items of one [`all_or_none`](PushMany::all_or_none).
pub const ALL_OR_NONE_MAX: usize = BATCH_MAX;
/// An item of [`push_many`](Queue::push_many): a payload, or an event with options of its own.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // an item is taken apart as soon as it is made
pub enum PushItem<T> {
    /// A payload, with the options of its queue.
    Payload(T),
    /// An event with its own options.
    Builder(EventBuilder<T>),
}

impl<T> From<T> for PushItem<T> {
    fn from(payload: T) -> Self {
        Self::Payload(payload)
    }
}

impl<T> From<EventBuilder<T>> for PushItem<T> {
    fn from(event: EventBuilder<T>) -> Self {
        Self::Builder(event)
    }
}

/// A push of many items, made by [`Queue::push_many`]; nothing is pushed before it is awaited.
#[must_use = "nothing is pushed before it is awaited"]
pub struct PushMany<'q, T, I> {
    pub(super) queue: &'q Queue<T>,
    items: I,
    when: When,
}

impl<T, I> fmt::Debug for PushMany<'_, T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushMany")
            .field("queue", self.queue)
            .field("when", &self.when)
            .finish_non_exhaustive()
    }
}

impl<'q, T, I> PushMany<'q, T, I>
where
    T: Serialize + Send + Sync + 'static,
    I: IntoIterator,
    I::Item: Into<PushItem<T>>,
{
    pub(super) fn new(queue: &'q Queue<T>, items: I, when: When) -> Self {
        Self { queue, items, when }
    }

    /// Pushes each item for itself, and returns a result for each, in the order of the items: one
    /// that is refused, as its id belongs to another payload, says nothing of the others.
    ///
    /// When a call of the store fails, the events of that call and those that were not sent yet have
    /// its error; those before it keep their receipts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for more than [`PUSH_MANY_MAX`] items and
    /// for one that is invalid by itself, such as an event of another queue: nothing was pushed then.
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
    /// queue.event(7).id(id).push().await?;
    ///
    /// let events = [queue.event(70).id(id), queue.event(8)];
    /// let sent = queue.push_many(events, When::Now).each().await?;
    /// assert!(sent[0].is_err(), "the id has another payload");
    /// assert!(sent[1].as_ref().is_ok_and(Receipt::is_accepted));
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn each(self) -> Result<Vec<Result<Receipt>>> {
        let handle = &self.queue.handle;
        let encoded = self.encoded();
        handle.push_each(encoded).await
    }

    /// Pushes all items or none: into one bucket, in one atomic step.
    ///
    /// The receipts are in the order of the items, and all of them are accepted. They are pushed
    /// under ids of this call, so an event here has no [id](EventBuilder::id) of its own, no
    /// [key](EventBuilder::key) and no [unique key](EventBuilder::unique), each of which names a
    /// bucket.
    ///
    /// # Errors
    ///
    /// As [`EventBuilder::push`], and none of the events was pushed; only after
    /// [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) all of them may have been.
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) also for more than [`ALL_OR_NONE_MAX`]
    /// items, for more than 4 MiB of payloads, for different [durabilities](EventBuilder::durable),
    /// and for an event of another queue.
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
    /// let sent = queue.push_many([7, 8, 9], Duration::from_secs(60)).all_or_none().await?;
    /// assert_eq!(sent.len(), 3);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn all_or_none(self) -> Result<Vec<Receipt>> {
        let handle = &self.queue.handle;
        let encoded = self.encoded_for_one_bucket();
        handle.push_all(encoded).await
    }

    /// Encodes the payloads, and builds the events that have options of their own.
    pub(super) fn encoded(self) -> Result<EncodedItems> {
        let Self { queue, items, when } = self;
        let when = when.checked(queue.handle.inner.now())?;
        let mut encoded = EncodedItems {
            when,
            count: 0,
            plain: Vec::new(),
            events: Vec::new(),
        };
        for item in items {
            if encoded.count == PUSH_MANY_MAX {
                return Err(Error::invalid(format!(
                    "more than {PUSH_MANY_MAX} events in one push; push them in parts"
                )));
            }
            let place = encoded.count;
            match item.into() {
                PushItem::Payload(payload) => {
                    let value = queue.encode(queue.handle.options.codec, &payload)?;
                    encoded.plain.push((place, value));
                }
                PushItem::Builder(mut event) => {
                    check_is_of(&queue.handle, &event.queue.handle)?;
                    event.options.when.get_or_insert(when);
                    encoded.events.push((place, event.prepare()?));
                }
            }
            encoded.count += 1;
        }
        Ok(encoded)
    }

    /// Builds the events, with ids of one bucket and one time.
    fn encoded_for_one_bucket(self) -> Result<Option<Batch>> {
        let Self { queue, items, when } = self;
        let handle = &queue.handle;
        let now = handle.inner.now();
        let bucket = handle.inner.ids.bucket(handle.buckets());
        let (mut events, mut durabilities, mut bytes) = (Vec::new(), Vec::new(), 0);
        for item in items {
            let event = match item.into() {
                PushItem::Payload(payload) => queue.event(payload),
                PushItem::Builder(event) => event,
            };
            check_is_of(&queue.handle, &event.queue.handle)?;
            let options = &event.options;
            if options.id.is_some() || options.key.is_some() || options.unique.is_some() {
                return Err(Error::invalid(
                    "an event with an id, a key or a unique key was passed to `all_or_none`; each \
                     names a bucket, and all of its events lie in one: push `each`",
                ));
            }
            if events.len() == ALL_OR_NONE_MAX {
                return Err(Error::invalid(format!(
                    "more than {ALL_OR_NONE_MAX} events in one `all_or_none`; push `each`"
                )));
            }
            let event = event.build_in(bucket, when, now)?;
            bytes += event.0.envelope.payload.len();
            events.push(event.0);
            durabilities.push(event.1);
        }
        let durability = durabilities.first().copied().flatten();
        if durabilities.iter().any(|it| *it != durability) {
            return Err(Error::invalid(
                "the events of one `all_or_none` have different durabilities; give them the same",
            ));
        }
        if events.len() > 1 && bytes > BATCH_BYTES {
            return Err(Error::invalid(format!(
                "the payloads of one `all_or_none` have {bytes} bytes, at most {BATCH_BYTES} are \
                 allowed; push `each`"
            )));
        }
        let batch = Batch {
            bucket,
            durability,
            events,
            given: Vec::new(),
        };
        Ok(Some(batch).filter(|batch| !batch.events.is_empty()))
    }
}

impl<'q, T, I> IntoFuture for PushMany<'q, T, I>
where
    T: Serialize + Send + Sync + 'static,
    I: IntoIterator,
    I::Item: Into<PushItem<T>>,
{
    type Output = Result<Vec<Receipt>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'q>>;

    fn into_future(self) -> Self::IntoFuture {
        let handle = &self.queue.handle;
        let encoded = self.encoded();
        Box::pin(async move { handle.push_each(encoded).await?.into_iter().collect() })
    }
}

impl<T: Serialize + Send + Sync + 'static> EventBuilder<T> {
    /// Builds the event under a new id in this bucket.
    fn build_in(
        self,
        bucket: BucketId,
        when: When,
        now: Timestamp,
    ) -> Result<(NewEvent, Option<Durability>)> {
        let Self {
            queue,
            payload,
            mut options,
        } = self;
        let handle = &queue.handle;
        options.when.get_or_insert(when);
        let durability = options.durability.or(handle.inner.durability);
        let value = queue.encode_for(&options, &payload)?;
        let place = EventPlace {
            id: EventId::random(now, bucket),
            bucket,
            pushed: now,
        };
        let event = handle.build(place, now, value, options)?;
        event.envelope.check(handle.inner.payload_bytes_max)?;
        Ok((event, durability))
    }
}

/// Rejects an event of another queue.
fn check_is_of(own: &QueueHandle, other: &QueueHandle) -> Result<()> {
    if other.name != own.name || !Arc::ptr_eq(&other.inner, &own.inner) {
        return Err(Error::invalid(format!(
            "an event of queue {} was passed to queue {} of this bus; build it with `event` of the \
             same queue",
            other.name, own.name
        )));
    }
    Ok(())
}
