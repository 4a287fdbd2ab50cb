//! A worker: a task that takes jobs from the job queue and runs them, until there are none.
//!
//! Three things keep a worker both fast and fair:
//!
//! - **Batches.** While jobs finish without suspending, it takes up to 64 at a time for the price
//!   of one lock. The first job that suspends gives the rest back, so that no job waits behind a
//!   suspended one.
//! - **Slices.** After 50 µs of work it yields to the other tasks of its thread. It reads the
//!   clock every eight jobs, gives the rest of a batch back when those were slow, and only a quick
//!   batch is followed by a longer one.
//! - **Lingering.** When traffic is dense it polls for another 20 µs before it leaves, which
//!   saves the 10 µs of waking a worker; at most one does so in a queue and in a runtime.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::Shared;
use super::deadlines::DeadlineSlot;
use super::running_job::{JobContext, RunningJob};
use super::wake::LeaveResult;
use super::work::Work;
use crate::panics;

/// The most jobs a worker takes at once.
const BATCH_MAX: usize = 64;

/// After how many jobs of a batch the clock is read.
const JOBS_BETWEEN_LOOKS: u32 = 8;

/// A job that takes as many slices is long: other queues notice.
const SLICES_OF_A_LONG_JOB: u32 = 20;

/// The most batches in a slice, whatever the clock shows: it may be paused.
const BATCHES_MAX: u32 = 4_096;

/// Traffic is dense when a queue's workers are started closer together than this.
const DENSE: Duration = Duration::from_micros(50);

/// The most polls of a lingering worker, whatever the clock shows: a paused clock never advances
/// while a worker polls.
const LOOKS_MAX: u32 = 256;

/// One active worker of a pool; it holds a place among the active ones, and gives it back however
/// it ends.
pub(super) struct Worker<W: Work> {
    pool: Arc<Shared<W>>,
    /// Jobs taken and not begun; empty whenever the worker is suspended.
    local: VecDeque<W::Job>,
    /// The slot in the deadline table, from the first job that suspends.
    reserved: Option<DeadlineSlot>,
    /// What the work keeps from one job to the next.
    scratch: W::Scratch,
    pace: BatchPacer,
    phase: WorkerPhase,
}

/// A worker's phase in the wake-up protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkerPhase {
    /// Started, and has never run.
    Waking,
    /// Takes and runs jobs.
    Working,
    /// Polls instead of leaving: until when, and how many polls so far.
    Lingering(Instant, u32),
    /// Has given its place back.
    Gone,
}

impl<W: Work> Worker<W> {
    /// Creates a worker for the place that [`Wake`](super::wake::Wake) has counted for it.
    pub(super) fn new(pool: Arc<Shared<W>>) -> Self {
        let (scratch, pace) = (pool.work.scratch(), BatchPacer::new(pool.slice));
        Self {
            pool,
            local: VecDeque::new(),
            reserved: None,
            scratch,
            pace,
            phase: WorkerPhase::Waking,
        }
    }

    /// Works until there is nothing to do.
    pub(super) async fn run(mut self) {
        self.pool.wake.enter();
        self.phase = WorkerPhase::Working;
        let now = Instant::now();
        self.pace.restart(now);
        let mut dense = self.pool.was_left_less_than(DENSE, now);
        loop {
            if !self.take() {
                if !self.rest(&mut dense).await {
                    return;
                }
                continue;
            }
            let mut suspended = false;
            while let Some((job, cuts)) = self.next() {
                suspended |= self.run_one(job, cuts).await;
                if self.pace.is_slow(Instant::now) {
                    self.give_rest_back();
                }
            }
            if suspended {
                self.pace.suspended();
            } else if self.pace.is_over(Instant::now) {
                if let Some(busy) = self.pace.long_jobs() {
                    panics::reported(|| self.pool.work.kept_thread(busy));
                }
                yield_now().await;
                self.pace.restart(Instant::now());
            }
        }
    }

    /// Runs a job to its end; returns whether it was suspended.
    #[inline]
    async fn run_one(&mut self, job: W::Job, cuts: usize) -> bool {
        let Self {
            pool,
            local,
            reserved,
            scratch,
            ..
        } = self;
        let Some((ticket, future)) = begin(&pool.work, job, scratch) else {
            return false;
        };
        let lent = JobContext {
            pool,
            local,
            reserved,
            cuts,
        };
        let (future, timer) = (pin!(Some(future)), pin!(None));
        let mut running = RunningJob::new(lent, ticket, future, timer);
        let ended = (&mut running).await;
        running.end(ended);
        running.was_suspended()
    }

    /// Fills the empty `local`, and starts another worker if that leaves work behind. Returns
    /// `false` when there is nothing to do.
    #[inline]
    fn take(&mut self) -> bool {
        let pool = &self.pool;
        if pool.wake.is_over() {
            return false;
        }
        let mut more = pool.feed.take(&mut self.local, self.pace.batch);
        if self.local.is_empty() {
            return false;
        }
        if let WorkerPhase::Lingering(..) = self.phase {
            self.phase = WorkerPhase::Working;
            pool.deadlines.stop_lingering();
            more |= pool.wake.found(|| pool.feed.has_work());
        }
        if more {
            pool.call();
        }
        true
    }

    /// Returns the next job of `local`, and how often the pool had been cut short before it was
    /// begun. A worker in excess begins no more, and gives its jobs back.
    ///
    /// To stop everything, set the workers to 0 and then cut. Read in this order, either the cut is
    /// seen as new when the job suspends, or the 0 is seen here.
    #[inline]
    fn next(&mut self) -> Option<(W::Job, usize)> {
        let job = self.local.pop_front()?;
        let cuts = self.pool.cuts();
        if !self.pool.wake.is_over() {
            return Some((job, cuts));
        }
        self.local.push_front(job);
        self.pool.give_back(&mut self.local);
        None
    }

    /// Gives back the jobs taken and not begun, to other workers.
    #[cold]
    fn give_rest_back(&mut self) {
        if !self.local.is_empty() {
            self.pool.give_back(&mut self.local);
            self.pool.call();
        }
    }

    /// Lingers a moment, or leaves. On `true` the worker has to poll again.
    async fn rest(&mut self, dense: &mut bool) -> bool {
        let pool = &self.pool;
        let over = pool.wake.is_over();
        match self.phase {
            WorkerPhase::Lingering(until, looks)
                if !over && looks > 0 && Instant::now() < until =>
            {
                self.phase = WorkerPhase::Lingering(until, looks - 1);
                yield_now().await;
                self.pace.restart(Instant::now());
                return true;
            }
            WorkerPhase::Lingering(..) => *dense = false,
            _ if *dense && !over && pool.deadlines.try_linger() => {
                if pool.wake.linger() {
                    self.phase = WorkerPhase::Lingering(Instant::now() + pool.linger, LOOKS_MAX);
                    // A worker that is quicker than its publisher would find one job at a time, and
                    // both would wait for each other's cache lines; so let a few jobs gather.
                    yield_now().await;
                    self.pace.restart(Instant::now());
                    return true;
                }
                pool.deadlines.stop_lingering();
            }
            _ => {}
        }
        self.leave()
    }

    /// Gives the place back, unless there is work after all; then returns `true`.
    fn leave(&mut self) -> bool {
        let pool = &self.pool;
        let lingering = matches!(self.phase, WorkerPhase::Lingering(..));
        if lingering {
            pool.deadlines.stop_lingering();
        }
        pool.is_left_now();
        self.phase = WorkerPhase::Gone;
        match pool.wake.leave(lingering, || pool.feed.has_work()) {
            LeaveResult::Stayed => {
                self.phase = WorkerPhase::Working;
                true
            }
            LeaveResult::Left { last } => {
                pool.a_worker_left(last);
                false
            }
        }
    }
}

impl<W: Work> Drop for Worker<W> {
    /// Gives back the jobs and the place of a worker that its runtime drops half-way.
    fn drop(&mut self) {
        if self.phase == WorkerPhase::Gone {
            return;
        }
        let pool = &self.pool;
        pool.give_back(&mut self.local);
        let lingering = matches!(self.phase, WorkerPhase::Lingering(..));
        if lingering {
            pool.deadlines.stop_lingering();
        }
        // No other worker is started: it would be dropped, too.
        let last = pool
            .wake
            .abandon(self.phase == WorkerPhase::Waking, lingering);
        pool.a_worker_left(last);
    }
}

/// Begins a job, unless the work refuses it or panics.
#[inline]
fn begin<W: Work>(
    work: &W,
    job: W::Job,
    scratch: &mut W::Scratch,
) -> Option<(W::Ticket, impl Future<Output = W::Output> + Send)> {
    catch_unwind(AssertUnwindSafe(|| work.begin(job, scratch))).unwrap_or_else(|panic| {
        panics::log("beginning a job panicked", panic);
        None
    })
}

/// How many jobs a worker takes at a time, and when it has to yield.
struct BatchPacer {
    slice: Duration,
    /// When the slice began and when the clock was last read; unknown after a suspension, which
    /// yielded anyway.
    since: Option<(Instant, Instant)>,
    batches: u32,
    /// How many jobs have ended since the clock was last read.
    jobs: u32,
    /// How long the long jobs of this slice took, all together.
    long_jobs: Duration,
    /// How many jobs to take next.
    batch: usize,
}

impl BatchPacer {
    fn new(slice: Duration) -> Self {
        Self {
            slice,
            since: None,
            batches: 0,
            jobs: 0,
            long_jobs: Duration::ZERO,
            batch: 1,
        }
    }

    /// Begins a new slice.
    fn restart(&mut self, now: Instant) {
        self.since = Some((now, now));
        self.batches = 0;
        self.jobs = 0;
        self.long_jobs = Duration::ZERO;
    }

    /// Records that a job of the batch was suspended.
    #[inline]
    fn suspended(&mut self) {
        self.since = None;
        self.batch = 1;
    }

    /// Counts a job of a batch; returns whether the batch is too slow to be gone on with.
    #[inline]
    fn is_slow(&mut self, now: impl FnOnce() -> Instant) -> bool {
        self.jobs += 1;
        if self.jobs < JOBS_BETWEEN_LOOKS {
            return false;
        }
        let Some((_began, last)) = &mut self.since else {
            return false;
        };
        let now = now();
        if now.saturating_duration_since(*last) >= self.slice / 4 {
            return true; // seen again at the end of the batch, which is now
        }
        *last = now;
        self.jobs = 0;
        false
    }

    /// Counts a batch whose jobs all finished at once; returns whether the slice is over.
    ///
    /// Only a batch whose last jobs took a small part of the slice is followed by a longer one, and
    /// a slow one by a single job. So jobs that burn time end the slice each by itself, and at worst
    /// [`JOBS_BETWEEN_LOOKS`] of them pass before that is seen.
    #[inline]
    fn is_over(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let now = now();
        let Some((began, last)) = self.since.replace((now, now)) else {
            return false;
        };
        self.since = Some((began, now));
        let took = now.saturating_duration_since(last);
        if took >= self.slice * SLICES_OF_A_LONG_JOB * self.jobs.max(1) {
            self.long_jobs += took;
        }
        self.jobs = 0;
        self.batches += 1;
        let quick = took < self.slice / 4;
        self.batch = if quick {
            (self.batch * 2).min(BATCH_MAX)
        } else {
            1
        };
        now.saturating_duration_since(began) >= self.slice || self.batches >= BATCHES_MAX
    }

    /// Returns how long the long jobs of the slice took, if there were any.
    #[inline]
    fn long_jobs(&self) -> Option<Duration> {
        (!self.long_jobs.is_zero()).then_some(self.long_jobs)
    }
}
