//! The namespaces whose schedules a bus carries out: each that has any has a worker.
//!
//! A worker whose namespace has no schedule any more ends, and the namespace rests: it has a worker
//! again when the store tells of a schedule in it. As such a word may be lost, it is looked at as well,
//! now and then. So a name that was used once costs nothing lasting.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::bus::fan_out::{as_they_come_past_slow, operator_call};
use crate::bus::inner::Inner;
use crate::bus::schedules::links::count;
use crate::bus::schedules::worker::{PAUSES, Served, Worker};
use crate::error::{ErrorKind, Result};
use crate::event::{BucketKey, QueueName, has_schedules};
use crate::metrics::ScheduleMeters;
use crate::outage::Outage;
use crate::store::Watcher;

/// How often a store is asked whether it has schedules of another namespace by now.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// In so many buckets each time, at most.
const BUCKETS_AT_ONCE: usize = 1_000;
/// A namespace that rests is not looked at again for so many times: longer than a store keeps a bucket
/// that nobody uses.
const RESTS_FOR: u32 = 12;

/// Starts the workers, also those of namespaces that have schedules later; they end with the bus.
pub(super) fn start(inner: &Arc<Inner>) {
    let (woken, queues) = unbounded_channel();
    let served = Arc::default();
    let wakes = Arc::new(Wakes {
        served: Arc::clone(&served),
        woken,
    });
    let watcher: Weak<Wakes> = Arc::downgrade(&wakes);
    let outage = Outage::of("the list of schedules");
    if let Err(error) = inner.store.watch(watcher) {
        outage.failed((), &error); // they are found later
    }
    let watch = Watch {
        inner: Arc::downgrade(inner),
        served,
        resting: Resting::default(),
        meters: ScheduleMeters::new(), // they are told before there is a schedule
        outage,
    };
    inner.runtime.spawn(watch.run(wakes, queues));
}

/// Passes on queues without a worker that have a schedule.
struct Wakes {
    served: Arc<Served>,
    woken: UnboundedSender<QueueName>,
}

impl Watcher for Wakes {
    fn earlier(&self, bucket: &BucketKey) {
        let queue = &bucket.queue;
        if has_schedules(queue) && !self.served.lock().contains(queue) {
            let _ = self.woken.send(queue.clone()); // the bus has ended
        }
    }

    fn called(&self, bucket: &BucketKey) {
        self.earlier(bucket);
    }
}

struct Watch {
    inner: Weak<Inner>,
    served: Arc<Served>,
    resting: Resting,
    meters: ScheduleMeters,
    outage: Outage<()>,
}

impl Watch {
    /// Starts a worker for each queue of the store that has schedules. `woken`: those that the store
    /// tells of.
    async fn run(mut self, _wakes: Arc<Wakes>, mut woken: UnboundedReceiver<QueueName>) {
        let mut failures = 0;
        loop {
            let Some(inner) = self.inner.upgrade().filter(|inner| inner.open().is_ok()) else {
                return;
            };
            let pause = match self.look(&inner).await {
                Ok(is_all) => {
                    failures = 0;
                    self.outage.succeeded(&());
                    let pause = is_all.then(|| inner.real_pause(LIST_EVERY));
                    pause.unwrap_or_default()
                }
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    failures += 1;
                    self.outage.failed((), &error);
                    PAUSES.jittered(failures)
                }
            };
            drop(inner); // the bus may end meanwhile
            let starts = async {
                while let Some(queue) = woken.recv().await {
                    self.start(queue);
                }
            };
            let _ = tokio::time::timeout(pause, starts).await;
        }
    }

    fn start(&self, queue: QueueName) {
        if let Some(inner) = self.inner.upgrade() {
            Worker::start(&inner, queue, (&self.served, &self.meters));
        }
    }

    /// Looks for schedules in queues without a worker; returns whether all new ones were looked at.
    async fn look(&mut self, inner: &Arc<Inner>) -> Result<bool> {
        let known = inner.open()?.known_buckets().await?;
        let is_whole = known.away.is_none();
        let mut others: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for bucket in { known.buckets.into_iter() }.filter(|bucket| has_schedules(&bucket.queue)) {
            others.entry(bucket.queue.clone()).or_default().push(bucket);
        }
        {
            let served = self.served.lock();
            others.retain(|queue, _| !served.contains(queue));
        }
        let (turn, is_all) = self.resting.turn(others);
        let looks = turn.into_iter().map(|(queue, buckets)| async move {
            let count = operator_call(count(inner, &buckets)).await;
            // One that may have a schedule has a worker, which tries again and ends if it has none.
            (queue, is_whole && matches!(count, Ok(0)))
        });
        let mut looks = as_they_come_past_slow(looks);
        while let Some((queue, rests)) = looks.next().await {
            if rests {
                self.resting.queues.insert(queue, self.resting.turn);
            } else {
                self.start(queue);
            }
        }
        Ok(is_all)
    }
}

/// The queues that had no schedule when they were looked at.
#[derive(Default)]
struct Resting {
    /// Each with the turn in which that was.
    queues: BTreeMap<QueueName, u32>,
    turn: u32,
}

impl Resting {
    /// Returns those of the queues without a worker that are looked at now: new ones first, then those
    /// that have rested for longest; and whether all new ones are among them.
    fn turn(
        &mut self,
        others: BTreeMap<QueueName, Vec<BucketKey>>,
    ) -> (Vec<(QueueName, Vec<BucketKey>)>, bool) {
        self.turn = self.turn.wrapping_add(1);
        self.queues.retain(|queue, _| others.contains_key(queue));
        let rests_for = |queue: &QueueName| Some(self.turn.wrapping_sub(*self.queues.get(queue)?));
        let all = others.into_iter();
        let all = all.map(|(queue, buckets)| (rests_for(&queue), queue, buckets));
        let due = all.filter(|(rests_for, ..)| rests_for.is_none_or(|it| it >= RESTS_FOR));
        let mut due: Vec<_> = due.collect();
        due.sort_by_key(|(rests_for, ..)| Reverse(rests_for.unwrap_or(u32::MAX)));
        let (mut room, mut many) = (BUCKETS_AT_ONCE, 0);
        while let Some((_, _, buckets)) = due.get(many).filter(|_| room > 0) {
            room = room.saturating_sub(buckets.len());
            many += 1;
        }
        let left = due.split_off(many);
        let is_all = left.iter().all(|(rests_for, ..)| rests_for.is_some());
        let turn = due.into_iter().map(|(_, queue, buckets)| (queue, buckets));
        (turn.collect(), is_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::BucketId;

    fn queue(number: usize) -> QueueName {
        QueueName::new(&format!("n{number}.duly.schedules")).unwrap()
    }

    fn buckets(number: usize) -> Vec<BucketKey> {
        let many = u16::try_from(number % 8 + 1).unwrap();
        let of = |bucket| BucketKey::new(queue(number), BucketId(bucket));
        (0..many).map(of).collect()
    }

    /// Namespaces without schedules, some of which are new at each turn.
    #[test]
    fn each_queue_has_its_turn_however_many_rest_and_a_new_one_at_once() {
        for (many, new) in [(0, 1), (1, 0), (3, 2), (300, 100), (2_900, 5)] {
            let (mut resting, mut looks) = (Resting::default(), BTreeMap::<_, Vec<_>>::new());
            let mut all: BTreeMap<_, _> = (0..many).map(|it| (queue(it), buckets(it))).collect();
            for turn in 0..60 {
                let (looked_at, is_all) = resting.turn(all.clone());
                let of: usize = looked_at.iter().map(|(_, buckets)| buckets.len()).sum();
                assert!(of < BUCKETS_AT_ONCE + 8, "{of} buckets");
                for (queue, _) in looked_at {
                    resting.queues.insert(queue.clone(), resting.turn);
                    looks.entry(queue).or_default().push(turn);
                }
                assert_eq!(is_all, resting.queues.len() == all.len(), "{many}, {turn}");
                if turn < 10 {
                    let from = many + turn * new;
                    all.extend((from..from + new).map(|it| (queue(it), buckets(it))));
                }
            }
            let buckets: usize = all.values().map(Vec::len).sum();
            let longest = (buckets / BUCKETS_AT_ONCE + 2).max(RESTS_FOR as usize);
            for queue in all.keys() {
                let looks = &looks[queue];
                for pair in looks.windows(2) {
                    let rested = pair[1] - pair[0];
                    assert!(
                        (RESTS_FOR as usize..=longest).contains(&rested),
                        "{many}: {looks:?}"
                    );
                }
                assert!(looks.last().unwrap() + longest >= 60, "{many}: {looks:?}");
            }
        }
    }
}
