//! The pool: the workers of one queue, and the ring that feeds them.
//!
//! ```text
//! publisher --try_publish--> ring --poll--> stash --> worker --> handler
//!     ^                       |      (one short lock)  0..=N tasks
//!     `------- room ----------'
//! ```
//!
//! Every queue has its own pool and shares only the threads of the runtime with the others, so a
//! slow queue fills only its own ring. A pool without work has no task and no timer.
//!
//! # Stopping
//!
//! [`close`](Pool::close) rejects further jobs, [`idle`](Pool::idle) waits until everything
//! published has ended. If that takes too long: [`halt`](Pool::halt) begins nothing
//! more, [`cut`](Pool::cut) drops what runs, [`stopped`](Pool::stopped) waits until it has ended, and
//! [`drain`](Pool::drain) returns what was never begun. Every published job is then accounted for:
//! it ended, or it was returned.

pub(crate) mod deadlines;
pub(crate) mod job_queue;
pub(in crate::flow) mod on_demand;
pub(in crate::flow) mod polled;
pub(crate) mod publisher;
pub(crate) mod ring;
pub(in crate::flow) mod running_job;
pub(in crate::flow) mod waiters;
pub(in crate::flow) mod wake;
pub(crate) mod work;
pub(in crate::flow) mod worker;

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::deadlines::DeadlineTable;
use self::job_queue::{JobQueue, lock};
use self::publisher::Publisher;
use self::ring::{BadCapacity, RingProducer, ring};
use self::wake::Wake;
use self::work::Work;
use self::worker::Worker;

#[cfg(test)]
mod tests;

/// The options of a pool.
#[derive(Clone)]
pub struct PoolOptions {
    /// The slots of the ring: a power of two of at least 64. As many jobs again may wait in the
    /// stash.
    pub capacity: usize,
    /// The most jobs that run at once; 0 pauses.
    pub workers: usize,
    /// How long a worker polls for work before it leaves, when traffic is dense; zero disables it.
    /// 20 µs saves most wake-ups, and costs up to a core while traffic is dense.
    pub linger: Duration,
    /// How long a worker works before it yields to the other tasks of its thread.
    pub slice: Duration,
    /// The runtime of the workers, with timers enabled.
    pub runtime: Handle,
    /// The deadline table of that runtime.
    pub deadlines: Arc<DeadlineTable>,
}

impl PoolOptions {
    /// Sets 256 slots, 20 µs of lingering and slices of 50 µs.
    pub fn new(workers: usize, runtime: Handle, deadlines: Arc<DeadlineTable>) -> Self {
        Self {
            capacity: 256,
            workers,
            linger: Duration::from_micros(20),
            slice: Duration::from_micros(50),
            runtime,
            deadlines,
        }
    }
}

/// The number of the next pool.
static NUMBERS: AtomicU32 = AtomicU32::new(1);

/// The workers of one queue. Dropping it closes it.
pub struct Pool<W: Work> {
    shared: Arc<Shared<W>>,
}

impl<W: Work> Pool<W> {
    /// Creates a pool without starting anything.
    ///
    /// # Errors
    ///
    /// Returns [`BadCapacity`] if the ring cannot have that many slots.
    pub fn new(work: W, options: PoolOptions) -> Result<Self, BadCapacity> {
        let (seed, consumer) = ring(options.capacity)?;
        let started = {
            let _inside = options.runtime.enter(); // a paused clock is visible only inside the runtime
            Instant::now()
        };
        let shared = Arc::new(Shared {
            number: NUMBERS.fetch_add(1, Relaxed),
            wake: CachePadded::new(Wake::new(options.workers)),
            feed: JobQueue::new(consumer),
            work,
            deadlines: options.deadlines,
            runtime: options.runtime,
            linger: options.linger,
            slice: options.slice,
            closed: AtomicBool::new(false),
            cuts: AtomicUsize::new(0),
            withdrawals: AtomicUsize::new(0),
            has_ended: Mutex::new(false),
            started,
            left_at: CachePadded::new(AtomicU64::new(u64::MAX)),
            left: Notify::new(),
            seed: Mutex::new(seed),
        });
        Ok(Self { shared })
    }

    /// Returns the number by which [`polled`] knows the pool: from 1 on, other than that of any
    /// other.
    pub(crate) fn number(&self) -> u32 {
        self.shared.number
    }

    /// Returns what the pool does with its jobs.
    pub(crate) fn work(&self) -> &W {
        &self.shared.work
    }

    /// Creates another publisher. It costs a lock: keep it.
    pub fn publisher(&self) -> Publisher<W> {
        Publisher::new(lock(&self.shared.seed).clone(), self.shared.clone())
    }

    /// Sets how many jobs may run at once. With fewer than before, running jobs finish and are not
    /// replaced; with 0 nothing is begun until the number is raised. After [`halt`](Self::halt) it stays
    /// 0.
    pub fn set_workers(&self, workers: usize) {
        let has_ended = lock(&self.shared.has_ended);
        if !*has_ended {
            self.shared.set_limit(workers);
        }
    }

    /// Begins nothing more, for good: running jobs finish.
    pub(crate) fn halt(&self) {
        let mut has_ended = lock(&self.shared.has_ended);
        *has_ended = true;
        self.shared.set_limit(0);
    }

    /// Returns the most jobs that run at once.
    pub(crate) fn workers(&self) -> usize {
        self.shared.wake.limit()
    }

    /// Returns how many workers are active: an upper bound of the running jobs.
    pub(crate) fn active(&self) -> usize {
        self.shared.wake.active()
    }

    /// Returns how many jobs are published and not taken by a worker.
    pub(crate) fn queued(&self) -> usize {
        self.shared.feed.len(&self.shared.seed)
    }

    /// Returns whether no job is queued and no worker is active.
    pub(crate) fn is_idle(&self) -> bool {
        let shared = &self.shared;
        shared
            .feed
            .is_idle(&shared.seed, || shared.wake.active() == 0)
    }

    /// Waits until no job is queued and no worker is active.
    pub async fn idle(&self) {
        self.when_a_worker_leaves(|| self.is_idle()).await;
    }

    /// Waits until no worker is active, whatever is queued.
    pub async fn stopped(&self) {
        self.when_a_worker_leaves(|| self.active() == 0).await;
    }

    /// Rejects further jobs; publishers, waiting ones too, get their job back. Queued jobs are
    /// still run.
    ///
    /// A racing publisher may still be accepted; its job is treated like any other.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, SeqCst);
        self.shared.feed.room().all_look();
    }

    /// Drops every job that was begun: at once where it is suspended, else as soon as it suspends.
    /// Each ends as [`Cut`](self::work::JobEnd::Cut), unless it finishes, panics or times out
    /// first. Queued jobs stay: set the workers to 0 first, or the next jobs begin.
    pub fn cut(&self) {
        self.shared.cuts.fetch_add(1, SeqCst);
        self.shared.deadlines.wake_all();
    }

    /// [`close`](Self::close)s the pool and returns the jobs that were not begun, oldest first.
    ///
    /// No job is stranded by this: a late publisher gets its job back. An active worker may hold a
    /// few jobs and give them back later, so all are returned only after [`halt`](Self::halt) and
    /// [`stopped`](Self::stopped). May be called again.
    pub fn drain(&self) -> Vec<W::Job> {
        self.close();
        let jobs = self.shared.feed.seal(&self.shared.seed);
        self.shared.left.notify_waiters();
        jobs
    }

    /// Returns the waiting jobs that [may leave](Work::may_leave) to the work; the pool stays open.
    /// Those that wait for room [until it is so](Publisher::publish_until_withdrawn) wait no more.
    pub(crate) fn withdraw(&self) {
        self.shared.withdraw();
    }

    /// Waits until `done` returns true; checks at once, and whenever the last worker has left.
    async fn when_a_worker_leaves(&self, done: impl Fn() -> bool) {
        loop {
            let mut left = pin!(self.shared.left.notified());
            left.as_mut().enable();
            if done() {
                return;
            }
            left.await;
        }
    }
}

impl<W: Work> Drop for Pool<W> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<W: Work> fmt::Debug for Pool<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("workers", &self.workers())
            .field("active", &self.active())
            .field("queued", &self.queued())
            .finish_non_exhaustive()
    }
}

/// The state that a pool's publishers and workers share.
pub(super) struct Shared<W: Work> {
    /// See [`Pool::number`].
    pub(super) number: u32,
    pub(super) wake: CachePadded<Wake>,
    pub(super) feed: JobQueue<W::Job>,
    pub(super) work: W,
    pub(super) deadlines: Arc<DeadlineTable>,
    pub(super) linger: Duration,
    pub(super) slice: Duration,
    runtime: Handle,
    closed: AtomicBool,
    /// How often the pool was cut short.
    cuts: AtomicUsize,
    started: Instant,
    /// How often waiting jobs were withdrawn.
    withdrawals: AtomicUsize,
    /// Whether no job is begun any more; locked while the number of workers is set.
    has_ended: Mutex<bool>,
    /// When a worker last left, in nanoseconds since `started`; `u64::MAX` for never.
    left_at: CachePadded<AtomicU64>,
    /// Notified when the last worker has left.
    left: Notify,
    /// The producer that the publishers' are cloned from. Locked after the job queue, never before
    /// it.
    seed: Mutex<RingProducer<W::Job>>,
}

impl<W: Work> Shared<W> {
    /// Returns whether the pool rejects further jobs.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Starts a worker if one is needed, after work was published or given back.
    #[inline]
    pub(super) fn call(self: &Arc<Self>) {
        if self.wake.call() {
            self.start_worker();
        }
    }

    /// Puts jobs that were taken but not begun back to the front.
    pub(super) fn give_back(&self, local: &mut VecDeque<W::Job>) {
        self.feed.give_back(local);
        self.withdraw_if_paused();
    }

    /// Withdraws what came back to, or into, a pool that was paused meanwhile. Call it after that:
    /// then either this sees the pause, or the withdrawal that follows the pause sees the jobs.
    pub(super) fn withdraw_if_paused(&self) {
        if self.wake.limit() == 0 {
            self.withdraw();
        }
    }

    /// Returns whether jobs that may leave do not wait: the pool is paused, or they were withdrawn
    /// since there were so many withdrawals.
    pub(super) fn has_withdrawn_since(&self, withdrawals: usize) -> bool {
        self.wake.limit() == 0 || self.withdrawals.load(SeqCst) != withdrawals
    }

    fn withdraw(&self) {
        self.withdrawals.fetch_add(1, SeqCst);
        self.feed.room().all_look();
        for job in self.feed.withdraw(|job| self.work.may_leave(job)) {
            self.work.left(job);
        }
    }

    fn set_limit(self: &Arc<Self>, workers: usize) {
        if self.wake.set_limit(workers, || self.feed.has_work()) {
            self.start_worker();
        }
    }

    #[cold]
    fn start_worker(self: &Arc<Self>) {
        self.runtime.spawn(Worker::new(self.clone()).run());
    }

    /// Returns how often the pool was cut short. What was set before the cut is seen after this.
    #[inline]
    pub(super) fn cuts(&self) -> usize {
        self.cuts.load(Acquire)
    }

    /// Records that a worker leaves now.
    pub(super) fn is_left_now(&self) {
        if !self.linger.is_zero() {
            self.left_at
                .store(nanos(self.started, Instant::now()), Relaxed);
        }
    }

    /// Returns whether lingering is on and the last worker left less than `gap` before `now`.
    pub(super) fn was_left_less_than(&self, gap: Duration, now: Instant) -> bool {
        let left_at = self.left_at.load(Relaxed);
        !self.linger.is_zero()
            && left_at != u64::MAX
            && Duration::from_nanos(nanos(self.started, now).saturating_sub(left_at)) < gap
    }

    /// Notifies those who wait for the last worker to leave.
    pub(super) fn a_worker_left(&self, last: bool) {
        if last {
            self.left.notify_waiters();
        }
    }
}

/// Returns the nanoseconds from `start` to `now`; enough for five hundred years.
fn nanos(start: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX - 1)
}
