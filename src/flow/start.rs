//! Start and stop of the flow of events through this process.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::background::Background;
use crate::codec::KeyRing;
use crate::core::node::Node;
use crate::core::options::NodeOptions;
use crate::core::pull::PullOptions;
use crate::error::{Error, Result};
use crate::event::{BucketKey, QueueName};
use crate::flow::consumers::consumer::ValuePublisher;
use crate::flow::consumers::gauges::GaugeUpdater;
use crate::flow::consumers::registry::{ConsumerDeps, Entry};
use crate::flow::consumers::runtime_watch::RuntimeWatch;
use crate::flow::consumers::set::{ConsumerEntry, Consumers};
use crate::flow::consumers::stuck;
use crate::flow::handlers::deps::ExecutorDeps;
use crate::flow::handlers::outside::TimeHolds;
use crate::flow::handlers::replies::Replies;
use crate::flow::handlers::waits::{QueueWaits, WaitGraph};
use crate::flow::log_limiter::LogLimiter;
use crate::flow::membership::clock_watch;
use crate::flow::membership::depth_sampler::DepthSampler;
use crate::flow::membership::host::host;
use crate::flow::membership::poll::{MembershipPoll, SettingsReader};
use crate::flow::mover::Mover;
use crate::flow::node::inbox::Inbox;
use crate::flow::node::lease_fences::LeaseFences;
use crate::flow::options::QueueOptions;
use crate::flow::parts::FlowParts;
use crate::flow::pool::deadlines::DeadlineTable;
use crate::flow::pull::Pulls;
use crate::flow::runtime_settings::RuntimeSettings;
use crate::handler::{HandlerEnv, States};
use crate::metrics::{
    AttemptMetrics, MoverCounters, NodeGauges, PullMeters, QueueLabels, SampleInterval,
};
use crate::outage::Outage;
use crate::record::NodeId;
use crate::store::{MemberInfo, Store, Watcher, clock_ahead_us};
use crate::time::Clock;

/// The dependencies of a flow.
pub(crate) struct Setup {
    pub(crate) id: NodeId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) states: Arc<States>,
    pub(crate) node: NodeOptions,
    pub(crate) handlers: Vec<(QueueName, Arc<QueueOptions>, Entry)>,
    pub(crate) replies: Arc<Replies>,
    pub(crate) controls: Arc<RuntimeSettings>,
    pub(crate) keys: KeyRing,
    /// Notified when another node is lost.
    pub(crate) member_lost: Arc<Notify>,
    /// The labels of queues in metrics.
    pub(crate) labels: Arc<QueueLabels>,
    /// How often the depth is sampled; `None`: never.
    pub(crate) depth_sampler: Option<SampleInterval>,
    /// Whether time is virtual, so that the mover must be a task of the runtime.
    pub(crate) virtual_time: bool,
}

/// The running flow of events through this process: one mover, and a consumer for each queue.
pub(crate) struct Flow {
    pub(super) parts: FlowParts,
    orders: Arc<SettingsReader>,
    /// The buckets that the store does not serve.
    outage: Arc<Outage<usize>>,
    /// `None` where the store has only one node.
    pub(super) membership: Option<Arc<MembershipPoll>>,
    /// Cancelled when the node has stopped.
    pub(super) stopped: CancellationToken,
    /// The tasks that set gauges; they run until the flow is abandoned.
    pub(super) reporters: Vec<JoinHandle<()>>,
    /// The handlers that wait for other handlers.
    waits: Arc<WaitGraph>,
    /// Of virtual time.
    holds: Option<Arc<TimeHolds>>,
}

impl Flow {
    /// Creates the consumers and starts the mover.
    ///
    /// # Errors
    ///
    /// When a consumer or the mover's thread cannot be started, or the store cannot be read.
    pub(crate) async fn start(setup: Setup) -> Result<Self> {
        let Setup {
            id,
            store,
            clock,
            states,
            node: options,
            handlers,
            replies,
            controls,
            keys,
            member_lost,
            labels,
            depth_sampler,
            virtual_time,
        } = setup;
        let runtime = Handle::current();
        // Leases are kept while the program's own runtime is blocked. Virtual time is of one runtime.
        let calls = if store.is_shared() && !virtual_time {
            Background::shared()
        } else {
            Background::current()
        };
        let deadlines = DeadlineTable::new(runtime.clone());
        let inbox = Arc::new(Inbox::default());
        let (stopping, stop) = (CancellationToken::new(), CancellationToken::new());

        let pulls = PullOptions {
            is_shared: store.is_shared(),
            poll_every: options.sleep_max,
            retry: (options.retry_min, options.retry_max),
            drift_ppm: options.drift_ppm,
        };
        let pulls = Pulls::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            Arc::clone(&controls),
            PullMeters::of_pulls(Arc::clone(&labels)),
            pulls,
        );
        let pulls = Arc::new(pulls);
        let mut node = Node::new(id, options);
        let fences = Arc::new(LeaseFences::default());
        let holds = virtual_time.then(Arc::<TimeHolds>::default);
        let mut places = HashMap::new();
        for (queue, options, _) in &handlers {
            let place = node.add_queue(queue.clone(), options.ring, options.workers);
            places.insert(queue.clone(), place);
        }
        inbox.consumes(places);
        let gauges = GaugeUpdater::at(handlers.iter().map(|(queue, ..)| queue), &labels);
        let mut moves = Vec::new();
        let stuck = Arc::<Notify>::default();
        let waits = Arc::<WaitGraph>::default();
        let unnoted = Arc::new(Outage::of("starts of handlers"));

        let mut consumers = BTreeMap::new();
        let mut in_order = Vec::new();
        for (place, (queue, options, entry)) in handlers.into_iter().enumerate() {
            let label = labels.label(&queue);
            moves.push(Arc::new(MoverCounters::new(&label)));
            let deps = ExecutorDeps {
                options: Arc::clone(&options),
                surroundings: Arc::new(HandlerEnv {
                    queue: queue.clone(),
                    node: id,
                    states: Arc::clone(&states),
                    stopping: stopping.clone(),
                    stop: stop.clone(),
                }),
                store: Arc::clone(&store),
                clock: Arc::clone(&clock),
                inbox: Arc::clone(&inbox),
                fences: Arc::clone(&fences),
                replies: Arc::clone(&replies),
                waits: QueueWaits {
                    graph: Arc::clone(&waits),
                    place,
                },
                keys: keys.clone(),
                holds: holds.clone(),
                runs: Arc::new(AttemptMetrics::new(&label)),
                unnoted: Arc::clone(&unnoted),
                stuck: Arc::clone(&stuck),
                blocked: Arc::<LogLimiter>::default(),
                burning: Arc::default(),
            };
            let parts = ConsumerDeps {
                deps,
                runtime: runtime.clone(),
                deadlines: Arc::clone(&deadlines),
                virtual_time,
            };
            let handler = entry.handler;
            let consumer = (entry.install)(parts)?;
            in_order.push(Arc::clone(&consumer));
            consumers.insert(queue, ConsumerEntry::new(consumer, handler, place, options));
        }
        let consumers = Consumers::new(consumers, Arc::clone(&controls), Arc::clone(&inbox));
        let consumers = Arc::new(consumers);
        let orders = Arc::new(SettingsReader {
            store: Arc::clone(&store),
            controls,
            consumers: Arc::clone(&consumers),
            pulls: Arc::clone(&pulls),
            reads: Default::default(),
        });

        let watcher: Arc<dyn Watcher> = Arc::clone(&inbox) as _;
        store.watch(Arc::downgrade(&watcher))?;
        // Before the mover begins, so that nothing is fetched against the settings.
        orders.read_at_start().await?;
        let gauges_of_node = Arc::new(NodeGauges::new());
        gauges_of_node.clock_skew(clock_ahead_us(&*store, &*clock));
        let membership = if store.is_shared() {
            let me = MemberInfo {
                node: id,
                queues: consumers.queues(),
                host: host(),
                leaves: false,
            };
            let membership = Arc::new(MembershipPoll::new(
                Arc::clone(&orders),
                Arc::clone(&inbox),
                me,
                Arc::downgrade(&gauges_of_node),
            ));
            // A node starts even if the store is full, and drains it.
            Arc::clone(&membership).poll_in_background().await;
            Some(membership)
        } else {
            gauges_of_node.live_nodes(usize::from(!consumers.queues().is_empty()));
            None
        };
        let (stopped, abandoned) = (CancellationToken::new(), CancellationToken::new());
        let unless_it_starts = abandoned.clone().drop_guard();
        if consumers.iter().any(|(_, served)| served.consumer.blocks()) {
            let follow = stuck::follow(Arc::clone(&consumers), stuck, abandoned.clone());
            runtime.spawn(follow);
        }
        let mut reporters = Vec::new();
        if !virtual_time {
            let (store, clock) = (Arc::clone(&store), Arc::clone(&clock));
            let (inbox, pulls) = (Arc::clone(&inbox), Arc::clone(&pulls));
            let wake = move || {
                inbox.wake();
                pulls.wake();
            };
            let (clocks, gauges) = ((store, clock), Arc::clone(&gauges_of_node));
            let watch = clock_watch::start(&runtime, clocks, gauges, wake, abandoned.clone());
            reporters.push(watch);
        }
        if let Some(pace) = depth_sampler {
            let depth_sampler = DepthSampler {
                id,
                store: Arc::clone(&store),
                labels,
                inbox: Arc::clone(&inbox),
                queues: consumers.queues(),
                membership: membership.clone(),
                pace,
                stop: abandoned.clone(),
            };
            reporters.push(depth_sampler.start(&runtime, gauges_of_node));
        }
        if calls.is_apart() && !in_order.is_empty() {
            let watch = RuntimeWatch {
                program: runtime.clone(),
                consumers: Arc::clone(&consumers),
                inbox: Arc::clone(&inbox),
                abandoned: abandoned.clone(),
                stopped: stopped.clone(),
            };
            calls.spawn(watch.run());
        }
        let outage = Arc::new(Outage::of("operations on buckets"));
        let mover = Mover {
            outage: Arc::clone(&outage),
            node,
            store,
            clock,
            consumers: in_order,
            inputs: Vec::new(),
            actions: Vec::new(),
            fences,
            moves,
            gauges,
            refused: LogLimiter::default(),
            store_failed: LogLimiter::default(),
            inbox: Arc::clone(&inbox),
            membership: membership.clone(),
            member_lost,
            calls,
            stopped: stopped.clone(),
            abandoned: abandoned.clone(),
        };
        let parts = FlowParts {
            consumers,
            inbox,
            pulls,
            replies,
            stopping,
            stop,
            abandoned,
        };
        if virtual_time {
            mover.spawn_task();
        } else {
            mover.spawn_thread()?;
        }
        unless_it_starts.disarm();
        runtime.spawn(parts.clone().when_the_runtime_ends());
        Ok(Self {
            parts,
            orders,
            outage,
            membership,
            stopped,
            reporters,
            waits,
            holds,
        })
    }

    /// Returns the port for values of type `T` into the ring of `queue`, if this process consumes
    /// it.
    pub(crate) fn port<T: 'static>(&self, queue: &QueueName) -> Option<Arc<dyn ValuePublisher<T>>> {
        let port: Box<dyn Any> = Arc::clone(&self.parts.consumers.get(queue)?.consumer).port();
        port.downcast().ok().map(|port| *port)
    }

    /// Returns why the store does not serve a bucket to this node, if so.
    pub(crate) fn why_not_served(&self, bucket: &BucketKey) -> Option<Error> {
        let (kind, words) = self.outage.why(&self.parts.inbox.place(bucket)?)?;
        Some(Error::new(kind, words))
    }

    /// Returns whether nothing runs any more, since the runtime has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.parts.abandoned.is_cancelled()
    }

    /// Returns whether this process has a handler for `queue`.
    pub(crate) fn serves(&self, queue: &QueueName) -> bool {
        self.parts.consumers.get(queue).is_some()
    }

    /// Returns a queue with a handler here in the wait graph.
    pub(crate) fn waits(&self, queue: &QueueName) -> Option<QueueWaits> {
        let place = self.parts.consumers.get(queue)?.place;
        let graph = Arc::clone(&self.waits);
        Some(QueueWaits { graph, place })
    }

    /// Returns whether a node that shares the store has a handler for `queue`, by the last poll.
    pub(crate) fn is_consumed(&self, queue: &QueueName) -> bool {
        let membership = self.membership.as_ref();
        membership.is_some_and(|membership| membership.is_consumed(queue))
    }

    /// Returns what holds virtual time; `None` where time is real.
    pub(crate) fn holds(&self) -> Option<Arc<TimeHolds>> {
        self.holds.clone()
    }

    /// Returns whether a handler runs that blocks its thread, or waits for the outside world.
    #[cfg(feature = "testing")]
    pub(crate) fn is_blocking(&self) -> bool {
        if self.holds.as_ref().is_some_and(|holds| holds.is_held()) {
            return true;
        }
        let consumers = self.parts.consumers.iter();
        let mut consumers = consumers.map(|(_, served)| &served.consumer);
        consumers.any(|consumer| consumer.blocks() && consumer.load().1 > 0)
    }

    /// Sets how many handlers of `queue` may run at once; 0 pauses it.
    pub(crate) fn set_workers(&self, queue: &QueueName, workers: usize) -> Result<()> {
        self.parts.consumers.set_workers(queue, workers)
    }

    /// Returns the callers that pull.
    pub(crate) fn pulls(&self) -> Arc<Pulls> {
        Arc::clone(&self.parts.pulls)
    }

    /// Returns the runtime settings, to read them again.
    pub(crate) fn orders(&self) -> Arc<SettingsReader> {
        Arc::clone(&self.orders)
    }

    /// Returns for each queue how many events wait in its ring, how many workers are active, and
    /// how many there may be.
    pub(crate) fn load(&self) -> impl Iterator<Item = (&QueueName, usize, usize, usize)> {
        self.parts.consumers.iter().map(|(queue, served)| {
            let (queued, active) = served.consumer.load();
            (queue, queued, active, served.consumer.workers())
        })
    }
}
