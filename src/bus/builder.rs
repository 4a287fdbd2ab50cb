//! The builder of a bus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::bus::journal::{JournalConfig, JournalHandle, record};
use crate::bus::open::{check_durability, check_io, check_timers, open_store};
use crate::bus::owner::BusOwner;
use crate::bus::payloads::check_encryption;
use crate::bus::{Bus, Inner, ids::NewIds, round_trips::RoundTrips};
use crate::codec::KeyRing;
use crate::config::Settings;
use crate::core::options::NodeOptions;
use crate::error::{Error, Result};
use crate::flow::{Entry, Flow, QueueChoices, QueueOptions, Replies, RuntimeSettings, Setup};
use crate::handler::{Annotated, Annotation, BlockingHandler, Handler, States};
use crate::journal::{RecordChoices, RecorderOptions};
use crate::metrics::{self, MetricsChoices, PullMeters, PushMeters, QueueLabels};
use crate::record::NodeId;
use crate::store::{Durability, Store, StoreProxy};
use crate::time::{Clock, GuardedClock, SystemClock};

/// The default store: a file in the working directory.
const STORE_URL: &str = "sqlite:duly.db";
/// The upper bound of `payload_bytes_max`: a store takes whole batches of payloads.
const PAYLOAD_BYTES_LIMIT: usize = 256 * 1024 * 1024;
/// The default of `payload_bytes_max`.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// Builds a bus; nothing starts before [`start`](Self::start).
///
/// Settings come, weakest first, from `queue_defaults` in `duly.toml`, the annotation, the queue's
/// section in `duly.toml`, the environment (`DULY__STORE__URL`), and this builder.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct BusBuilder {
    store: Option<Arc<dyn Store>>,
    /// Whether the given store is shared with others.
    is_lent: bool,
    store_url: Option<String>,
    settings: Option<Settings>,
    pub(super) states: States,
    pub(super) handlers: Vec<Entry>,
    pub(super) linked: bool,
    pub(super) dynamic_queues: bool,
    pub(super) publish_only: bool,
    pub(super) queues: BTreeMap<String, QueueChoices>,
    node: Option<NodeOptions>,
    read_ahead: Option<Duration>,
    payload_bytes_max: Option<usize>,
    durability: Option<Durability>,
    clock: Option<Arc<dyn Clock>>,
    keys: Option<KeyRing>,
    pub(super) journal: Option<JournalHandle>,
    pub(super) records: RecordChoices,
    pub(super) recorder: Option<RecorderOptions>,
    metrics: MetricsChoices,
    pub(super) virtual_time: bool,
}

impl BusBuilder {
    pub(crate) fn new() -> Self {
        Self {
            linked: true,
            ..Self::default()
        }
    }

    /// Sets where events are kept: `memory:` loses them with the process, `sqlite:path` (or
    /// `sqlite://path`) is the embedded store in that file, `redis://host` and similar URLs are a
    /// store that many processes share (see [`RedisStore`](crate::store::RedisStore)). Default:
    /// `sqlite:duly.db`.
    pub fn store_url(mut self, url: impl Into<String>) -> Self {
        self.store_url = Some(url.into());
        self
    }

    /// Sets a store; it replaces [`store_url`](Self::store_url).
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self.is_lent = false;
        self
    }

    /// Sets a store that is shared, for example by several buses.
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self.is_lent = true;
        self
    }

    /// Replaces the settings of the file and the environment.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Adds a value that handlers share, for example a database client. A second value of its type
    /// replaces it.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Registers a handler by hand: one that says `register = false`, or that has fields.
    pub fn register<H>(mut self, handler: H) -> Self
    where
        H: Handler + Annotated<Value = <H as Handler>::Payload>,
    {
        let entry = Entry::suspending(handler, H::ANNOTATION, H::UPGRADE);
        self.handlers.push(entry);
        self
    }

    /// Registers a blocking handler by hand.
    pub fn register_blocking<H>(mut self, handler: H) -> Self
    where
        H: BlockingHandler + Annotated<Value = <H as BlockingHandler>::Payload>,
    {
        let entry = Entry::blocking(handler, H::ANNOTATION, H::UPGRADE);
        self.handlers.push(entry);
        self
    }

    /// Registers a handler without an annotation, for the queue that `annotation` names.
    pub fn register_as<H: Handler>(mut self, annotation: Annotation, handler: H) -> Self {
        self.handlers
            .push(Entry::suspending(handler, annotation, None));
        self
    }

    /// Sets options of one queue, stronger than its annotation, the file and the environment.
    ///
    /// A second call for the same queue replaces the first.
    pub fn queue(mut self, name: impl Into<String>, choices: QueueChoices) -> Self {
        self.queues.insert(name.into(), choices);
        self
    }

    /// Sets how long before its due time an event may be prefetched, so that it starts on time.
    /// Zero disables prefetch; at most 10 s. Default: 100 ms. Of a crowd, many events that are due
    /// at about the same time, the first may be prefetched up to 1 s before, since it takes longer
    /// to fetch.
    pub fn read_ahead(mut self, ahead: Duration) -> Self {
        self.read_ahead = Some(ahead);
        self
    }

    /// Sets the largest encoded payload that a push accepts, in bytes. Default: 1 MiB.
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = Some(bytes);
        self
    }

    /// Sets the durability that every push waits for, unless it sets its own
    /// ([`durable`](crate::EventBuilder::durable)). Default: the store's own.
    ///
    /// If the store can never reach it, the bus does not start, or, where only the server knows,
    /// its pushes are refused; both as [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets the keys for encrypting and decrypting payloads; they replace those of the settings.
    /// All clones of the ring share their keys, which can be added, chosen and removed while the
    /// bus runs. Default: those of the settings, or none.
    pub fn keys(mut self, keys: KeyRing) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Sets the intervals and limits of this node. Default: [`NodeOptions::default`].
    pub fn node_options(mut self, node: NodeOptions) -> Self {
        self.node = Some(node);
        self
    }

    /// Sets metrics options, stronger than the file and the environment.
    pub fn metrics(mut self, choices: MetricsChoices) -> Self {
        self.metrics = self.metrics.with(choices);
        self
    }

    /// Sets the clock. Default: the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Uses the runtime's time, which tests pause: the mover is a task, not a thread.
    ///
    /// Unset options default to what a test needs: nothing is read from the environment, nothing is
    /// kept, nothing lingers, and no fallback poll of an idle bucket hides a lost wake-up.
    #[cfg(feature = "testing")]
    pub(crate) fn virtual_time(mut self, clock: Arc<dyn Clock>) -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        self.virtual_time = true;
        self.settings.get_or_insert_default();
        self.store_url.get_or_insert_with(|| "memory:".to_owned());
        self.node.get_or_insert_with(|| NodeOptions {
            settle_linger: Duration::ZERO,
            sleep_max: DAY,
            fallback_scan_every: DAY,
            ..NodeOptions::default()
        });
        self.recorder.get_or_insert_with(|| RecorderOptions {
            linger: Duration::ZERO,
            fallback_poll_every: Some(DAY),
            ..RecorderOptions::default()
        });
        self.clock(clock)
    }

    /// Checks every option, opens the store, and starts.
    ///
    /// Annotated handlers are found wherever they are in the program. The linker leaves out a crate
    /// that is named in `Cargo.toml` but nowhere in the code, and its handlers with it: write `use
    /// my_handlers as _;`. A bus without handlers that is not [`publish_only`](Self::publish_only)
    /// logs a warning.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for two handlers of one queue, a missing
    /// state of a handler, a value out of bounds, an unknown setting, or a runtime that was built
    /// without timers (`enable_time`), or without I/O (`enable_io`) where something connects or
    /// listens; or the store's error on opening.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn start(mut self) -> Result<Bus> {
        check_timers()?;
        let settings = match self.settings.take() {
            Some(settings) => settings,
            None => Settings::load_for(self.known_queues()?)?,
        };
        let clock: Arc<dyn Clock> = match self.clock.take() {
            Some(clock) => Arc::new(GuardedClock::new(clock)),
            None => Arc::new(SystemClock::new()),
        };
        let defaults = QueueOptions::default().with(&settings.queue_defaults);
        let keys = match self.keys.take() {
            Some(keys) => keys,
            None => settings.encryption.ring()?,
        };
        let queues = self.named_queues(&settings)?;
        check_encryption(&keys, &defaults, &queues)?;
        let checks = self.checks()?;
        let handlers = self.handlers(&settings)?;

        let ahead = self.read_ahead.or(settings.read_ahead);
        let node = NodeOptions {
            ahead: ahead.unwrap_or(NodeOptions::default().ahead),
            ..self.node.take().unwrap_or_default()
        };
        if node.ahead > AHEAD_MAX {
            return Err(Error::invalid(format!(
                "read_ahead is {:?}; it must be at most {AHEAD_MAX:?}",
                node.ahead
            )));
        }
        node.check()?;
        let metrics = settings.metrics.with(self.metrics);
        metrics.check()?;
        if let Some(address) = metrics.listen {
            check_io("metrics.listen")?;
            metrics::listen(address)?;
        }
        let payload_bytes_max = self
            .payload_bytes_max
            .or(settings.payload_bytes_max)
            .unwrap_or(PAYLOAD_BYTES_MAX);
        if !(1..=PAYLOAD_BYTES_LIMIT).contains(&payload_bytes_max) {
            return Err(Error::invalid(format!(
                "payload_bytes_max is {payload_bytes_max}; it must be 1 to {PAYLOAD_BYTES_LIMIT}"
            )));
        }

        let is_given = self.store.is_some();
        let (store, store_url) = match self.store.take() {
            Some(store) => (store, None),
            None => {
                let url = self.store_url.take().or(settings.store_url);
                let url = url.unwrap_or_else(|| STORE_URL.to_owned());
                let store = open_store(&url, &clock, self.virtual_time).await?;
                (store, Some(url))
            }
        };
        metrics::describe();
        let metered = metrics::is_recorder_installed().then_some(&clock);
        let store: Arc<dyn Store> = if is_given || metered.is_some() {
            Arc::new(StoreProxy::new(store, is_given, metered))
        } else {
            store
        };
        let durability = self.durability.or(settings.durability);
        check_durability(&*store, durability)?;
        let node = if store.is_shared() {
            NodeOptions {
                sleep_max: node.sleep_max.max(store.fallback_poll_every()),
                fallback_scan_every: node.fallback_scan_every.max(store.fallback_poll_every()),
                ..node
            }
        } else {
            node.for_one_process()
        };
        let many = queues.iter();
        let many = many.map(|(queue, options)| (queue.clone(), options.buckets));
        store.configured(&many.collect(), defaults.buckets);
        let member_lost = Arc::<Notify>::default();
        let labels = Arc::new(QueueLabels::new(metrics.queues_max(), self.dynamic_queues));
        let push_meters = PushMeters::of_pushes(Arc::clone(&labels));
        let mut consumed: Vec<_> = handlers.iter().map(|(queue, ..)| queue).collect();
        consumed.sort_unstable();
        let kept: Vec<_> = consumed.iter().map(|queue| (*queue).clone()).collect();
        for queue in consumed.into_iter().chain(queues.keys()) {
            push_meters.of(queue);
        }
        let recorded = record(JournalConfig {
            given: self.journal.take(),
            choices: &settings.records.with(self.records),
            options: self.recorder.take().unwrap_or_default(),
            store: &store,
            store_url: store_url.as_deref(),
            member_lost: &member_lost,
        })
        .await?;
        let (replies, controls) = (Arc::<Replies>::default(), Arc::<RuntimeSettings>::default());
        let id = NodeId(fastrand::u64(1..));
        let inner = Arc::new(Inner {
            id,
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            recorded,
            replies: Arc::clone(&replies),
            flow: RwLock::new(None),
            queues,
            defaults: Arc::new(defaults),
            controls: Arc::clone(&controls),
            keys: keys.clone(),
            checks,
            round_trips: RoundTrips::new(self.virtual_time),
            push_meters,
            pull_meters: PullMeters::of_pulls(Arc::clone(&labels)),
            ids: NewIds::new(),
            payload_bytes_max,
            durability,
            forecasts: Default::default(),
            leases: Default::default(),
            judged: (!self.dynamic_queues).then(Default::default),
            stop: Default::default(),
            is_closed: AtomicBool::new(false),
            is_lent: self.is_lent,
            runtime: Handle::current(),
            virtual_time: self.virtual_time,
        });
        crate::bus::call::stored_replies::install(&inner);
        self.states.insert(Bus::from_inside(Arc::clone(&inner)));
        let flow = Flow::start(Setup {
            id,
            store,
            clock,
            states: Arc::new(self.states),
            node,
            handlers,
            replies,
            controls,
            keys,
            member_lost,
            labels,
            depth_sampler: metrics.depth_sampler(self.virtual_time),
            virtual_time: self.virtual_time,
        })
        .await?;
        *inner.flow.write() = Some(flow);
        crate::bus::dead_letters::retention::start(&inner, &kept);
        Ok(Bus {
            _owner: Some(Arc::new(BusOwner(Arc::clone(&inner)))),
            inner,
        })
    }
}

/// The upper bound of `read_ahead`.
const AHEAD_MAX: Duration = Duration::from_secs(10);
