//! The options of one event to push.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tracing::Instrument;

use crate::bus::payloads::EncodedValue;
use crate::bus::push::options::EventOptions;
use crate::bus::push::prepare::PreparedEvent;
use crate::bus::push::receipt::{Receipt, count};
use crate::bus::queue::Queue;
use crate::codec::Codec;
use crate::core::op::Unique;
use crate::error::Result;
use crate::event::{EventId, LatePolicy};
use crate::store::Durability;
use crate::time::{Timestamp, When};
use crate::trace;

/// A builder of an event to push; nothing happens before [`push`](Self::push).
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use duly::prelude::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// let queue = bus.queue_named::<u64>("order-close")?;
/// let first = queue.event(8).after(Duration::from_secs(60)).unique("close:8", Unique::Keep).push().await?;
/// let again = queue.event(8).after(Duration::from_secs(60)).unique("close:8", Unique::Keep).push().await?;
///
/// assert!(again.is_duplicate());
/// assert_eq!(again.id(), first.id());
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is pushed before `push` is called"]
pub struct EventBuilder<T> {
    pub(super) queue: Queue<T>,
    pub(super) payload: T,
    pub(super) options: EventOptions,
}

impl<T: Serialize + Send + Sync + 'static> EventBuilder<T> {
    pub(super) fn new(queue: Queue<T>, payload: T) -> Self {
        Self {
            queue,
            payload,
            options: EventOptions::default(),
        }
    }

    /// Makes it due after `delay`. Default: at once.
    pub fn after(self, delay: Duration) -> Self {
        self.when(delay)
    }

    /// Makes it due at an instant; a past one means at once.
    pub fn at(self, due: impl Into<Timestamp>) -> Self {
        self.when(due.into())
    }

    /// Makes it due after a [`Duration`], or at a [`SystemTime`](std::time::SystemTime) or
    /// [`Timestamp`].
    pub fn when(mut self, when: impl Into<When>) -> Self {
        self.options.when = Some(when.into());
        self
    }

    /// Sets the key, for example an order: events of one key share a bucket, and records can be
    /// searched for it. At most 1,024 bytes.
    ///
    /// The bucket depends on the queue's current number of buckets
    /// ([`Bus::set_buckets`](crate::Bus::set_buckets)): after a change, older and newer events of
    /// one key lie in two of them.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.options.key = Some(key.into());
        self
    }

    /// Sets the unique key: while an event with it waits or runs, there is no second one. At most
    /// 1,024 bytes.
    ///
    /// Only the event's own bucket is checked: with a preset [id](Self::id) the one that it names
    /// ([`Queue::new_id_for`]), else that of the key. It depends on the queue's current number of
    /// buckets: after a change, an older event may not be seen, nor, until every node follows the
    /// change (a quarter of a second), an event of another node.
    pub fn unique(mut self, key: impl Into<String>, on_taken: Unique) -> Self {
        self.options.unique = Some((key.into(), on_taken));
        self
    }

    /// Sets the dedup window of its [unique key](Self::unique), counted from the event's end: until
    /// then a push with [`Unique::Keep`] returns *duplicate of* it, one with [`Unique::Replace`]
    /// takes the key over. At most 366 days. Default: the key is free at once.
    ///
    /// An event that is cancelled, expires or becomes a dead letter frees its key. A bucket keeps
    /// 100,000 such keys; beyond that the one that expires first is freed. It uses one of the
    /// headers, [`UNIQUE_HEADER`](crate::event::UNIQUE_HEADER).
    pub fn unique_for(mut self, period: Duration) -> Self {
        self.options.unique_for = Some(period);
        self
    }

    /// Sets the most attempts, 1 to 65,535. Default: the queue's.
    pub fn attempts(mut self, attempts: u16) -> Self {
        self.options.attempts = Some(attempts);
        self
    }

    /// Sets its expiry, counted from the push: it is not started afterwards, and ends as expired.
    pub fn expires_after(mut self, span: Duration) -> Self {
        self.options.expires_after = Some(span);
        self
    }

    /// Sets its lateness policy. Default: the queue's.
    pub fn late(mut self, late: LatePolicy) -> Self {
        self.options.late = Some(late);
        self
    }

    /// Sets the jitter window: makes it due later than requested by a part of `window` that its id
    /// determines, so that events of one instant do not start all at once. At most a day; zero
    /// disables it. Default: the queue's.
    ///
    /// It is never due earlier than requested, and a repeated push under the same id has the same
    /// due time. It uses one of the headers, [`SPREAD_HEADER`](crate::event::SPREAD_HEADER). A
    /// later due time, by [`Queue::reschedule`] or a retry, has no jitter.
    pub fn spread(mut self, window: Duration) -> Self {
        self.options.spread = Some(window);
        self
    }

    /// Adds a header; at most 32, of 1,024 bytes.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the durability that the push waits for: on Redis a second for replicas, four for the next
    /// sync of the server, and then the push fails as unknown. Default: the bus's
    /// ([`BusBuilder::durability`](crate::BusBuilder::durability)).
    pub fn durable(mut self, durability: Durability) -> Self {
        self.options.durability = Some(durability);
        self
    }

    /// Sets whether its records keep its payload as it is stored, up to 64 KiB. Default: the
    /// queue's.
    pub fn keep_payload(mut self, keep_payload: bool) -> Self {
        self.options.keep_payload = Some(keep_payload);
        self
    }

    /// Sets the codec of its payload, which is stored with it. Default: the queue's.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.options.codec = Some(codec);
        self
    }

    /// Sets an id from [`Queue::new_id`] or [`Queue::id_for_name`]: pushing again with the same id
    /// changes nothing, so a push whose result was lost can be repeated.
    ///
    /// The id determines the bucket, so `key` and `unique` do not: it is the one that the id names, if
    /// the queue has that bucket. An id of another library or of a name is hashed onto the buckets
    /// that the queue has now, unless an earlier push has put it elsewhere.
    pub fn id(mut self, id: EventId) -> Self {
        self.options.id = Some(id);
        self
    }

    /// Pushes the event.
    ///
    /// # Errors
    ///
    /// As [`Queue::push`]; [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) when its id belongs to
    /// another payload, or is older than the store's tombstones, so that it may have been handled
    /// already; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when its id was made more than a
    /// minute ahead of the store's time, or the store can never be as [durable](Self::durable) as
    /// requested; and [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) when that durability was not
    /// reached: the push may have happened.
    pub async fn push(self) -> Result<Receipt> {
        let pushes = Arc::clone(&self.queue.handle.pushes);
        let pushed = self.push_traced().await;
        count(&pushes, std::slice::from_ref(&pushed));
        pushed
    }

    async fn push_traced(self) -> Result<Receipt> {
        let handle = self.queue.handle.clone();
        let _under_way = handle.inner.ids.push_begins();
        let mut prepared = self.prepare()?;
        handle.follow_earlier_push(&mut prepared).await?;
        let envelope = &prepared.event.envelope;
        let span = trace::push(&handle.name, envelope.id, envelope.bucket());
        span.in_scope(|| prepared.stamp());
        let pushed = handle.push_prepared(prepared);
        let pushed = pushed.instrument(span.clone()).await;
        trace::pushed(&span, pushed.as_ref().map(Receipt::span_fields));
        pushed
    }

    /// Encodes the payload and builds what is sent to the store.
    pub(super) fn prepare(self) -> Result<PreparedEvent> {
        let Self {
            queue,
            payload,
            options,
        } = self;
        let value = queue.encode_for(&options, &payload)?;
        queue.handle.prepare(value, options)
    }

    /// Sets the version of its payload. Default: the queue's.
    pub(crate) fn version(mut self, version: u32) -> Self {
        self.options.version = Some(version);
        self
    }

    /// Takes its payload, which serializes as bytes, for what this codec has encoded.
    pub(crate) fn encoded_by(mut self, codec: Codec) -> Self {
        (self.options.codec, self.options.encoded_by) = (Some(Codec::Raw), Some(codec));
        self
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Encodes the payload of an event by its codec.
    pub(super) fn encode_for(&self, options: &EventOptions, payload: &T) -> Result<EncodedValue> {
        let codec = options.codec.unwrap_or(self.handle.options.codec);
        let value = self.encode(codec, payload)?;
        Ok(EncodedValue {
            codec: options.encoded_by.unwrap_or(value.codec),
            ..value
        })
    }
}
