//! The wait graph: which handlers wait for a worker of which queue, so that a wait that could never
//! end is refused.
//!
//! A handler that waits for room in a ring, or for the reply to a call, waits for a worker of that
//! queue, and keeps its own. If every worker of the queue waits, for that queue or for others whose
//! workers all wait, nobody is left to end any of it. A handler that waits for several queues at a
//! time counts as one that can go on with any of them. A queue that gets fewer workers may make
//! waits endless that were not: they are refused while they wait.

use std::cell::Cell;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

thread_local! {
    /// The attempt that this thread polls or runs now.
    static CURRENT: Cell<Option<RunningAttempt>> = const { Cell::new(None) };
}

/// A running attempt; a number that tells it from every other one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningAttempt {
    /// The address of its graph.
    graph: usize,
    /// The index of its queue.
    place: usize,
    attempt: usize,
}

impl RunningAttempt {
    /// Returns the attempt that this thread polls or runs now.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// Runs a part of the attempt.
    #[inline]
    pub(crate) fn within<R>(self, run: impl FnOnce() -> R) -> R {
        let _reset = Reset(CURRENT.replace(Some(self)));
        run()
    }
}

struct Reset(Option<RunningAttempt>);

impl Drop for Reset {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// The handlers of a bus that wait for its queues. Its size is bounded by the number of workers.
#[derive(Debug, Default)]
pub(crate) struct WaitGraph {
    state: Mutex<State>,
    /// Notified when waits are refused.
    refused: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many workers each queue has.
    workers: Vec<usize>,
    /// The attempts that wait.
    waiting: HashMap<usize, WaitingAttempt>,
}

#[derive(Debug)]
struct WaitingAttempt {
    place: usize,
    /// The queues that it waits for, each as often as it does.
    targets: Vec<usize>,
    /// Whether its waits are refused: it can go on.
    is_refused: bool,
}

/// A queue in the wait graph of its bus.
#[derive(Clone, Debug)]
pub(crate) struct QueueWaits {
    pub(crate) graph: Arc<WaitGraph>,
    pub(crate) place: usize,
}

/// The wait could never end: every worker that could end it waits itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndlessWait;

/// A wait of a handler, until it is dropped; of no effect outside of handlers.
#[derive(Debug)]
pub(crate) struct WaitGuard<'a>(Option<(&'a QueueWaits, usize)>);

impl QueueWaits {
    /// Names the attempt of this queue with a number that no other running one has.
    #[inline]
    pub(crate) fn attempt(&self, number: usize) -> RunningAttempt {
        RunningAttempt {
            graph: Arc::as_ptr(&self.graph).addr(),
            place: self.place,
            attempt: number,
        }
    }

    /// Notes how many workers the queue has, and refuses the waits that cannot end with so few.
    pub(crate) fn set_workers(&self, workers: usize) {
        let mut state = self.graph.lock();
        if state.workers.len() <= self.place {
            state.workers.resize(self.place + 1, 0);
        }
        state.workers[self.place] = workers;
        if state.refuse_endless(self.place) {
            self.graph.refused.notify_waiters();
        }
    }

    /// Begins to wait for a worker of this queue, if the caller is a handler of the bus.
    ///
    /// # Errors
    ///
    /// When the wait could never end.
    pub(crate) fn wait(&self) -> Result<WaitGuard<'_>, EndlessWait> {
        let waiter = RunningAttempt::current();
        let waiter = waiter.filter(|it| it.graph == Arc::as_ptr(&self.graph).addr());
        let Some(RunningAttempt { place, attempt, .. }) = waiter else {
            return Ok(WaitGuard(None));
        };
        let mut state = self.graph.lock();
        let waiting = state.waiting.entry(attempt);
        let waiting = waiting.or_insert_with(|| WaitingAttempt {
            place,
            targets: Vec::new(),
            is_refused: false,
        });
        waiting.targets.push(self.place);
        let is_endless = state.is_stuck(self.place);
        drop(state);
        let guard = WaitGuard(Some((self, attempt)));
        if is_endless {
            return Err(EndlessWait); // and the guard takes it back
        }
        Ok(guard)
    }
}

impl State {
    /// Returns whether no worker of a queue can go on, nor of those that it waits for.
    fn is_stuck(&self, place: usize) -> bool {
        let (mut seen, mut next) = (vec![place], 0);
        while let Some(&place) = seen.get(next) {
            next += 1;
            let workers = self.workers.get(place).copied().unwrap_or(0);
            let waiting = self.waiting.values();
            let waiting = waiting.filter(|it| it.place == place && !it.is_refused);
            // Without workers it is paused, which somebody ends.
            if workers == 0 || waiting.clone().count() < workers {
                return false;
            }
            for target in waiting.flat_map(|it| &it.targets) {
                if !seen.contains(target) {
                    seen.push(*target);
                }
            }
        }
        true
    }

    /// Refuses as few attempts of a queue as are needed for its others to go on; returns whether it
    /// did.
    fn refuse_endless(&mut self, place: usize) -> bool {
        let mut refused = false;
        while self.is_stuck(place) {
            let mut waiting = self.waiting.values_mut();
            let Some(waiting) = waiting.find(|it| it.place == place && !it.is_refused) else {
                break;
            };
            waiting.is_refused = true;
            refused = true;
        }
        refused
    }
}

impl WaitGraph {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under the lock leaves the state consistent.
        self.state.lock()
    }

    /// Returns whether the waits of an attempt are refused.
    fn refuses(&self, attempt: usize) -> bool {
        let state = self.lock();
        let waiting = state.waiting.get(&attempt);
        waiting.is_some_and(|waiting| waiting.is_refused)
    }
}

impl WaitGuard<'_> {
    /// Returns when the wait has become one that could never end.
    pub(crate) async fn refused(&self) -> EndlessWait {
        let Some((queue, attempt)) = self.0 else {
            return std::future::pending().await;
        };
        loop {
            let mut refused = pin!(queue.graph.refused.notified());
            refused.as_mut().enable();
            if queue.graph.refuses(attempt) {
                return EndlessWait;
            }
            refused.await;
        }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let Some((queue, attempt)) = self.0.take() else {
            return;
        };
        let mut state = queue.graph.lock();
        let Some(waiting) = state.waiting.get_mut(&attempt) else {
            return;
        };
        if let Some(at) = waiting.targets.iter().position(|it| *it == queue.place) {
            waiting.targets.swap_remove(at);
        }
        if waiting.targets.is_empty() {
            state.waiting.remove(&attempt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues with these numbers of workers.
    fn queues<const N: usize>(workers: [usize; N]) -> [QueueWaits; N] {
        let graph = Arc::<WaitGraph>::default();
        let queue = |place| QueueWaits {
            graph: Arc::clone(&graph),
            place,
        };
        let queues = std::array::from_fn(queue);
        queues
            .iter()
            .zip(workers)
            .for_each(|(queue, workers)| queue.set_workers(workers));
        queues
    }

    /// Waits in an attempt of `from` for `to`.
    fn wait<'a>(
        from: &QueueWaits,
        number: usize,
        to: &'a QueueWaits,
    ) -> Result<WaitGuard<'a>, EndlessWait> {
        from.attempt(number).within(|| to.wait())
    }

    #[test]
    fn the_last_worker_of_a_queue_does_not_wait_for_it() {
        let [queue] = queues([3]);
        let _one = wait(&queue, 1, &queue).unwrap();
        let two = wait(&queue, 2, &queue).unwrap();
        assert!(wait(&queue, 3, &queue).is_err());
        drop(two);
        let _three = wait(&queue, 3, &queue).unwrap();
        assert!(wait(&queue, 2, &queue).is_err());
        assert!(queue.wait().is_ok(), "outside of handlers anybody waits");
    }

    #[test]
    fn a_circle_of_queues_is_refused_where_it_closes() {
        let [a, b, c] = queues([1, 2, 1]);
        let _a = wait(&a, 1, &b).unwrap();
        let b1 = wait(&b, 2, &c).unwrap();
        let _b2 = wait(&b, 3, &a).unwrap();
        assert!(wait(&c, 4, &a).is_err());
        drop(b1);
        assert!(wait(&c, 4, &a).is_ok(), "a worker of b can go on");
    }

    #[test]
    fn an_attempt_that_waits_twice_is_one_worker() {
        let [queue, other] = queues([2, 1]);
        let _one = wait(&queue, 1, &queue).unwrap();
        let again = wait(&queue, 1, &queue).unwrap();
        let elsewhere = wait(&queue, 1, &other).unwrap();
        drop(again);
        assert!(wait(&queue, 2, &other).is_ok(), "nobody of the other waits");
        assert!(wait(&queue, 2, &queue).is_ok(), "the first may go on");
        drop(elsewhere);
        assert!(wait(&queue, 2, &queue).is_err());
    }

    /// Whether the wait of a guard has been refused meanwhile.
    fn is_refused(guard: &WaitGuard<'_>) -> bool {
        use futures_util::FutureExt;
        guard.refused().now_or_never().is_some()
    }

    #[test]
    fn fewer_workers_refuse_as_few_waits_as_can_never_end() {
        let [queue, other] = queues([4, 1]);
        let guards = [1, 2, 3].map(|number| wait(&queue, number, &queue).unwrap());
        let elsewhere = wait(&other, 9, &queue).unwrap();
        let refused = || guards.iter().filter(|guard| is_refused(guard)).count();
        queue.set_workers(4);
        assert_eq!(refused(), 0);
        queue.set_workers(3);
        assert_eq!(refused(), 1);
        queue.set_workers(0);
        assert_eq!(refused(), 1, "it is paused");
        queue.set_workers(1);
        assert_eq!(refused(), 3);
        assert!(!is_refused(&elsewhere), "the others go on and end it");
    }

    #[test]
    fn fewer_workers_of_one_queue_close_a_circle() {
        let [a, b] = queues([2, 1]);
        let there = wait(&a, 1, &b).unwrap();
        let back = wait(&b, 2, &a).unwrap();
        assert!(!is_refused(&there) && !is_refused(&back));
        a.set_workers(1);
        assert!(is_refused(&there) ^ is_refused(&back));
    }

    #[test]
    fn a_paused_queue_is_waited_for() {
        let [queue] = queues([1]);
        queue.set_workers(0);
        assert!(wait(&queue, 1, &queue).is_ok());
    }
}
