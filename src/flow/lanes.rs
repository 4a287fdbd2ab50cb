//! The queues that this process consumes, and how many of their handlers may start.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::core::step::Input;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, QueueName};
use crate::flow::controls::Controls;
use crate::flow::inbox::Inbox;
use crate::flow::lane::Lane;
use crate::flow::options::QueueOptions;

/// The lanes of a process, each as its own choices and what is set for every node have it.
pub(crate) struct Lanes {
    lanes: BTreeMap<QueueName, Served>,
    controls: Arc<Controls>,
    inbox: Arc<Inbox>,
}

/// One queue.
pub(crate) struct Served {
    pub(crate) lane: Arc<dyn Lane>,
    /// Its place in the node.
    place: usize,
    options: Arc<QueueOptions>,
    /// Locked while something of it changes, so that of two changes the later one stays.
    course: Mutex<Course>,
}

/// How a queue is run now.
#[derive(Debug)]
struct Course {
    /// How many handlers this process has chosen to run at once.
    chosen: usize,
    /// What the lane and the node were told last.
    told: Option<Terms>,
    /// How many workers were held, when that was said last, by handlers that run on after their
    /// timeout.
    stuck: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    workers: usize,
    capacity: usize,
    rate: Option<f64>,
}

impl Served {
    pub(crate) fn new(lane: Arc<dyn Lane>, place: usize, options: Arc<QueueOptions>) -> Self {
        let chosen = options.workers;
        Self {
            lane,
            place,
            options,
            course: Mutex::new(Course {
                chosen,
                told: None,
                stuck: 0,
            }),
        }
    }
}

impl Lanes {
    pub(crate) fn new(
        lanes: BTreeMap<QueueName, Served>,
        controls: Arc<Controls>,
        inbox: Arc<Inbox>,
    ) -> Self {
        Self {
            lanes,
            controls,
            inbox,
        }
    }

    pub(crate) fn get(&self, queue: &QueueName) -> Option<&Served> {
        self.lanes.get(queue)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&QueueName, &Served)> {
        self.lanes.iter()
    }

    /// The names of all of them.
    pub(crate) fn queues(&self) -> Arc<[QueueName]> {
        self.lanes.keys().cloned().collect()
    }

    /// Lets this process run so many handlers of `queue` at once, unless another number is set for
    /// every node.
    pub(crate) fn set_workers(&self, queue: &QueueName, workers: usize) -> Result<()> {
        let Some(served) = self.lanes.get(queue) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("queue {queue} has no handler in this process"),
            ));
        };
        self.steer(queue, served, Some(workers));
        Ok(())
    }

    /// Does as the controls say now, and serves the buckets that new events go to.
    pub(crate) fn follow(&self) {
        for (queue, served) in &self.lanes {
            self.steer(queue, served, None);
            let control = self.controls.of(queue);
            let buckets = served.options.buckets.max(control.buckets.unwrap_or(0));
            for bucket in (0..buckets).map(BucketId) {
                let key = BucketKey::new(queue.clone(), bucket);
                self.inbox.serve(served.place, key);
            }
        }
    }

    /// Serves these buckets as well, where they are of queues that this process consumes.
    pub(crate) fn serve(&self, listed: &[BucketKey]) {
        for key in listed {
            if let Some(served) = self.lanes.get(&key.queue) {
                self.inbox.serve(served.place, key.clone());
            }
        }
    }

    /// Fetches nothing for a queue whose workers are all held by blocking handlers that run on
    /// after their timeout, and hands back what waits for one; answers whether there is such a
    /// queue.
    pub(crate) fn follow_stuck(&self) -> bool {
        let blocking = self.lanes.iter().filter(|(_, served)| served.lane.blocks());
        blocking.fold(false, |any, (queue, served)| {
            self.steer(queue, served, None) || any
        })
    }

    /// Runs a queue as it has to be run now; answers whether all of its workers are stuck.
    fn steer(&self, queue: &QueueName, served: &Served, chosen: Option<usize>) -> bool {
        let mut course = served.course.lock().unwrap_or_else(PoisonError::into_inner);
        course.chosen = chosen.unwrap_or(course.chosen);
        let control = self.controls.of(queue);
        let workers = match control.paused {
            true => 0,
            false => control.workers.map_or(course.chosen, usize::from),
        };
        let stuck = served.lane.stuck();
        let is_stuck = workers > 0 && stuck >= workers;
        let capacity = match (workers, control.rate) {
            (0, _) => 0,
            // Others may start what this process has no thread for.
            _ if is_stuck => 0,
            // What is published has to start at once, or it would start later and all together.
            (_, Some(_)) => served.options.ring.min(workers),
            (_, None) => served.options.ring,
        };
        let terms = Terms {
            workers,
            capacity,
            rate: control.rate,
        };
        if course.stuck != stuck {
            say_stuck(queue, course.stuck, stuck, workers);
            course.stuck = stuck;
        }
        if course.told != Some(terms) {
            // Not for the other terms: a lane that was stopped has none, and keeps none.
            if course.told.is_none_or(|told| told.workers != workers) {
                served.lane.set_workers(workers);
            }
            course.told = Some(terms);
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
            served.lane.withdraw();
        }
        is_stuck
    }
}

/// Says that blocking handlers keep their workers after their timeout: the first one, the last free
/// worker, and when all are free again.
fn say_stuck(queue: &QueueName, before: usize, stuck: usize, workers: usize) {
    let all = |stuck: usize| workers > 0 && stuck >= workers;
    if all(stuck) && !all(before) {
        tracing::error!(
            %queue, stuck, workers,
            "all workers held by blocking handlers that run on after their timeout"
        );
    } else if before == 0 {
        tracing::warn!(
            %queue, stuck, workers,
            "blocking handler runs on after its timeout and holds its worker"
        );
    } else if stuck == 0 {
        tracing::info!(%queue, workers, "no worker held by a blocking handler any more");
    }
}
