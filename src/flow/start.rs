//! Start and stop of the flow of events through this process.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::codec::KeyRing;
use crate::core::node::Node;
use crate::core::options::NodeOptions;
use crate::core::pull::PullOptions;
use crate::core::step::Input;
use crate::error::{Error, Result};
use crate::event::{BucketKey, QueueName};
use crate::flow::consumers::consumer::ValuePublisher;
use crate::flow::consumers::gauges::GaugeUpdater;
use crate::flow::consumers::registry::{ConsumerDeps, Entry};
use crate::flow::consumers::set::{ConsumerEntry, Consumers};
use crate::flow::consumers::stuck;
use crate::flow::handlers::deps::ExecutorDeps;
use crate::flow::handlers::replies::Replies;
use crate::flow::log_limiter::LogLimiter;
use crate::flow::membership::clock_watch;
use crate::flow::membership::depth_sampler::DepthSampler;
use crate::flow::membership::poll::{MembershipPoll, SettingsReader};
use crate::flow::mover::Mover;
use crate::flow::node::inbox::Inbox;
use crate::flow::node::lease_fences::LeaseFences;
use crate::flow::options::QueueOptions;
use crate::flow::pool::deadlines::DeadlineTable;
use crate::flow::pull::Pulls;
use crate::flow::runtime_settings::RuntimeSettings;
use crate::handler::{HandlerEnv, States};
use crate::metrics::{AttemptMetrics, MoverCounters, QueueLabels, SampleInterval};
use crate::outage::Outage;
use crate::record::NodeId;
use crate::store::{MemberInfo, Store, Watcher};
use crate::time::Clock;

/// How long handlers have after their stop signal before they are cut.
const LAST_WORDS: Duration = Duration::from_millis(50);

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
    consumers: Arc<Consumers>,
    orders: Arc<SettingsReader>,
    inbox: Arc<Inbox>,
    /// The callers that pull.
    pulls: Arc<Pulls>,
    /// The buckets that the store does not serve.
    outage: Arc<Outage<usize>>,
    /// `None` where the store has only one node.
    membership: Option<Arc<MembershipPoll>>,
    /// Cancelled when the node has stopped.
    stopped: CancellationToken,
    /// Cancelled to end the mover and the depth sampler at once.
    abandoned: CancellationToken,
    /// The depth sampler; it runs until the flow is abandoned.
    depth_sampler: Option<JoinHandle<()>>,
    /// Cancelled to stop handlers.
    stop: CancellationToken,
    /// The callers that wait for a handler's reply.
    replies: Arc<Replies>,
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
        let board = DeadlineTable::new(runtime.clone());
        let inbox = Arc::new(Inbox::default());
        let stop = CancellationToken::new();

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
            pulls,
        );
        let pulls = Arc::new(pulls);
        let mut node = Node::new(id, options);
        let gates = Arc::new(LeaseFences::default());
        let mut places = HashMap::new();
        for (queue, options, _) in &handlers {
            let place = node.add_queue(queue.clone(), options.ring, options.workers);
            places.insert(queue.clone(), place);
        }
        inbox.consumes(places);
        let gauges = GaugeUpdater::at(handlers.iter().map(|(queue, ..)| queue), &labels);
        let mut moves = Vec::new();
        let stuck = Arc::<Notify>::default();

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
                    stop: stop.clone(),
                }),
                store: Arc::clone(&store),
                clock: Arc::clone(&clock),
                inbox: Arc::clone(&inbox),
                gates: Arc::clone(&gates),
                replies: Arc::clone(&replies),
                keys: keys.clone(),
                runs: Arc::new(AttemptMetrics::new(&label)),
                stuck: Arc::clone(&stuck),
                blocked: Arc::<LogLimiter>::default(),
                burning: Arc::default(),
            };
            let parts = ConsumerDeps {
                deps,
                runtime: runtime.clone(),
                board: Arc::clone(&board),
                virtual_time,
            };
            let consumer = (entry.install)(parts)?;
            in_order.push(Arc::clone(&consumer));
            consumers.insert(queue, ConsumerEntry::new(consumer, place, options));
        }
        let consumers = Consumers::new(consumers, Arc::clone(&controls), Arc::clone(&inbox));
        let consumers = Arc::new(consumers);
        let orders = Arc::new(SettingsReader {
            store: Arc::clone(&store),
            controls,
            consumers: Arc::clone(&consumers),
            pulls: Arc::clone(&pulls),
        });

        store.watch(Arc::clone(&inbox) as Arc<dyn Watcher>);
        // Before the mover begins, so that nothing is fetched against the settings.
        orders.read_at_start().await?;
        let membership = if store.is_shared() {
            let me = MemberInfo {
                node: id,
                queues: consumers.queues(),
                leaves: false,
            };
            let membership = Arc::new(MembershipPoll::new(
                Arc::clone(&orders),
                Arc::clone(&inbox),
                me,
            ));
            // A node starts even if the store is full, and drains it.
            Arc::clone(&membership).poll_in_background().await;
            Some(membership)
        } else {
            None
        };
        let (stopped, abandoned) = (CancellationToken::new(), CancellationToken::new());
        if consumers.iter().any(|(_, served)| served.consumer.blocks()) {
            runtime.spawn(stuck::follow(
                Arc::clone(&consumers),
                stuck,
                abandoned.clone(),
            ));
        }
        if !virtual_time {
            let (store, clock) = (Arc::clone(&store), Arc::clone(&clock));
            runtime.spawn(clock_watch::watch(store, clock, abandoned.clone()));
        }
        let depth_sampler = depth_sampler.map(|pace| {
            let depth_sampler = DepthSampler {
                id,
                store: Arc::clone(&store),
                clock: Arc::clone(&clock),
                labels,
                inbox: Arc::clone(&inbox),
                queues: consumers.queues(),
                membership: membership.clone(),
                pace,
                stop: abandoned.clone(),
            };
            runtime.spawn(depth_sampler.run())
        });
        let outage = Arc::new(Outage::of("operations on buckets"));
        let mover = Mover {
            outage: Arc::clone(&outage),
            node,
            store,
            clock,
            consumers: in_order,
            inputs: Vec::new(),
            actions: Vec::new(),
            gates,
            moves,
            gauges,
            refused: LogLimiter::default(),
            inbox: Arc::clone(&inbox),
            membership: membership.clone(),
            member_lost,
            runtime,
            stopped: stopped.clone(),
            abandoned: abandoned.clone(),
        };
        if virtual_time {
            mover.spawn_task();
        } else {
            mover.spawn_thread()?;
        }
        Ok(Self {
            consumers,
            orders,
            inbox,
            pulls,
            outage,
            membership,
            stopped,
            abandoned,
            depth_sampler,
            stop,
            replies,
        })
    }

    /// Returns the port for values of type `T` into the ring of `queue`, if this process consumes
    /// it.
    pub(crate) fn port<T: 'static>(&self, queue: &QueueName) -> Option<Arc<dyn ValuePublisher<T>>> {
        let port: Box<dyn Any> = Arc::clone(&self.consumers.get(queue)?.consumer).port();
        port.downcast().ok().map(|port| *port)
    }

    /// Returns why the store does not serve a bucket to this node, if so.
    pub(crate) fn why_not_served(&self, bucket: &BucketKey) -> Option<Error> {
        let (kind, words) = self.outage.why(&self.inbox.place(bucket)?)?;
        Some(Error::new(kind, words))
    }

    /// Returns whether this process has a handler for `queue`.
    pub(crate) fn serves(&self, queue: &QueueName) -> bool {
        self.consumers.get(queue).is_some()
    }

    /// Returns whether a node that shares the store has a handler for `queue`, by the last poll.
    pub(crate) fn is_consumed(&self, queue: &QueueName) -> bool {
        let membership = self.membership.as_ref();
        membership.is_some_and(|membership| membership.is_consumed(queue))
    }

    /// Returns whether a handler runs that blocks its thread.
    #[cfg(feature = "testing")]
    pub(crate) fn is_blocking(&self) -> bool {
        let mut consumers = self.consumers.iter().map(|(_, served)| &served.consumer);
        consumers.any(|consumer| consumer.blocks() && consumer.load().1 > 0)
    }

    /// Sets how many handlers of `queue` may run at once; 0 pauses it.
    pub(crate) fn set_workers(&self, queue: &QueueName, workers: usize) -> Result<()> {
        self.consumers.set_workers(queue, workers)
    }

    /// Returns the callers that pull.
    pub(crate) fn pulls(&self) -> Arc<Pulls> {
        Arc::clone(&self.pulls)
    }

    /// Returns the runtime settings, to read them again.
    pub(crate) fn orders(&self) -> Arc<SettingsReader> {
        Arc::clone(&self.orders)
    }

    /// Returns for each queue how many events wait in its ring, how many workers are active, and
    /// how many there may be.
    pub(crate) fn load(&self) -> impl Iterator<Item = (&QueueName, usize, usize, usize)> {
        self.consumers.iter().map(|(queue, served)| {
            let (queued, active) = served.consumer.load();
            (queue, queued, active, served.consumer.workers())
        })
    }

    /// Stops fetching, lets handlers finish within `grace`, releases what never started and settles
    /// everything that ended. Returns whether all of that was done in time.
    pub(crate) async fn stop(mut self, grace: Duration) -> bool {
        self.inbox.add(Input::Stop);
        self.pulls.stop(SETTLE_MIN).await;
        let stops: Vec<_> = self
            .consumers
            .iter()
            .map(|(_, served)| Arc::clone(&served.consumer).stop())
            .collect();
        let mut finished = futures_util::future::join_all(stops);
        if tokio::time::timeout(grace, &mut finished).await.is_err() {
            self.stop.cancel();
            if tokio::time::timeout(LAST_WORDS, &mut finished)
                .await
                .is_err()
            {
                for (_, served) in self.consumers.iter() {
                    served.consumer.cut();
                }
                // Suspended handlers are gone now; those that block their thread are not awaited.
                let _ = tokio::time::timeout(LAST_WORDS, finished).await;
            }
        }
        let settled = tokio::time::timeout(grace.max(SETTLE_MIN), self.stopped.cancelled()).await;
        // A node that has not settled everything may hold leases, and must not leave.
        if settled.is_ok()
            && let Some(membership) = self.membership.take()
        {
            membership.leave().await;
        }
        if let Some(depth_sampler) = self.depth_sampler.take() {
            self.abandoned.cancel();
            let _ = depth_sampler.await; // no gauges of this node after its stop
        }
        settled.is_ok()
    }
}

/// The least time for outcomes to reach the store, however short the grace.
const SETTLE_MIN: Duration = Duration::from_secs(2);

/// A dropped flow ends at once and waits for nothing; the leases expire.
impl Drop for Flow {
    fn drop(&mut self) {
        self.stop.cancel();
        self.abandoned.cancel();
        self.pulls.abandon();
        self.inbox.add(Input::Stop); // wakes the mover, so that it sees that it is abandoned
        for (_, served) in self.consumers.iter() {
            served.consumer.set_workers(0); // or cut jobs make room for waiting ones
            served.consumer.cut();
        }
        self.replies.give_up();
    }
}
