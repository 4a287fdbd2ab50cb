//! A pool's job queue: the consumer side of its ring, and the publishers that wait for room.

use std::collections::VecDeque;
use std::pin::pin;

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::ring::{RingConsumer, RingProducer};
use super::waiters::Waiters;

/// The published jobs that no worker has taken: in the ring, and in the stash that the ring is
/// drained into.
///
/// Draining frees the ring, not the end of a job, so a slow job never blocks the ring's other
/// slots. Ring and stash together hold at most twice the ring's capacity, plus the few jobs that
/// workers have given back.
pub struct JobQueue<J> {
    inner: CachePadded<Mutex<Inner<J>>>,
    room: RingSpace,
}

struct Inner<J> {
    consumer: RingConsumer<J>,
    stash: VecDeque<J>,
    /// The ring was filled with empty values and is never drained again.
    sealed: bool,
}

impl<J: Send + Sync + 'static> JobQueue<J> {
    /// An empty one.
    pub fn new(consumer: RingConsumer<J>) -> Self {
        let inner = Inner {
            consumer,
            stash: VecDeque::new(),
            sealed: false,
        };
        Self {
            inner: CachePadded::new(Mutex::new(inner)),
            room: RingSpace::default(),
        }
    }

    /// Moves up to `most` jobs to the back of `local`, oldest first. Returns whether it leaves any
    /// for which no other worker will be woken.
    ///
    /// Right after the ring was drained those are the stash alone: a later publisher wakes a worker
    /// itself. Not checking the ring again spares its publishers' cache lines.
    #[inline]
    pub fn take(&self, local: &mut VecDeque<J>, most: usize) -> bool {
        let mut inner = self.lock();
        let drained = inner.stash.is_empty() && inner.drain_ring();
        if most == 1 {
            local.extend(inner.stash.pop_front());
        } else {
            let count = most.min(inner.stash.len());
            local.extend(inner.stash.drain(..count));
        }
        let more = if drained {
            !inner.stash.is_empty()
        } else {
            inner.has_work()
        };
        drop(inner);
        if drained {
            self.room.freed();
        }
        more
    }

    /// Puts jobs that were taken but not begun back to the front, in order.
    pub(super) fn give_back(&self, local: &mut VecDeque<J>) {
        let mut inner = self.lock();
        while let Some(job) = local.pop_back() {
            inner.stash.push_front(job);
        }
    }

    /// Removes and returns every waiting job that is `wanted`, oldest first.
    pub(super) fn withdraw(&self, wanted: impl Fn(&J) -> bool) -> Vec<J> {
        let mut inner = self.lock();
        let drained = inner.drain_ring();
        let (taken, left): (Vec<J>, Vec<J>) = inner.stash.drain(..).partition(wanted);
        inner.stash.extend(left);
        drop(inner);
        if drained {
            self.room.freed();
        }
        taken
    }

    /// Returns whether [`take`](Self::take) would find a job.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.lock().has_work()
    }

    /// Returns how many jobs are published and not taken, including those being published now.
    pub(super) fn len(&self, seed: &Mutex<RingProducer<J>>) -> usize {
        self.lock().len(seed)
    }

    /// Returns whether there is no job and `nobody_works`, atomically: during the call no worker
    /// takes a job or gives one back.
    pub(super) fn is_idle(
        &self,
        seed: &Mutex<RingProducer<J>>,
        nobody_works: impl FnOnce() -> bool,
    ) -> bool {
        let inner = self.lock();
        inner.len(seed) == 0 && nobody_works()
    }

    /// Takes every job ever published and lets none in afterwards.
    ///
    /// A racing publisher is either in time, and its job is among those returned, or finds the ring
    /// full. The ring itself decides: the last entry is a batch of empty values as large as the
    /// ring, which fits only when no publisher is half-way.
    pub(super) fn seal(&self, seed: &Mutex<RingProducer<J>>) -> Vec<J> {
        let mut inner = self.lock();
        while !inner.sealed {
            inner.drain_ring();
            inner.sealed = lock(seed).try_fill();
            if !inner.sealed {
                // A publisher is between claiming a slot and publishing it: nanoseconds, unless its
                // thread was preempted just there.
                std::thread::yield_now();
            }
        }
        inner.stash.drain(..).collect()
    }

    /// Returns where publishers wait for room.
    #[inline]
    pub(super) fn room(&self) -> &RingSpace {
        &self.room
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Inner<J>> {
        lock(&self.inner)
    }
}

impl<J: Send + Sync + 'static> Inner<J> {
    #[inline]
    fn drain_ring(&mut self) -> bool {
        !self.sealed && self.consumer.drain_into(&mut self.stash)
    }

    fn len(&self, seed: &Mutex<RingProducer<J>>) -> usize {
        let in_ring = if self.sealed { 0 } else { lock(seed).len() };
        in_ring + self.stash.len()
    }

    #[inline]
    fn has_work(&mut self) -> bool {
        !self.stash.is_empty() || (!self.sealed && self.consumer.has_available())
    }
}

/// The publishers that wait until the ring has room.
#[derive(Default)]
pub(super) struct RingSpace {
    waiting: CachePadded<Waiters>,
    freed: Notify,
}

impl RingSpace {
    /// Calls `publish` whenever there may be room, until it returns a value.
    pub(super) async fn wait_until<T>(&self, mut publish: impl FnMut() -> Option<T>) -> T {
        let waiting = self.waiting.join();
        loop {
            let freed = self.freed.notified();
            let mut freed = pin!(freed);
            freed.as_mut().enable();
            waiting.before_trying();
            if let Some(done) = publish() {
                return done;
            }
            freed.await;
        }
    }

    /// Notifies waiters that slots were freed.
    #[inline]
    pub(super) fn freed(&self) {
        if self.waiting.waits() {
            self.freed.notify_waiters();
        }
    }

    /// Wakes all waiters, whatever the count: some will not wait any more.
    pub(super) fn all_look(&self) {
        self.freed.notify_waiters();
    }
}

/// Locks, ignoring poison: no panic under these locks leaves invalid state behind.
#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::pool::ring::ring;

    #[test]
    fn what_is_published_after_sealing_comes_back() {
        let (mut producer, consumer) = ring(64).unwrap();
        let (feed, seed) = (JobQueue::new(consumer), Mutex::new(producer.clone()));
        producer.try_publish("in time").unwrap();
        assert_eq!(feed.seal(&seed), ["in time"]);

        // A publisher that saw an open pool, and was preempted before it published.
        assert_eq!(producer.try_publish("late"), Err("late"));
        assert!(!feed.has_work());
        assert_eq!(feed.len(&seed), 0);
        assert!(feed.seal(&seed).is_empty());
    }

    #[test]
    fn what_is_withdrawn_leaves_the_others_in_their_order() {
        let (mut producer, consumer) = ring(64).unwrap();
        let feed = JobQueue::new(consumer);
        (0..6).for_each(|job| producer.try_publish(job).unwrap());
        assert_eq!(feed.withdraw(|job| job % 2 == 0), [0, 2, 4]);
        producer.try_publish(6).unwrap();
        let mut local = VecDeque::new();
        feed.take(&mut local, 3);
        feed.take(&mut local, 1);
        assert!(local.into_iter().eq([1, 3, 5, 6]));
    }

    #[test]
    fn what_is_given_back_is_taken_first_and_in_its_order() {
        let (mut producer, consumer) = ring(64).unwrap();
        let feed = JobQueue::new(consumer);
        (0..10).for_each(|job| producer.try_publish(job).unwrap());
        let mut local = VecDeque::new();
        assert!(feed.take(&mut local, 4), "six are left");
        local.pop_front();
        feed.give_back(&mut local);
        assert!(local.is_empty());
        assert!(!feed.take(&mut local, 100), "none is left");
        assert!(local.into_iter().eq(1..10));
    }
}
