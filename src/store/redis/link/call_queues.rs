//! Serialised execution by key: calls wait in arrival order for the one in progress.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Queues of calls, by key. A queue exists while one of its calls is in progress; there is one at a
/// time.
pub(in crate::store::redis) struct CallQueues<K, T> {
    state: Mutex<QueueTable<K, T>>,
    /// Notified when a queue has ended.
    ended: Notify,
}

struct QueueTable<K, T> {
    calls: HashMap<K, BTreeMap<u64, T>>,
    next: u64,
}

impl<K, T> Default for CallQueues<K, T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(QueueTable {
                calls: HashMap::new(),
                next: 0,
            }),
            ended: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, T> CallQueues<K, T> {
    /// Enqueues an item. Returns its place, and whether the queue is new, so that the caller must
    /// drive it.
    pub(in crate::store::redis) fn join(self: &Arc<Self>, key: &K, item: T) -> (Place<K, T>, bool) {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let is_new = match state.calls.get_mut(key) {
            Some(queue) => {
                queue.insert(number, item);
                false
            }
            None => {
                let queue = BTreeMap::from([(number, item)]);
                state.calls.insert(key.clone(), queue);
                true
            }
        };
        drop(state);
        let place = Place {
            queues: Arc::clone(self),
            key: key.clone(),
            number,
            is_left: false,
        };
        (place, is_new)
    }

    /// Returns the driver of a queue, which calls [`Driver::take`] until it returns `None`.
    pub(in crate::store::redis) fn drive(self: &Arc<Self>, key: K) -> Driver<K, T> {
        Driver {
            queues: Arc::clone(self),
            key,
            is_over: false,
        }
    }

    /// Waits until no queue is active.
    pub(in crate::store::redis) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.state().calls.is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueTable<K, T>> {
        // Every change under the lock is one step.
        self.state.lock()
    }
}

/// A place in a queue. Dropping it before its turn removes the item.
pub(in crate::store::redis) struct Place<K: Clone + Eq + Hash, T> {
    queues: Arc<CallQueues<K, T>>,
    key: K,
    number: u64,
    is_left: bool,
}

impl<K: Clone + Eq + Hash, T> Place<K, T> {
    /// Consumes the place once its item was taken and its reply has come.
    pub(in crate::store::redis) fn answered(mut self) {
        self.is_left = true;
    }

    /// Leaves the queue. Returns the item, unless it was taken already.
    pub(in crate::store::redis) fn leave(&mut self) -> Option<T> {
        self.is_left = true;
        let mut state = self.queues.state();
        state.calls.get_mut(&self.key)?.remove(&self.number)
    }
}

impl<K: Clone + Eq + Hash, T> Drop for Place<K, T> {
    fn drop(&mut self) {
        if !self.is_left {
            self.leave();
        }
    }
}

/// The driver of a queue. If its task is dropped, as with its runtime, the queue is dropped too, and
/// the next call begins another.
pub(in crate::store::redis) struct Driver<K: Clone + Eq + Hash, T> {
    queues: Arc<CallQueues<K, T>>,
    key: K,
    is_over: bool,
}

impl<K: Clone + Eq + Hash, T> Driver<K, T> {
    pub(in crate::store::redis) fn key(&self) -> &K {
        &self.key
    }

    /// Takes the first waiting item, and those after it as long as they are `wanted`; `None` ends
    /// the queue.
    pub(in crate::store::redis) fn take(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Option<Vec<T>> {
        let mut state = self.queues.state();
        let queue = state.calls.get_mut(&self.key)?;
        let mut taken = Vec::new();
        while let Some(first) = queue.first_entry()
            && wanted(first.get())
        {
            taken.push(first.remove());
        }
        if taken.is_empty()
            && let Some((_, first)) = queue.pop_first()
        {
            taken.push(first);
        }
        if taken.is_empty() {
            state.calls.remove(&self.key);
            self.is_over = true;
            self.queues.ended.notify_waiters();
            return None;
        }
        Some(taken)
    }
}

impl<K: Clone + Eq + Hash, T> Drop for Driver<K, T> {
    fn drop(&mut self) {
        if !self.is_over {
            self.queues.state().calls.remove(&self.key);
            self.queues.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leaves_before_its_turn_was_never_there() {
        let queues = Arc::new(CallQueues::default());
        let (first, is_new) = queues.join(&"a", 1);
        assert!(is_new);
        let (mut second, is_new) = queues.join(&"a", 2);
        assert!(!is_new);
        let (third, _) = queues.join(&"a", 3);
        let (mut fourth, _) = queues.join(&"a", 4);
        drop(third);
        assert_eq!(second.leave(), Some(2));
        let mut driver = queues.drive("a");
        assert_eq!(driver.take(|_| true), Some(vec![1, 4]));
        assert_eq!(fourth.leave(), None, "its turn has come");
        assert_eq!(driver.take(|_| true), None);
        first.answered();
        assert!(queues.join(&"a", 5).1, "the queue has ended");
    }

    #[test]
    fn a_lane_hands_out_one_at_least() {
        let queues = Arc::new(CallQueues::default());
        let places: Vec<_> = (0..3).map(|number| queues.join(&(), number).0).collect();
        let mut driver = queues.drive(());
        assert_eq!(driver.take(|number| *number > 0), Some(vec![0]));
        assert_eq!(driver.take(|number| *number < 2), Some(vec![1]));
        drop(places);
        assert_eq!(driver.take(|_| false), None, "the last one has left");
    }

    #[tokio::test]
    async fn a_driver_that_is_dropped_takes_its_lane_with_it() {
        let queues = Arc::new(CallQueues::<_, u8>::default());
        let (_place, _) = queues.join(&1, 1);
        drop(queues.drive(1));
        queues.idle().await;
        assert!(queues.join(&1, 2).1);
    }
}
