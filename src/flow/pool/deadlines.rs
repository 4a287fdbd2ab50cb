//! The deadline table: the deadlines of one runtime's suspended workers.
//!
//! A timer for each event would cost more than handing over the event. Instead, a worker writes its
//! deadline, in ticks of 10 ms, into its own slot; one task scans all slots each tick and wakes the
//! workers whose deadline has passed. That task runs only while there are deadlines.
//!
//! A slot also holds the worker's waker, which is how a pool is cut short.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Waker;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use futures_util::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::flow::pool::on_demand::OnDemandTask;

/// The resolution of the table.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The shortest limit that the table watches. It may be up to two ticks late; a shorter limit gets
/// a timer of its own.
pub(crate) const COARSE_MIN: Duration = Duration::from_millis(100);

/// The task ends after this many ticks without a deadline; starting it costs more than a tick.
const QUIET_TICKS: u32 = 10;

/// The value of a slot without a deadline.
const NEVER: u64 = 0;

/// The deadlines of one runtime's workers, and its single permit to linger.
pub struct DeadlineTable {
    runtime: Handle,
    started: Instant,
    /// The tick that the task saw last.
    now: CachePadded<AtomicU64>,
    ticking: CachePadded<OnDemandTask>,
    lingering: AtomicBool,
    slots: Mutex<DeadlineSlots>,
}

/// All slots, and the free ones. There are as many as workers were ever suspended at once.
#[derive(Default)]
struct DeadlineSlots {
    all: Vec<Arc<Slot>>,
    free: Vec<Arc<Slot>>,
}

type Slot = CachePadded<WorkerDeadline>;

/// A worker's deadline and waker.
struct WorkerDeadline {
    deadline: AtomicU64,
    waker: AtomicWaker,
}

impl DeadlineTable {
    /// Creates an empty table whose task runs in `runtime`, which must have timers enabled.
    pub fn new(runtime: Handle) -> Arc<Self> {
        let started = {
            let _inside = runtime.enter(); // a paused clock is visible only inside the runtime
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

    /// Reserves a slot for a worker until it is dropped.
    pub(crate) fn reserve(self: &Arc<Self>) -> DeadlineSlot {
        let mut slots = self.slots();
        let slot = slots.free.pop().unwrap_or_else(|| {
            let slot = Arc::new(CachePadded::new(WorkerDeadline {
                deadline: AtomicU64::new(NEVER),
                waker: AtomicWaker::new(),
            }));
            slots.all.push(slot.clone());
            slot
        });
        DeadlineSlot {
            deadlines: self.clone(),
            slot,
        }
    }

    /// Wakes every worker with a slot, so that it sees what has changed.
    pub(crate) fn wake_all(&self) {
        let slots = self.slots().all.clone();
        slots.iter().for_each(|slot| slot.waker.wake());
    }

    /// Acquires the permit to linger. A runtime has only one, since a lingering worker keeps a core
    /// busy. Release it with [`stop_lingering`](Self::stop_lingering).
    pub(crate) fn try_linger(&self) -> bool {
        !self.lingering.load(Relaxed) && !self.lingering.swap(true, Relaxed)
    }

    /// Releases the permit to linger.
    pub(crate) fn stop_lingering(&self) {
        self.lingering.store(false, Relaxed);
    }

    /// Starts the task unless it runs. Call it after writing a deadline.
    fn start_ticking(self: &Arc<Self>) {
        if self.ticking.must_start() {
            self.runtime.spawn(self.clone().tick());
        }
    }

    /// Wakes the workers whose deadline has passed, every tick, until there have been no deadlines
    /// for a while.
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

    /// Wakes the workers whose deadline is not after `now`; returns whether any deadline is left.
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
        // Outside the lock: a waker runs foreign code.
        due.iter().for_each(|slot| slot.waker.wake());
        any
    }

    fn has_deadlines(&self) -> bool {
        self.slots()
            .all
            .iter()
            .any(|slot| slot.deadline.load(Relaxed) != NEVER)
    }

    /// Returns the whole ticks from the table's start to `instant`.
    fn ticks_at(&self, instant: Instant) -> u64 {
        ticks(instant.saturating_duration_since(self.started))
    }

    fn slots(&self) -> MutexGuard<'_, DeadlineSlots> {
        self.slots.lock()
    }
}

/// A worker's slot, released on drop.
pub(crate) struct DeadlineSlot {
    deadlines: Arc<DeadlineTable>,
    slot: Arc<Slot>,
}

impl DeadlineSlot {
    /// Sets the deadline to `limit` from now, rounded up to the next tick plus one: up to two ticks
    /// late, but never early.
    #[inline]
    pub(crate) fn arm(&self, limit: Duration) -> Deadline {
        let whole = ticks(limit.saturating_add(TICK - Duration::from_nanos(1)));
        let now = self.deadlines.ticks_at(Instant::now());
        let deadline = now.saturating_add(whole).saturating_add(1);
        self.slot.deadline.store(deadline, Relaxed);
        self.deadlines.start_ticking();
        Deadline(deadline)
    }

    /// Clears the deadline.
    #[inline]
    pub(crate) fn disarm(&self) {
        self.slot.deadline.store(NEVER, Relaxed);
    }

    /// Sets the waker; it is used once.
    #[inline]
    pub(crate) fn watch(&self, waker: &Waker) {
        self.slot.waker.register(waker);
    }

    /// Returns whether `deadline` has passed. Call [`watch`](Self::watch) first.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: Deadline) -> bool {
        self.deadlines.now.load(Acquire) >= deadline.0
    }
}

impl Drop for DeadlineSlot {
    fn drop(&mut self) {
        self.disarm();
        self.slot.waker.take();
        self.deadlines.slots().free.push(self.slot.clone());
    }
}

/// A worker's deadline, as a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(u64);

/// Returns the whole ticks in `duration`, without the long division of `as_millis`.
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

    /// Suspends until `limit` has passed in the table; returns the time that took.
    async fn wait(deadlines: &Arc<DeadlineTable>, limit: Duration) -> Duration {
        let (slot, start) = (deadlines.reserve(), Instant::now());
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
        let deadlines = DeadlineTable::new(Handle::current());
        for ms in [0, 1, 9, 10, 11, 100, 4_999, 5_000] {
            let limit = Duration::from_millis(ms);
            sleep(Duration::from_millis(ms % 13)).await;
            let took = wait(&deadlines, limit).await;
            assert!(took >= limit, "{took:?} is early for {limit:?}");
            assert!(took <= limit + 3 * TICK, "{took:?} is late for {limit:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_ends_when_there_is_no_deadline_and_starts_again() {
        let deadlines = DeadlineTable::new(Handle::current());
        for _ in 0..2 {
            assert!(!deadlines.ticking.runs());
            let waiting = tokio::spawn({
                let deadlines = deadlines.clone();
                async move { wait(&deadlines, Duration::from_secs(1)).await }
            });
            sleep(TICK).await;
            assert!(deadlines.ticking.runs());
            waiting.await.unwrap();
            sleep(TICK * (QUIET_TICKS + 3)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_used_again_without_its_old_deadline() {
        let deadlines = DeadlineTable::new(Handle::current());
        let slot = deadlines.reserve();
        slot.arm(Duration::from_secs(1));
        drop(slot);
        assert!(!deadlines.has_deadlines());
        let _again = deadlines.reserve();
        assert_eq!(deadlines.slots().all.len(), 1);
    }

    #[tokio::test]
    async fn waking_all_wakes_who_has_no_deadline() {
        let deadlines = DeadlineTable::new(Handle::current());
        let slot = deadlines.reserve();
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
            deadlines.wake_all();
        };
        tokio::join!(biased; waiting, waking);
    }

    #[tokio::test]
    async fn one_worker_of_a_runtime_may_linger() {
        let deadlines = DeadlineTable::new(Handle::current());
        assert!(deadlines.try_linger());
        assert!(!deadlines.try_linger());
        deadlines.stop_lingering();
        assert!(deadlines.try_linger());
    }
}
