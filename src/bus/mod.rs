//! The bus: the API of the crate.

mod admin;
mod builder;
mod call;
mod checks;
mod completed;
mod control;
mod dead_letters;
mod events;
mod explain;
mod fan_out;
mod forecast;
mod ids;
mod journal;
pub(crate) mod lease;
mod locate;
mod names;
mod open;
mod owner;
mod pace;
mod payloads;
mod publish;
mod push;
mod queue;
mod queue_handle;
mod queues;
mod reachable_buckets;
mod records;
mod reencrypt;
mod round_trips;
mod scan;
mod stop;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use admin::{NodeInfo, QueueLoad, QueueStats};
pub use builder::BusBuilder;
pub use checks::{PayloadCheck, PayloadReport, StoreCheck, StoreReport, UndecodablePayload};
pub use dead_letters::{BulkResult, DeadLetter, DeadLetterCursor, DeadLetters, Edited, LastRecord};
pub use events::{EVENTS_MAX, Events, StoredEvent};
pub use explain::{Attempts, Explanation, HolderStatus, Reason, Spread};
use forecast::ForecastPacer;
pub use forecast::{FORECAST_STEPS_MAX, ForecastStep};
use journal::JournalRecorder;
use names::CheckedNames;
use owner::BusOwner;
use parking_lot::{RwLock, RwLockReadGuard};
pub use publish::Publisher;
pub use push::event::EventBuilder;
pub use push::many::{ALL_OR_NONE_MAX, PUSH_MANY_MAX, PushItem, PushMany};
pub use push::receipt::Receipt;
pub use queue::Queue;
pub use records::{MinuteStatsQuery, RecordStream, Records};
pub use reencrypt::{KeyCounts, Reencrypt, ReencryptReport};
use round_trips::RoundTrips;
pub use scan::EventCursor;
use stop::BusStop;
use tokio::runtime::Handle;

use crate::bus::ids::NewIds;
use crate::codec::KeyRing;
use crate::core::op::{Answer, NewEvent, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, Payload, QueueName};
use crate::flow::{Check, Flow, QueueOptions, Replies, RuntimeSettings};
use crate::handler::Context;
use crate::metrics::{PullMeters, PushMeters};
use crate::record::NodeId;
use crate::store::{Durability, Operation, Store, StoreFuture};
use crate::time::{Clock, Timestamp};

/// A running event bus.
///
/// Cloning is cheap, and every clone is the same bus. It runs until [`shutdown`](Self::shutdown),
/// or until the last clone outside of handlers is dropped: then it stops at once without waiting,
/// logs a warning, and its leased events are delivered again when the leases expire or at the next
/// start. Queues do not keep it running: their calls return [`Closed`](crate::ErrorKind::Closed) from then
/// on.
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
    /// `None` in the handle of handlers, so that they do not keep the bus running.
    _owner: Option<Arc<BusOwner>>,
}

pub(crate) struct Inner {
    /// The id of this node.
    id: NodeId,
    store: Arc<dyn Store>,
    /// The clock of this machine.
    clock: Arc<dyn Clock>,
    /// The journal; without one records stay in the store's outboxes.
    recorded: Option<JournalRecorder>,
    replies: Arc<Replies>,
    /// Taken out at the end.
    flow: RwLock<Option<Flow>>,
    /// The queues that have a handler here, or their own options.
    queues: BTreeMap<QueueName, Arc<QueueOptions>>,
    /// The options of any other queue.
    defaults: Arc<QueueOptions>,
    /// The runtime settings of queues.
    controls: Arc<RuntimeSettings>,
    /// The keys of encrypted payloads.
    keys: KeyRing,
    /// The payload checks of all handlers of this program, whether they run here or not.
    checks: BTreeMap<QueueName, Check>,
    round_trips: RoundTrips,
    push_meters: PushMeters,
    pull_meters: PullMeters,
    /// Counts the events that were pushed one by one, from a random start.
    ids: NewIds,
    payload_bytes_max: usize,
    /// The default durability of pushes; `None`: the store's own.
    durability: Option<Durability>,
    forecasts: ForecastPacer,
    leases: lease::Leases,
    /// The unknown names that were pushed to; `None` where no name is taken for a mistake.
    judged: Option<CheckedNames>,
    stop: BusStop,
    /// The store is not called any more.
    is_closed: AtomicBool,
    /// Whether the store is shared, so that the bus must not close it when it is dropped.
    is_lent: bool,
    /// The runtime of the bus.
    runtime: Handle,
    /// Whether time is virtual, which threads do not see.
    virtual_time: bool,
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("store", &self.inner.store)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn flow(&self) -> RwLockReadGuard<'_, Option<Flow>> {
        self.flow.read()
    }

    /// Applies an operation to a bucket, if the bus is open.
    async fn apply<R>(&self, bucket: &BucketKey, operation: Operation<R>) -> Result<R> {
        operation.apply(&**self.open()?, bucket).await
    }

    /// Pushes with the given durability.
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

    /// Returns the store, if the bus is open.
    fn open(&self) -> Result<&Arc<dyn Store>> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::closed(
                "the bus was shut down or dropped, so its queues are closed; keep the bus while its \
                 queues are used, or start another one",
            ));
        }
        Ok(&self.store)
    }

    /// Returns the store's time. Nothing that is stored depends on a pusher's own clock.
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.store.now_us() / 1_000)
    }

    /// Returns the current number of buckets for new events of a queue.
    fn buckets(&self, queue: &QueueName, options: &QueueOptions) -> u16 {
        let usual = if call::stored_replies::holds_replies(queue) {
            call::stored_replies::REPLY_BUCKETS
        } else {
            options.buckets
        };
        self.controls.of(queue).buckets.unwrap_or(usual)
    }

    /// Returns the payload, if it is not too large.
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
    /// Returns a builder of a bus.
    pub fn builder() -> BusBuilder {
        BusBuilder::new()
    }

    /// Returns the id of this node, which its records and leases name. Each start of a program is
    /// another node.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.inner.id
    }

    /// Returns the keys of this bus: keys can be added, chosen and removed while it runs.
    #[must_use]
    pub fn keys(&self) -> &KeyRing {
        &self.inner.keys
    }

    /// Returns the durability of an accepted push.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.inner.store.durability()
    }

    /// Shuts down: stops fetching, lets handlers finish within `grace`, releases what never
    /// started, settles everything that ended, records what waits for the journal within two
    /// seconds, and closes the store.
    ///
    /// When the grace period begins, handlers [are told](Context::stopping). One that still runs
    /// after it is [cancelled](Context::cancellation) and then dropped, and its event is ready
    /// again; whether that counts as an attempt, `free_interruptions` of its queue says.
    ///
    /// The stop takes at most the grace period and about ten seconds, of which a store and a journal
    /// that respond need few milliseconds; a handler that blocks its thread needs two seconds of
    /// them. It goes on if this future is dropped. Later calls, on any runtime, wait for the same
    /// stop, whatever their grace period, and return its result.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on the bus of a handler ([`Context::bus`]): the bus would wait for
    /// the handler, and the handler for the bus. [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) when outcomes could not be
    /// settled in time (a handler that blocks its thread, an unresponsive store): these events are
    /// handled again. Or the store's error on closing.
    pub async fn shutdown(&self, grace: Duration) -> Result<()> {
        if self._owner.is_none() {
            return Err(Error::invalid(
                "a handler cannot shut its bus down, which waits for the handler; signal the owner \
                 of the bus instead, for example by a channel",
            ));
        }
        self.inner.stop(grace).await
    }

    /// Returns the store, for tests that look underneath.
    #[cfg(feature = "testing")]
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Returns whether this process has a handler for `queue`.
    #[cfg(feature = "testing")]
    pub(crate) fn serves(&self, queue: &QueueName) -> bool {
        let flow = self.inner.flow();
        flow.as_ref().is_some_and(|flow| flow.serves(queue))
    }

    /// Returns whether a handler runs that blocks its thread, or waits for the outside world.
    #[cfg(feature = "testing")]
    pub(crate) fn is_blocking(&self) -> bool {
        let flow = self.inner.flow();
        flow.as_ref().is_some_and(Flow::is_blocking)
    }

    /// Returns a handle for handlers, which does not keep the bus running.
    fn from_inside(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            _owner: None,
        }
    }
}

impl Context {
    /// Returns the bus, to push from a handler.
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
    ///     cx.bus().queue::<closed>().push(event.payload, When::Now).await?;
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
