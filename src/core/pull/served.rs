//! The queues that are served: new ones, and room for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::core::pull::bucket::PulledBucket;
use crate::core::pull::queue::PulledQueue;
use crate::core::pull::{FORGOTTEN_AT_ONCE, PULLED_QUEUES_MAX, Puller};
use crate::event::{BucketKey, QueueName};
use crate::time::Mono;

impl<B: Clone> Puller<B> {
    /// Serves a queue, and adds buckets to it.
    pub(super) fn serve(&mut self, now: Mono, name: QueueName, buckets: Vec<BucketKey>) {
        let queue = match self.queue_of.get(&name) {
            Some(known) => *known,
            None => {
                if self.queues.len() >= PULLED_QUEUES_MAX {
                    // Those that the caller has just asked for are younger than that.
                    self.forget_idle(now, Duration::from_nanos(1));
                }
                if self.queues.len() >= PULLED_QUEUES_MAX {
                    self.forget_idlest(now, FORGOTTEN_AT_ONCE);
                }
                if self.queues.len() >= PULLED_QUEUES_MAX {
                    return; // somebody waits for each of them: its callers are refused
                }
                let queue = self.index();
                self.queue_of.insert(name.clone(), queue);
                self.queues.insert(queue, PulledQueue::new(name, now));
                queue
            }
        };
        for key in buckets {
            if self.bucket_of.contains_key(&key) {
                continue;
            }
            let at = self.index();
            self.bucket_of.insert(key.clone(), at);
            self.buckets.insert(at, PulledBucket::new(key, queue, now));
            if let Some(queue) = self.queues.get_mut(&queue) {
                queue.buckets.push(at);
            }
            self.touched.insert(at);
        }
    }

    /// Returns the queues of which nothing may be leased now, each with when more may be: at no time
    /// while it is paused.
    pub(crate) fn held(&self, now: Mono) -> BTreeMap<QueueName, Option<Mono>> {
        let held = self.queues.values().filter(|queue| queue.allows(now) == 0);
        held.map(|queue| (queue.name.clone(), queue.wakes()))
            .collect()
    }

    /// Forgets queues that nobody has pulled from for so long, and in which nothing is left to do. One
    /// whose rate holds it back stays, or its next start would come at once.
    pub(super) fn forget_idle(&mut self, now: Mono, idle_for: Duration) {
        let is_over =
            |bucket: &PulledBucket| bucket.next_deadline.is_none() && bucket.lost.is_none();
        let unused = self.unused(is_over);
        let idle = unused.filter(|(used_at, _)| now.since(*used_at) >= idle_for);
        let is_held = |at: &usize| self.queues.get(at).is_some_and(|it| it.is_held(now));
        let idle = idle.map(|(_, at)| at).filter(|at| !is_held(at));
        let idle: Vec<usize> = idle.collect();
        self.forget(idle);
    }

    /// Forgets the queues that nobody has pulled from for longest, some of which may have leases, or
    /// be held back by their rate: leases are reaped when somebody pulls from their queue again.
    fn forget_idlest(&mut self, now: Mono, many: usize) {
        let unused = self.unused(|_| true);
        // Those that the caller has just asked for stay.
        let mut unused: Vec<(Mono, usize)> = unused.filter(|(used_at, _)| *used_at < now).collect();
        unused.sort_unstable();
        let idlest: Vec<usize> = unused.into_iter().take(many).map(|(_, at)| at).collect();
        self.forget(idlest);
    }

    /// Returns the queues that nobody pulls from and in which nothing is on its way, all of whose
    /// buckets pass a test, each with its last use.
    fn unused(&self, test: impl Fn(&PulledBucket) -> bool) -> impl Iterator<Item = (Mono, usize)> {
        let in_use: BTreeSet<usize> = self.calls.values().map(|call| call.bucket).collect();
        let is_idle = move |at: &usize| {
            let bucket = self.buckets.get(at);
            bucket.is_none_or(|it| it.returned.is_empty() && !in_use.contains(at) && test(it))
        };
        self.queues
            .iter()
            .filter(move |(_, queue)| queue.users == 0 && queue.buckets.iter().all(&is_idle))
            .map(|(at, queue)| (queue.used_at, *at))
    }

    fn forget(&mut self, queues: Vec<usize>) {
        for at in queues {
            let Some(queue) = self.queues.remove(&at) else {
                continue;
            };
            self.queue_of.remove(&queue.name);
            self.queue_timers.remove(&(queue.timer, at));
            for at in queue.buckets {
                if let Some(bucket) = self.buckets.remove(&at) {
                    self.bucket_of.remove(&bucket.key);
                    self.timers.remove(&(bucket.timer, at));
                    self.scanned.remove(&at);
                }
            }
        }
    }
}
