//! The deadline board: what the suspended workers of one runtime share.
//!
//! A timer for each event would cost more than the hand-over of the event. A worker instead writes
//! its deadline, in ticks of 10 ms, into a slot of its own; one task looks over all slots each tick
//! and wakes the workers whose deadline has come. That task runs only while there are deadlines.
//!
//! A slot also tells how to wake its worker for another reason, which is how a pool is cut short.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::flow::ticking::Ticking;

/// How finely the board tells time.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The shortest limit that is left to the board, which is up to two ticks late; for a shorter one
/// that would be too coarse, and a timer of its own is worth its price.
pub(crate) const COARSE_MIN: Duration = Duration::from_millis(100);

/// After how many ticks without a deadline the task ends; starting it costs more than a tick.
const QUIET_TICKS: u32 = 10;

/// The value of a slot without a deadline.
const NEVER: u64 = 0;

/// The deadlines of the workers of one runtime, and the right to linger in it.
pub struct Board {
    runtime: Handle,
    started: Instant,
    /// The tick that the ticking task saw last.
    now: CachePadded<AtomicU64>,
    ticking: CachePadded<Ticking>,
    lingering: AtomicBool,
    slots: Mutex<Slots>,
}

/// Every slot there is, and those that no worker has. They are as many as workers were ever
/// suspended at once.
#[derive(Default)]
struct Slots {
    all: Vec<Arc<Slot>>,
    free: Vec<Arc<Slot>>,
}

type Slot = CachePadded<Watch>;

/// When a worker is to be woken at the latest, and how.
struct Watch {
    deadline: AtomicU64,
    waker: AtomicWaker,
}

impl Board {
    /// Makes an empty board, whose task will run in `runtime`. The runtime needs its timers.
    pub fn new(runtime: Handle) -> Arc<Self> {
        let started = {
            let _inside = runtime.enter(); // a paused clock is seen only from inside
            Instant::now()
        };
        Arc::new(Self {
            runtime,
            started,
            now: CachePadded::default(),
            ticking: CachePadded::default(),
            lingering: AtomicBool::new(false),
            slots: Mutex::default(),
        })
    }

    /// Gives a worker a slot of its own, until it drops it.
    pub(crate) fn reserve(self: &Arc<Self>) -> Reserved {
        let mut slots = self.slots();
        let slot = slots.free.pop().unwrap_or_else(|| {
            let slot = Arc::new(CachePadded::new(Watch {
                deadline: AtomicU64::new(NEVER),
                waker: AtomicWaker::new(),
            }));
            slots.all.push(slot.clone());
            slot
        });
        Reserved {
            board: self.clone(),
            slot,
        }
    }

    /// Wakes everyone who has a slot, so that they look at what has changed.
    pub(crate) fn wake_all(&self) {
        let slots = self.slots().all.clone();
        slots.iter().for_each(|slot| slot.waker.wake());
    }

    /// Asks for the right to linger, of which a runtime has one: a lingering worker keeps a core
    /// busy. Whoever got it gives it back by [`stop_lingering`](Self::stop_lingering).
    pub(crate) fn try_linger(&self) -> bool {
        !self.lingering.load(Relaxed) && !self.lingering.swap(true, Relaxed)
    }

    /// Gives the right to linger back.
    pub(crate) fn stop_lingering(&self) {
        self.lingering.store(false, Relaxed);
    }

    /// Starts the ticking task unless it runs. To be called after a deadline was written.
    fn start_ticking(self: &Arc<Self>) {
        if self.ticking.must_start() {
            self.runtime.spawn(self.clone().tick());
        }
    }

    /// Wakes whose deadline has come, tick by tick, until there has been no deadline for a while.
    async fn tick(self: Arc<Self>) {
        let mut quiet = 0;
        loop {
            sleep(TICK).await;
            let now = self.ticks_at(Instant::now());
            self.now.store(now, Release);
            if self.wake_due(now) {
                quiet = 0;
                continue;
            }
            quiet += 1;
            if quiet > QUIET_TICKS {
                if self.ticking.may_end(|| self.has_deadlines()) {
                    return;
                }
                quiet = 0;
            }
        }
    }

    /// Wakes the workers whose deadline is not after `now`; answers whether there is any deadline.
    fn wake_due(&self, now: u64) -> bool {
        let mut due = Vec::new();
        let mut any = false;
        for slot in &self.slots().all {
            let deadline = slot.deadline.load(Relaxed);
            any |= deadline != NEVER;
            if deadline != NEVER && deadline <= now {
                due.push(slot.clone());
            }
        }
        // Woken without the lock: what a waker does is not ours.
        due.iter().for_each(|slot| slot.waker.wake());
        any
    }

    fn has_deadlines(&self) -> bool {
        self.slots()
            .all
            .iter()
            .any(|slot| slot.deadline.load(Relaxed) != NEVER)
    }

    /// Whole ticks from the board's start to `instant`.
    fn ticks_at(&self, instant: Instant) -> u64 {
        ticks(instant.saturating_duration_since(self.started))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's slot on the board, which goes back when it is dropped.
pub(crate) struct Reserved {
    board: Arc<Board>,
    slot: Arc<Slot>,
}

impl Reserved {
    /// Sets the deadline to `limit` from now, rounded up to the next tick and one more: it may come
    /// up to two ticks late, but never early.
    #[inline]
    pub(crate) fn arm(&self, limit: Duration) -> Deadline {
        let whole = ticks(limit.saturating_add(TICK - Duration::from_nanos(1)));
        let now = self.board.ticks_at(Instant::now());
        let deadline = now.saturating_add(whole).saturating_add(1);
        self.slot.deadline.store(deadline, Relaxed);
        self.board.start_ticking();
        Deadline(deadline)
    }

    /// Takes the deadline away.
    #[inline]
    pub(crate) fn disarm(&self) {
        self.slot.deadline.store(NEVER, Relaxed);
    }

    /// Says how to wake the worker from now on, until it is woken.
    #[inline]
    pub(crate) fn watch(&self, waker: &Waker) {
        self.slot.waker.register(waker);
    }

    /// Whether `deadline` has come. To be asked after [`watch`](Self::watch).
    #[inline]
    pub(crate) fn has_passed(&self, deadline: Deadline) -> bool {
        self.board.now.load(Acquire) >= deadline.0
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.disarm();
        self.slot.waker.take();
        self.board.slots().free.push(self.slot.clone());
    }
}

/// The tick at which a worker's time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(u64);

/// Whole ticks in `duration`, without the long division that `as_millis` would need.
#[inline]
fn ticks(duration: Duration) -> u64 {
    const TICK_MS: u32 = TICK.as_millis() as u32;
    let of_seconds = duration
        .as_secs()
        .saturating_mul(u64::from(1_000 / TICK_MS));
    of_seconds.saturating_add(u64::from(duration.subsec_millis() / TICK_MS))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    /// Suspends until `limit` has passed on the board, and returns the time that took.
    async fn wait(board: &Arc<Board>, limit: Duration) -> Duration {
        let (slot, start) = (board.reserve(), Instant::now());
        let deadline = slot.arm(limit);
        poll_fn(|cx| {
            slot.watch(cx.waker());
            if slot.has_passed(deadline) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_comes_at_most_two_ticks_late_and_never_early() {
        let board = Board::new(Handle::current());
        for ms in [0, 1, 9, 10, 11, 100, 4_999, 5_000] {
            let limit = Duration::from_millis(ms);
            sleep(Duration::from_millis(ms % 13)).await;
            let took = wait(&board, limit).await;
            assert!(took >= limit, "{took:?} is early for {limit:?}");
            assert!(took <= limit + 3 * TICK, "{took:?} is late for {limit:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_ends_when_there_is_no_deadline_and_starts_again() {
        let board = Board::new(Handle::current());
        for _ in 0..2 {
            assert!(!board.ticking.runs());
            let waiting = tokio::spawn({
                let board = board.clone();
                async move { wait(&board, Duration::from_secs(1)).await }
            });
            sleep(TICK).await;
            assert!(board.ticking.runs());
            waiting.await.unwrap();
            sleep(TICK * (QUIET_TICKS + 3)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_used_again_without_its_old_deadline() {
        let board = Board::new(Handle::current());
        let slot = board.reserve();
        slot.arm(Duration::from_secs(1));
        drop(slot);
        assert!(!board.has_deadlines());
        let _again = board.reserve();
        assert_eq!(board.slots().all.len(), 1);
    }

    #[tokio::test]
    async fn waking_all_wakes_who_has_no_deadline() {
        let board = Board::new(Handle::current());
        let slot = board.reserve();
        let woken = AtomicBool::new(false);
        let waiting = poll_fn(|cx| {
            slot.watch(cx.waker());
            if woken.load(Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        let waking = async {
            woken.store(true, Release);
            board.wake_all();
        };
        tokio::join!(biased; waiting, waking);
    }

    #[tokio::test]
    async fn one_worker_of_a_runtime_may_linger() {
        let board = Board::new(Handle::current());
        assert!(board.try_linger());
        assert!(!board.try_linger());
        board.stop_lingering();
        assert!(board.try_linger());
    }
}
