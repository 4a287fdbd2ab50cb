//! The consumers of this process, and how many of their handlers may run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::core::step::Input;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, QueueName};
use crate::flow::consumers::consumer::Consumer;
use crate::flow::node::inbox::Inbox;
use crate::flow::options::QueueOptions;
use crate::flow::runtime_settings::RuntimeSettings;
use crate::panics;

/// How much longer than their timeout handlers may block their runtime: they were started a moment
/// before that was seen.
const GRACE: Duration = Duration::from_secs(1);

/// The consumers of a process, run as its options and the runtime settings say.
pub(crate) struct Consumers {
    consumers: BTreeMap<QueueName, ConsumerEntry>,
    controls: Arc<RuntimeSettings>,
    inbox: Arc<Inbox>,
    /// Since when all threads of the program's runtime are blocked.
    blocked_since: Mutex<Option<Instant>>,
}

/// One queue.
pub(crate) struct ConsumerEntry {
    pub(crate) consumer: Arc<dyn Consumer>,
    /// The handler's type.
    pub(crate) handler: &'static str,
    /// Its index in the node.
    pub(crate) place: usize,
    options: Arc<QueueOptions>,
    /// Locked during a change, so that the later of two changes wins.
    course: Mutex<ConsumerState>,
}

/// How a queue runs now.
#[derive(Debug)]
struct ConsumerState {
    /// The number of workers that this process has set.
    chosen: usize,
    /// What the consumer and the node were last set to.
    applied: Option<AppliedSettings>,
    /// How many workers were last reported as held by handlers that run on after their timeout.
    stuck: usize,
    /// Whether the node was told that its handlers are over, as their runtime is blocked.
    is_halted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct AppliedSettings {
    workers: usize,
    capacity: usize,
    rate: Option<f64>,
}

impl ConsumerEntry {
    pub(crate) fn new(
        consumer: Arc<dyn Consumer>,
        handler: &'static str,
        place: usize,
        options: Arc<QueueOptions>,
    ) -> Self {
        let chosen = options.workers;
        Self {
            consumer,
            handler,
            place,
            options,
            course: Mutex::new(ConsumerState {
                chosen,
                applied: None,
                stuck: 0,
                is_halted: false,
            }),
        }
    }

    /// Returns how long its leases are kept while the program's runtime is blocked; `None` if its
    /// handlers are not on that.
    pub(crate) fn kept_while_blocked(&self) -> Option<Duration> {
        let timeout = self.options.timeout;
        (!self.options.dedicated).then(|| timeout.saturating_add(GRACE))
    }
}

impl Consumers {
    pub(crate) fn new(
        consumers: BTreeMap<QueueName, ConsumerEntry>,
        controls: Arc<RuntimeSettings>,
        inbox: Arc<Inbox>,
    ) -> Self {
        Self {
            consumers,
            controls,
            inbox,
            blocked_since: Mutex::default(),
        }
    }

    pub(crate) fn get(&self, queue: &QueueName) -> Option<&ConsumerEntry> {
        self.consumers.get(queue)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&QueueName, &ConsumerEntry)> {
        self.consumers.iter()
    }

    /// Returns the names of all queues.
    pub(crate) fn queues(&self) -> Arc<[QueueName]> {
        self.consumers.keys().cloned().collect()
    }

    /// Sets how many handlers of `queue` this process runs at once. A number set for every node
    /// takes precedence.
    pub(crate) fn set_workers(&self, queue: &QueueName, workers: usize) -> Result<()> {
        let Some(served) = self.consumers.get(queue) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("queue {queue} has no handler in this process"),
            ));
        };
        self.steer(queue, served, Some(workers));
        Ok(())
    }

    /// Applies the current runtime settings, and serves the buckets that new events go to.
    pub(crate) fn follow(&self) {
        for (queue, served) in &self.consumers {
            self.steer(queue, served, None);
            let control = self.controls.of(queue);
            let buckets = served.options.buckets.max(control.buckets.unwrap_or(0));
            for bucket in (0..buckets).map(BucketId) {
                let key = BucketKey::new(queue.clone(), bucket);
                self.inbox.serve(served.place, key);
            }
        }
    }

    /// Serves those of the listed buckets whose queues this process consumes.
    pub(crate) fn serve(&self, listed: &[BucketKey]) {
        for key in listed {
            if let Some(served) = self.consumers.get(&key.queue) {
                self.inbox.serve(served.place, key.clone());
            }
        }
    }

    /// Stops fetching for queues whose workers are all held by blocking handlers that run on after
    /// their timeout, and releases what waits there. Returns whether there is such a queue.
    pub(crate) fn follow_stuck(&self) -> bool {
        let blocking = self
            .consumers
            .iter()
            .filter(|(_, served)| served.consumer.blocks());
        blocking.fold(false, |any, (queue, served)| {
            self.steer(queue, served, None) || any
        })
    }

    /// Does the same for every queue of the program's runtime while all of its threads are blocked.
    /// Handlers that block beyond their timeout are over, whatever they return: then their queue's
    /// leases are left to other nodes. Returns when that is so for the next queue.
    pub(crate) fn follow_blocked(&self, since: Option<Instant>) -> Option<Instant> {
        *self.blocked_since.lock() = since;
        for (queue, served) in &self.consumers {
            self.steer(queue, served, None);
        }
        let since = since?;
        let kept = self
            .consumers
            .values()
            .filter_map(|it| it.kept_while_blocked());
        let elapsed = since.elapsed();
        kept.filter(|kept| *kept > elapsed)
            .min()
            .map(|kept| since + kept)
    }

    /// Returns the queue of the pool with this number.
    pub(crate) fn of_pool(&self, pool: u32) -> Option<(&QueueName, &ConsumerEntry)> {
        let mut consumers = self.consumers.iter();
        consumers.find(|(_, served)| served.consumer.pool() == pool)
    }

    /// Returns how long the leases of some queue are kept at least while the program's runtime is
    /// blocked.
    pub(crate) fn kept_while_blocked(&self) -> Duration {
        let kept = self
            .consumers
            .values()
            .filter_map(|it| it.kept_while_blocked());
        kept.min().unwrap_or_default()
    }

    /// Applies options and settings to a queue; returns whether all of its workers are stuck.
    fn steer(&self, queue: &QueueName, served: &ConsumerEntry, chosen: Option<usize>) -> bool {
        let mut course = served.course.lock();
        course.chosen = chosen.unwrap_or(course.chosen);
        let control = self.controls.in_force(queue);
        let workers = if control.paused {
            0
        } else {
            control.workers.map_or(course.chosen, usize::from)
        };
        let stuck = served.consumer.stuck();
        let kept = served.kept_while_blocked();
        let blocked_since = self.blocked_since.lock().filter(|_| kept.is_some());
        let is_blocked = blocked_since.is_some();
        let is_halted = blocked_since
            .zip(kept)
            .is_some_and(|(since, kept)| since.elapsed() >= kept);
        let is_stuck = workers > 0 && (stuck >= workers || is_blocked);
        let capacity = match (workers, control.rate) {
            (0, _) => 0,
            // Leave the events to other nodes: this process has no free thread.
            _ if is_stuck => 0,
            // Under a rate limit, what is published has to start at once, or it would start later
            // and all together.
            (_, Some(_)) => served.options.ring.min(workers),
            (_, None) => served.options.ring,
        };
        let terms = AppliedSettings {
            workers,
            capacity,
            rate: control.rate,
        };
        if course.stuck != stuck {
            let before = course.stuck;
            say_stuck(queue, before, stuck, workers);
            course.stuck = stuck;
        }
        if course.applied != Some(terms) {
            if course
                .applied
                .is_none_or(|applied| applied.workers != workers)
            {
                served.consumer.set_workers(workers);
            }
            course.applied = Some(terms);
            let queue = served.place;
            let rate = terms.rate;
            self.inbox.add(Input::Rated { queue, rate });
            self.inbox.add(Input::Resized {
                queue,
                capacity,
                workers,
            });
        }
        if is_stuck {
            served.consumer.withdraw();
        }
        if course.is_halted != is_halted {
            course.is_halted = is_halted;
            say_halted(queue, is_halted);
            let queue = served.place;
            self.inbox.add(Input::Halted { queue, is_halted });
        }
        is_stuck
    }
}

fn say_halted(queue: &QueueName, is_halted: bool) {
    if is_halted {
        panics::reported(|| {
            tracing::error!(
                %queue,
                "runtime blocked for longer than a handler of the queue may run; its leases are \
                 left to other nodes"
            );
        });
    } else {
        panics::reported(|| {
            tracing::info!(%queue, "runtime runs tasks again; events of the queue are leased again");
        });
    }
}

/// Logs that blocking handlers hold workers after their timeout: the first one, the last free
/// worker, and when all are free again.
fn say_stuck(queue: &QueueName, before: usize, stuck: usize, workers: usize) {
    let all = |stuck: usize| workers > 0 && stuck >= workers;
    if all(stuck) && !all(before) {
        panics::reported(|| {
            tracing::error!(
                %queue, stuck, workers,
                "all workers held by blocking handlers that run on after their timeout"
            );
        });
    } else if before == 0 {
        panics::reported(|| {
            tracing::warn!(
                %queue, stuck, workers,
                "blocking handler runs on after its timeout and holds its worker"
            );
        });
    } else if stuck == 0 {
        panics::reported(|| {
            tracing::info!(%queue, workers, "no worker held by a blocking handler any more");
        });
    }
}
