//! A typed handle of a queue, to push to.

use std::any::type_name;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::handle::Bus;
use crate::bus::locate::EventReply;
use crate::bus::payloads::EncodedValue;
use crate::bus::queue_handle::QueueHandle;
use crate::bus::state::program_actions::AuditedBy;
use crate::bus::state::round_trips::{Passed, RoundTrip};
use crate::codec::{Codec, Encoded, encode, round_trip};
use crate::core::op::{CancelOutcome, ChangeOutcome, Snapshot, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketId, BucketKey, EventId, Payload, QueueName};
use crate::flow::{Check, ValuePublisher};
use crate::handler::{Annotated, Upgrade};
use crate::store::Operation;
use crate::time::When;

/// A typed handle of a queue, to push to. Cloning is cheap.
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
/// let receipt = queue.push(7, Duration::from_secs(1800)).await?;
///
/// assert_eq!(queue.cancel(receipt.id()).await?, CancelOutcome::Cancelled);
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
pub struct Queue<T> {
    pub(super) handle: QueueHandle,
    /// Who adds the lines of what is done by it to the audit.
    pub(super) audited_by: AuditedBy,
    /// The publisher into the ring; looked up once.
    pub(super) port: OnceLock<Arc<dyn ValuePublisher<T>>>,
    /// The upgrade function of its handler, if that is known here.
    pub(super) upgrade: Option<Upgrade<T>>,
    pub(super) round_trip: RoundTrip<T>,
    pub(super) passed: Passed,
}

impl Bus {
    /// Returns the queue of an annotated handler, to push to.
    ///
    /// The handler need not run in this process.
    ///
    /// # Panics
    ///
    /// When an annotation that was written by hand has an invalid queue name; `#[delay_event]`
    /// rejects one at compile time.
    #[must_use]
    pub fn queue<H>(&self) -> Queue<H::Value>
    where
        H: Annotated,
        H::Value: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        match QueueName::new(H::ANNOTATION.queue) {
            Ok(name) => Queue::of::<H>(self, name),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns a queue by its name and payload type, to push to.
    ///
    /// A push checks that its value comes back from what was encoded; a type that does not decode is
    /// pushed by [`queue_to_push`](Self::queue_to_push).
    ///
    /// It may be a queue of another program. If this program has neither a handler nor settings for
    /// it, but for a queue of nearly the same name (`order_close` for `order-close`), a warning is
    /// logged once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid name.
    pub fn queue_named<T>(&self, name: &str) -> Result<Queue<T>>
    where
        T: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let name = QueueName::new(name)?;
        self.inner.warn_of_slip(&name);
        Ok(Queue::new(self, name))
    }

    /// As [`queue_named`](Self::queue_named), for a type that only serializes. Whether what is pushed
    /// decodes is not checked here.
    ///
    /// # Errors
    ///
    /// As [`queue_named`](Self::queue_named).
    pub fn queue_to_push<T>(&self, name: &str) -> Result<Queue<T>>
    where
        T: Serialize + Send + Sync + 'static,
    {
        let name = QueueName::new(name)?;
        self.inner.warn_of_slip(&name);
        Ok(Queue::to_push(self, name))
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
            audited_by: self.audited_by,
            port: self.port.clone(),
            upgrade: self.upgrade,
            round_trip: self.round_trip,
            passed: Arc::clone(&self.passed),
        }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.handle.name).finish()
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Returns a queue of values that are pushed and need not decode.
    pub(super) fn to_push(bus: &Bus, name: QueueName) -> Self {
        let inner = Arc::clone(&bus.inner);
        let upgrade = inner.checks.get(&name).and_then(Check::upgrade);
        let passed = inner.round_trips.of::<T>();
        Self {
            handle: QueueHandle::new(inner, name),
            audited_by: bus.audited_by,
            port: OnceLock::new(),
            upgrade,
            round_trip: None,
            passed,
        }
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Queue<T> {
    pub(super) fn new(bus: &Bus, name: QueueName) -> Self {
        Self {
            round_trip: Some(round_trip::<T>),
            ..Self::to_push(bus, name)
        }
    }

    /// Returns the queue of an annotated handler, also of one that is not registered here: what is
    /// pushed is as the annotation says.
    pub(super) fn of<H: Annotated<Value = T>>(bus: &Bus, name: QueueName) -> Self {
        let options = bus.inner.annotated_options(&name, &H::ANNOTATION);
        let mut queue = Self::new(bus, name);
        queue.upgrade = H::UPGRADE;
        queue.handle.options = options;
        queue.handle.knows_version = true;
        queue
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Returns the same queue, which encodes payloads with this codec, also in
    /// [`update`](Self::update); [`EventBuilder::codec`](crate::EventBuilder::codec) sets that of one event.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// use duly::codec::Codec;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?.with_codec(Codec::Json);
    /// let id = queue.push(7, Duration::from_secs(60)).await?.id();
    /// assert!(matches!(queue.update(id, &8).await?, ChangeOutcome::Changed(_)));
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    #[must_use]
    pub fn with_codec(mut self, codec: Codec) -> Self {
        if self.handle.options.codec != codec {
            Arc::make_mut(&mut self.handle.options).codec = codec;
        }
        self
    }

    /// Returns the same queue, whose payloads are encrypted if those of `queue` are, for what
    /// belongs to its events, such as replies to them.
    pub(in crate::bus) fn encrypted_as(self, queue: &QueueName) -> Self {
        if self.handle.inner.options(queue).encrypt {
            self.encrypted()
        } else {
            self
        }
    }

    /// Returns the same queue, whose payloads are encrypted whatever its options say.
    pub(crate) fn encrypted(mut self) -> Self {
        Arc::make_mut(&mut self.handle.options).encrypt = true;
        self
    }

    /// Returns the queue's name.
    #[must_use]
    pub fn name(&self) -> &QueueName {
        &self.handle.name
    }

    /// Returns a new id, for a push that can be repeated safely.
    #[must_use]
    pub fn new_id(&self) -> EventId {
        let inner = &self.handle.inner;
        EventId::random(inner.now(), inner.ids.bucket(self.handle.buckets()))
    }

    /// Returns a new id in the bucket of a [key](crate::EventBuilder::key) or a [unique
    /// key](crate::EventBuilder::unique), for a push that can be repeated safely and is deduplicated by
    /// its unique key: an id of [`new_id`](Self::new_id) lies in any bucket, and a unique key is
    /// checked only in that of its event.
    #[must_use]
    pub fn new_id_for(&self, key: &str) -> EventId {
        let bucket = BucketId::of_text(key, self.handle.buckets());
        EventId::random(self.handle.inner.now(), bucket)
    }

    /// Returns the id of a name in this queue, the same in every process and for ever:
    /// [`EventId::for_name`]. Pushing it again does nothing while its event waits or runs, and then
    /// for as long as the dedup window has it, a day at most.
    #[must_use]
    pub fn id_for_name(&self, name: &str) -> EventId {
        EventId::for_name(&self.handle.name, name)
    }

    /// Cancels an event, and returns the result.
    ///
    /// # Errors
    ///
    /// The store's error; on [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) calling again is
    /// safe.
    pub async fn cancel(&self, id: EventId) -> Result<CancelOutcome> {
        self.apply(id, || StoreOp::cancel(id)).await
    }

    /// Reschedules an event that waits, and returns the result.
    ///
    /// # Errors
    ///
    /// As [`cancel`](Self::cancel); [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a delay
    /// that is too long; [`ErrorKind::Full`](crate::ErrorKind::Full) when the memory of the servers
    /// is.
    pub async fn reschedule(&self, id: EventId, when: impl Into<When>) -> Result<ChangeOutcome> {
        let when = when.into().checked(self.handle.inner.now())?;
        self.apply(id, || StoreOp::reschedule(id, when)).await
    }

    /// Replaces the payload of an event that waits, and returns the result. One that is encrypted
    /// stays so. It has the version of this queue's annotation; where that is not known here, the
    /// version of the payload that it replaces.
    ///
    /// # Errors
    ///
    /// As [`cancel`](Self::cancel); [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the
    /// payload cannot be encoded or is too large, or the event is encrypted and this process has no
    /// key.
    pub async fn update(&self, id: EventId, payload: &T) -> Result<ChangeOutcome> {
        let value = self.encode(self.handle.options.codec, payload)?;
        let replaced = self.get(id).await?.and_then(|found| found.body);
        let payload = self.handle.stored_over(id, value, replaced.as_deref())?;
        self.apply(id, || StoreOp::update(id, payload.clone()))
            .await
    }

    /// Looks an event up; `None` when the store does not know it, or not any more.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn get(&self, id: EventId) -> Result<Option<Snapshot>> {
        Ok(self.find(id).await?.1)
    }

    /// Looks an event up; returns also in which bucket it is.
    pub(super) async fn find(&self, id: EventId) -> Result<(BucketKey, Option<Snapshot>)> {
        let get = || StoreOp::get(id);
        self.handle.inner.on_event(&self.handle.name, id, get).await
    }

    /// Encodes a value by a codec, and checks that it comes back where that is in doubt.
    pub(super) fn encode(&self, codec: Codec, payload: &T) -> Result<EncodedValue> {
        let Encoded { bytes, is_doubtful } = encode(codec, payload).map_err(|error| {
            let name = &self.handle.name;
            Error::invalid(format!("queue {name}: the payload cannot be encoded")).because(error)
        })?;
        let bit = 1 << codec as u8;
        let is_checked = self.handle.inner.round_trips.all;
        let is_known = !is_checked && self.passed.load(Ordering::Relaxed) & bit > 0;
        if let Some(round_trip) = self.round_trip
            && (!is_known || is_doubtful)
        {
            round_trip(codec, payload, &bytes)
                .map_err(|why| self.does_not_come_back(codec, &why))?;
            self.passed.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(EncodedValue { codec, bytes })
    }

    fn does_not_come_back(&self, codec: Codec, why: &str) -> Error {
        let why = if self.handle.options.encrypt {
            "it would not come back; the reason may quote it, and is withheld"
        } else {
            why
        };
        Error::invalid(format!(
            "queue {}: the codec `{}` cannot carry this {}: {why}; see *What serde cannot carry* \
             in duly's documentation of payloads",
            self.handle.name,
            codec,
            type_name::<T>(),
        ))
    }

    /// Decodes a stored payload of a [record](crate::records::Record) or a
    /// [snapshot](crate::store::operation::Snapshot), by its own codec and with the keys of this bus. It is
    /// not upgraded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it is no `T`, or cannot be decrypted.
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
    /// let id = queue.push(7, Duration::from_secs(60)).await?.id();
    /// let body = queue.get(id).await?.and_then(|found| found.body).expect("it waits");
    ///
    /// assert_eq!(queue.read_payload(id, &body.payload)?, 7);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn read_payload(&self, id: EventId, payload: &Payload) -> Result<T>
    where
        T: DeserializeOwned,
    {
        self.handle.inner.value(id, &self.handle.name, payload)
    }

    async fn apply<R: EventReply>(
        &self,
        id: EventId,
        operation: impl Fn() -> Operation<R>,
    ) -> Result<R> {
        Ok(self
            .handle
            .inner
            .on_event(&self.handle.name, id, operation)
            .await?
            .1)
    }
}
