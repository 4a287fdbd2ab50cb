//! The bus: the one thing a user holds.

mod admin;
mod builder;
mod call;
mod check;
mod control;
mod dead_letters;
mod events;
mod explain;
mod fan_out;
mod forecast;
mod journal;
mod locate;
mod names;
mod open;
mod owner;
mod pace;
mod payloads;
mod prepared;
mod publish;
mod push;
mod push_batch;
mod push_many;
mod queue;
mod queues;
mod reach;
mod receipt;
mod records;
mod reencrypt;
mod scan;
mod send_many;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

pub use admin::{QueueLoad, QueueStats};
pub use builder::BusBuilder;
pub use check::{PayloadCheck, PayloadReport, UnreadPayload};
pub use dead_letters::{DeadLetter, DeadLetters, Edited, Last, LetterCursor, Sweep};
pub use events::{EVENTS_MAX, Events, StoredEvent};
pub use explain::{Attempts, Explanation, Reason, Spread, Standing};
use forecast::Pace;
pub use forecast::{Coming, FORECAST_STEPS_MAX};
use journal::Recorded;
use names::Judged;
use owner::Owner;
pub use publish::Publisher;
pub use push::EventBuilder;
pub use push_many::PUSH_MANY_MAX;
pub use queue::Queue;
pub use receipt::Receipt;
pub use records::{Minutes, RecordStream, Records};
pub use reencrypt::{KeyCounts, Reencrypt, Reencrypted};
pub use scan::WaitingCursor;
use serde::Serialize;
use tokio::runtime::Handle;

use crate::codec::KeyRing;
use crate::core::op::{Answer, NewEvent, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, Payload, QueueName};
use crate::flow::{Check, Controls, Flow, QueueOptions, Replies};
use crate::handler::{Annotated, Context};
use crate::metrics::PushMeters;
use crate::record::NodeId;
use crate::store::{Durability, Operation, Store, StoreFuture};
use crate::time::Timestamp;

/// A running event bus.
///
/// Cloning is cheap, and every clone is the same bus. It runs until [`shutdown`](Self::shutdown),
/// or until the last clone outside of handlers is dropped; then it stops at once and waits for
/// nothing, says so in the log, and what it held is handed on when its leases run out, or at the
/// next start. Queues do not keep it running: their calls return
/// [`Closed`](ErrorKind::Closed) from then on.
///
/// # Examples
///
/// ```standalone_crate
/// use std::time::Duration;
/// use duly::prelude::*;
///
/// #[delay_event(queue = "greet", register = false)]
/// async fn greet(event: Event<String>) -> Result<(), Failure> {
///     assert_eq!(event.payload, "hello");
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// let bus = Bus::builder().store_url("memory:").register(greet {}).start().await?;
/// let queue = bus.queue::<greet>();
/// let receipt = queue.push("hello".to_owned(), Duration::from_millis(10)).await?;
/// assert!(receipt.is_accepted());
/// bus.shutdown(Duration::from_secs(1)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a bus stops when it is dropped: keep it, and call `shutdown` at the end"]
pub struct Bus {
    inner: Arc<Inner>,
    /// Absent in the handle that handlers see, so that they do not keep the bus running.
    _owner: Option<Arc<Owner>>,
}

pub(crate) struct Inner {
    /// As which node it takes part.
    id: NodeId,
    store: Arc<dyn Store>,
    /// The journal; without one records stay in the store's outboxes.
    recorded: Option<Recorded>,
    replies: Arc<Replies>,
    /// Taken out at the end.
    flow: RwLock<Option<Flow>>,
    /// The queues that have a handler here, or choices of their own.
    queues: BTreeMap<QueueName, Arc<QueueOptions>>,
    /// What goes for any other queue.
    defaults: Arc<QueueOptions>,
    /// What is set of queues while they run.
    controls: Arc<Controls>,
    /// The keys of encrypted payloads.
    keys: KeyRing,
    /// Reads payloads as the handlers that this program has would, whether they run here or not.
    checks: BTreeMap<QueueName, Check>,
    /// What is counted of pushes.
    push_meters: PushMeters,
    /// Counts the events that were pushed one by one, from a number by chance.
    pushes: AtomicU64,
    payload_bytes_max: usize,
    /// What pushes survive that say nothing else; `None`: what the store does by itself.
    durability: Option<Durability>,
    /// How fast forecasts are counted.
    forecasts: Pace,
    /// The unknown names that were pushed to.
    judged: Judged,
    /// Held while the bus stops, so that nobody closes the store before everything is settled.
    stopping: tokio::sync::Mutex<()>,
    /// Nothing is asked of the store any more.
    is_closed: AtomicBool,
    /// Whether others use the store too, so that it is not this bus's to close when it is dropped.
    is_lent: bool,
    /// Where the bus runs.
    runtime: Handle,
}

/// How many events that are pushed one by one share a bucket.
const RUN: u64 = 64;

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("store", &self.inner.store)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn flow(&self) -> RwLockReadGuard<'_, Option<Flow>> {
        self.flow.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies an operation to a bucket, for as long as the bus is open.
    async fn apply<R>(&self, bucket: &BucketKey, operation: Operation<R>) -> Result<R> {
        operation.apply(&**self.open()?, bucket).await
    }

    /// Pushes, so that it survives what is `wanted`.
    fn push(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Option<Durability>,
    ) -> StoreFuture<Answer> {
        match (self.open(), wanted) {
            (Ok(store), Some(wanted)) => store.push_durably(bucket, events, wanted),
            (Ok(store), None) => store.apply(bucket, StoreOp::Push(events)),
            (Err(error), _) => StoreFuture::ready(Err(error)),
        }
    }

    /// The store, for as long as the bus is open.
    fn open(&self) -> Result<&Arc<dyn Store>> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::closed(
                "the bus was shut down or dropped, so its queues accept nothing; keep the bus for \
                 as long as its queues are used, or start another one",
            ));
        }
        Ok(&self.store)
    }

    /// What time it is for the store. A pusher whose own clock is wrong harms nobody: nothing that
    /// is stored is made from it.
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.store.now_us() / 1_000)
    }

    /// Over how many buckets new events of a queue are spread now.
    fn buckets(&self, queue: &QueueName, options: &QueueOptions) -> u16 {
        self.controls.of(queue).buckets.unwrap_or(options.buckets)
    }

    /// The bucket, of `buckets`, of the next event that is pushed by itself.
    ///
    /// So many in a row share one. A store that works by the batch, with one commit or one round
    /// trip for what is there at a time, does so by the bucket: of 64 pushes that are made at once,
    /// 64 buckets would make 64 batches of one.
    fn next_bucket(&self, buckets: u16) -> BucketId {
        let run = self.pushes.fetch_add(1, Ordering::Relaxed) / RUN;
        // It fits, since it is less than `buckets`.
        BucketId(u16::try_from(run % u64::from(buckets.max(1))).unwrap_or(0))
    }

    /// The same payload, if it is not too large.
    fn checked(&self, payload: Payload) -> Result<Payload> {
        let (len, max) = (payload.len(), self.payload_bytes_max);
        if len > max {
            return Err(Error::invalid(format!(
                "the payload has {len} bytes, at most {max} are allowed"
            )));
        }
        Ok(payload)
    }

    fn options(&self, queue: &QueueName) -> Arc<QueueOptions> {
        Arc::clone(self.queues.get(queue).unwrap_or(&self.defaults))
    }
}

impl Bus {
    /// Collects the choices for a bus.
    pub fn builder() -> BusBuilder {
        BusBuilder::new()
    }

    /// As which node this bus takes part: the one that its records and its leases name. Another
    /// start of the same program is another node.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.inner.id
    }

    /// The keys of this bus: keys can be added, chosen and removed while it runs.
    #[must_use]
    pub fn keys(&self) -> &KeyRing {
        &self.inner.keys
    }

    /// The queue of an annotated handler, to push to.
    ///
    /// The handler need not run in this process.
    ///
    /// # Panics
    ///
    /// When an annotation that was written by hand names an illegal queue; `#[delay_event]` refuses
    /// that while the program is compiled.
    #[must_use]
    pub fn queue<H>(&self) -> Queue<H::Value>
    where
        H: Annotated,
        H::Value: Serialize + Send + Sync + 'static,
    {
        match QueueName::new(H::ANNOTATION.queue) {
            Ok(name) => Queue::new(Arc::clone(&self.inner), name),
            Err(error) => panic!("{error}"),
        }
    }

    /// A queue by its name and the type of its payload, to push to.
    ///
    /// It may be one of another program. Where this one has no handler and no settings for it, but
    /// for one whose name is nearly the same (`order_close` for `order-close`), the log warns once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] when the name is not legal.
    pub fn queue_named<T>(&self, name: &str) -> Result<Queue<T>>
    where
        T: Serialize + Send + Sync + 'static,
    {
        let name = QueueName::new(name)?;
        self.inner.warn_of_slip(&name);
        Ok(Queue::new(Arc::clone(&self.inner), name))
    }

    /// What an accepted push survives.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.inner.store.durability()
    }

    /// Stops: fetches nothing more, lets handlers finish for as long as `grace`, hands back what
    /// never started at once, settles everything that ended, records what waits for the journal as
    /// far as that takes no more than two seconds, and closes the store.
    ///
    /// A handler that still runs when the grace is over is told so by its
    /// [cancellation](Context::cancellation) and then dropped; its attempt counts, and its event is
    /// ready again. Later calls wait for the first one and have nothing to do.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] on the bus that a handler sees ([`Context::bus`]): the bus would wait
    /// for the handler, and the handler for the bus.
    /// [`ErrorKind::TimedOut`] when outcomes could not be settled in time (a handler that blocks
    /// its thread, a store that does not answer): these events are handled again. Or what the
    /// store answers to being closed.
    pub async fn shutdown(&self, grace: Duration) -> Result<()> {
        if self._owner.is_none() {
            return Err(Error::invalid(
                "a handler cannot shut its bus down, which waits for the handler; tell the part of \
                 the program that holds the bus, by a channel for example",
            ));
        }
        let _stopping = self.inner.stopping.lock().await;
        let flow = self
            .inner
            .flow
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let settled = match flow {
            Some(flow) => flow.stop(grace).await,
            None => true,
        };
        if let Some(recorded) = &self.inner.recorded {
            recorded.stop().await;
        }
        self.inner.is_closed.store(true, Ordering::Release);
        self.inner.store.close().await?;
        if !settled {
            return Err(Error::new(
                ErrorKind::TimedOut,
                "not everything could be settled in time; those events are handled again",
            ));
        }
        Ok(())
    }

    /// The store, for tests that look underneath.
    #[cfg(feature = "testing")]
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Whether this process has a handler for `queue`.
    #[cfg(feature = "testing")]
    pub(crate) fn serves(&self, queue: &QueueName) -> bool {
        let flow = self.inner.flow();
        flow.as_ref().is_some_and(|flow| flow.serves(queue))
    }

    /// Whether a handler runs that blocks its thread.
    #[cfg(feature = "testing")]
    pub(crate) fn is_blocking(&self) -> bool {
        let flow = self.inner.flow();
        flow.as_ref().is_some_and(Flow::is_blocking)
    }

    /// The same bus, seen from inside: it does not keep the bus running.
    fn from_inside(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            _owner: None,
        }
    }
}

impl Context {
    /// The bus, to push from a handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::prelude::*;
    ///
    /// #[delay_event(queue = "order-closed", register = false)]
    /// async fn closed(event: Event<u64>) -> Result<(), Failure> {
    ///     Ok(())
    /// }
    ///
    /// #[delay_event(queue = "order-close", register = false)]
    /// async fn close(event: Event<u64>, cx: &Context) -> Result<(), Failure> {
    ///     cx.bus().queue::<closed>().push_now(event.payload).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// Never in a handler that a bus runs: the bus is always there.
    pub fn bus(&self) -> &Bus {
        self.state()
    }
}
