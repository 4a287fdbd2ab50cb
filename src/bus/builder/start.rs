//! The start of a bus.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::bus::builder::options::BusBuilder;
#[cfg(feature = "schedules")]
use crate::bus::builder::schedule_setup::SCHEDULES_MAX;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::journal::{JournalConfig, record};
use crate::bus::open::{check_durability, check_io, check_timers, open_store};
use crate::bus::owner::BusOwner;
use crate::bus::payloads::check_encryption;
use crate::bus::state::ids::NewIds;
use crate::bus::state::program_actions::AuditedBy;
use crate::bus::state::round_trips::RoundTrips;
use crate::config::Settings;
use crate::core::options::NodeOptions;
use crate::error::{Error, Result};
use crate::flow::{DeclaredRates, Flow, QueueOptions, Replies, RuntimeSettings, Setup};
use crate::metrics::{self, CountedStore, PullMeters, PushMeters, QueueLabels};
use crate::record::NodeId;
use crate::store::{Store, StoreProxy};
use crate::time::{Clock, GuardedClock, SystemClock};

/// The default store: a file in the working directory.
const STORE_URL: &str = "sqlite:duly.db";
/// The upper bound of `payload_bytes_max`: a store takes whole batches of payloads.
const PAYLOAD_BYTES_LIMIT: usize = 256 * 1024 * 1024;
/// The default of `payload_bytes_max`.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// The upper bound of `read_ahead`.
const AHEAD_MAX: Duration = Duration::from_secs(10);

impl BusBuilder {
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
            Some(clock) => GuardedClock::shared(clock),
            None => Arc::new(SystemClock::new()),
        };
        let defaults = QueueOptions::default().with(&settings.queue_defaults);
        let keys = match self.keys.take() {
            Some(keys) => keys,
            None => settings.encryption.ring()?,
        };
        let (queues, chosen) = self.named_queues(&settings)?;
        check_encryption(&keys, &defaults, &queues)?;
        let checks = self.checks()?;
        let handlers = self.handlers(&settings)?;

        let annotated: Vec<_> = handlers
            .iter()
            .filter_map(|(queue, _, entry)| Some((queue.clone(), entry.annotation.schedule?)))
            .collect();
        #[cfg(not(feature = "schedules"))]
        if !annotated.is_empty() || !settings.schedules.is_empty() {
            return Err(Error::not_built("a schedule", "schedules"));
        }
        #[cfg(feature = "schedules")]
        let (declared, runs) = self
            .schedules
            .take(&settings, &annotated, !handlers.is_empty())?;
        let ahead = self.read_ahead.or(settings.read_ahead);
        let node = self.node.take().unwrap_or_default();
        let node = NodeOptions {
            ahead: ahead.unwrap_or(node.ahead),
            ..node
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
            node.for_shared_store(store.fallback_poll_every())
        } else {
            node.for_one_process()
        };
        let many = queues.iter();
        let many = many.map(|(queue, options)| (queue.clone(), options.buckets));
        store.configured(&many.collect(), defaults.buckets);
        let member_lost = Arc::<Notify>::default();
        let labels = Arc::new(QueueLabels::new(metrics.queues_max(), self.dynamic_queues));
        let counted = CountedStore::of(store.is_shared(), store_url.as_deref());
        let push_meters = PushMeters::of_pushes(Arc::clone(&labels));
        let mut consumed: Vec<_> = handlers.iter().map(|(queue, ..)| queue).collect();
        consumed.sort_unstable();
        let kept: Vec<_> = consumed.iter().map(|queue| (*queue).clone()).collect();
        for queue in consumed.into_iter().chain(queues.keys()) {
            push_meters.of_queue(queue);
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
        let named = queues.iter();
        let declared_rates = DeclaredRates {
            named: named.map(|(queue, it)| (queue.clone(), it.rate)).collect(),
            others: defaults.rate,
        };
        let replies = Arc::<Replies>::default();
        let controls = Arc::new(RuntimeSettings::new(declared_rates));
        let id = NodeId(fastrand::u64(1..));
        let inner = Arc::new(Inner {
            id,
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            recorded,
            replies: Arc::clone(&replies),
            flow: RwLock::new(None),
            queues,
            chosen,
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
            checked_names: (!self.dynamic_queues).then(Default::default),
            #[cfg(feature = "schedules")]
            schedules_max: self.schedules.max.unwrap_or(SCHEDULES_MAX),
            program_actions: Default::default(),
            outboxes: Default::default(),
            stop: Default::default(),
            is_closed: AtomicBool::new(false),
            is_lent: self.is_lent,
            runtime: Handle::current(),
            virtual_time: self.virtual_time,
        });
        crate::bus::call::stored_replies::install(&inner);
        let mut of_handlers = Bus::from_inside(Arc::clone(&inner));
        of_handlers.audited_by = AuditedBy::Bus;
        self.states.insert(of_handlers);
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
            depth_sampler: metrics.depth_sampler(self.virtual_time, counted),
            virtual_time: self.virtual_time,
        })
        .await?;
        *inner.flow.write() = Some(flow);
        crate::bus::dead_letters::retention::start(&inner, &kept);
        #[cfg(feature = "schedules")]
        crate::bus::schedules::start(&inner, declared, runs);
        Ok(Bus {
            _owner: Some(Arc::new(BusOwner(Arc::clone(&inner)))),
            audited_by: AuditedBy::Bus,
            inner,
        })
    }
}
