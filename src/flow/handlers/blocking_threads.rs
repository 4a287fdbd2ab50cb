//! A thread pool for the blocking handlers of one queue.
//!
//! A job never waits behind another one: it runs on an idle thread, or on a new one. The caller
//! bounds the number of threads: a queue has at most one job here for each of its workers, and a
//! worker waits until its job has ended, however long that takes. So hanging handlers of one queue
//! take no thread from another queue.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::{Error, ErrorKind};
use crate::outage::Outage;
use crate::panics;

/// How long an idle thread is kept: starting one costs some 20 µs.
const KEEP_IDLE: Duration = Duration::from_secs(10);

/// A job; it catches its own panics.
type Job = Box<dyn FnOnce() + Send>;

/// The threads of one queue. They start on demand, and end after an idle time or when the pool is
/// dropped; a thread whose job never returns is never ended.
pub(crate) struct BlockingThreads {
    shared: Arc<Shared>,
    /// Whether virtual time stands still while a job runs.
    stops_time: bool,
    outage: Outage,
}

struct Shared {
    name: String,
    keep_idle: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Jobs for idle threads; never more than there are of those.
    jobs: VecDeque<Job>,
    idle: usize,
    alive: usize,
    is_closed: bool,
}

impl BlockingThreads {
    /// Creates an empty pool for the handlers of `queue`.
    pub(crate) fn new(queue: &str, stops_time: bool) -> Self {
        Self::keeping(queue, stops_time, KEEP_IDLE)
    }

    fn keeping(queue: &str, stops_time: bool, keep_idle: Duration) -> Self {
        let shared = Shared {
            name: format!("duly-{queue}"),
            keep_idle,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            stops_time,
            outage: Outage::of("threads of blocking handlers"),
        }
    }

    /// Runs `job` at once, on an idle thread or a new one.
    ///
    /// # Errors
    ///
    /// When the system cannot start a thread, which is logged; the job is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let job: Job = if !self.stops_time {
            Box::new(job)
        } else {
            stopping_time(job)
        };
        let mut state = self.shared.lock();
        if state.idle > state.jobs.len() {
            state.jobs.push_back(job);
            drop(state);
            self.shared.changed.notify_one();
            return Ok(());
        }
        state.alive += 1;
        drop(state);
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name(self.shared.name.clone());
        let started = thread.spawn(move || shared.serve(job));
        match &started {
            Ok(_) => self.outage.succeeded(&()),
            Err(error) => {
                self.shared.lock().alive -= 1;
                let what = format!("no thread {:?} could be started: {error}", self.shared.name);
                self.outage
                    .failed((), &Error::new(ErrorKind::Unavailable, what));
            }
        }
        started.map(drop)
    }

    #[cfg(test)]
    fn alive(&self) -> usize {
        self.shared.lock().alive
    }
}

impl Drop for BlockingThreads {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// The loop of one thread: runs `job` and those that follow until it has been idle for a while.
    fn serve(&self, job: Job) {
        let mut next = Some(job);
        while let Some(job) = next {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                panics::log("a job panicked on its thread", panic);
            }
            next = self.next();
        }
    }

    /// Returns the next job; on `None`, the thread is no longer counted and has to end.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        state.idle += 1;
        let is_idle = |state: &mut State| state.jobs.is_empty() && !state.is_closed;
        let changed = &self.changed;
        changed.wait_while_for(&mut state, is_idle, self.keep_idle);
        state.idle -= 1;
        let job = state.jobs.pop_front();
        if job.is_none() {
            state.alive -= 1;
        }
        job
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Wraps a job so that paused time stands still while it runs: the runtime does not know of the
/// thread, but waits for a blocking task of its own.
fn stopping_time(job: impl FnOnce() + Send + 'static) -> Job {
    let (running, ended) = channel::<()>();
    // It returns when the job has run or was dropped; its result is not needed.
    drop(tokio::task::spawn_blocking(move || ended.recv()));
    Box::new(move || {
        let _running = running;
        job();
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender};
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Runs a job that waits to be released; returns when it runs.
    fn hang(threads: &BlockingThreads) -> Sender<()> {
        let (running, runs) = channel();
        let (release, released): (Sender<()>, Receiver<()>) = channel();
        let job = move || {
            running.send(()).unwrap();
            let _ = released.recv();
        };
        threads.run(job).unwrap();
        runs.recv_timeout(LONG).unwrap();
        release
    }

    /// Waits until `done`, which other threads bring about.
    #[allow(clippy::disallowed_methods)] // real time: this waits for threads
    fn until(done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < LONG, "it never came true");
            thread::yield_now();
        }
    }

    #[test]
    fn a_job_never_waits_behind_one_that_hangs() {
        let threads = BlockingThreads::new("hung", false);
        let hung: Vec<_> = (0..50).map(|_| hang(&threads)).collect();
        assert_eq!(threads.alive(), 50);
        drop(hang(&threads));
        drop(hung);
    }

    #[test]
    fn an_idle_thread_is_used_again_and_ends_after_a_while() {
        let threads = BlockingThreads::keeping("idle", false, Duration::from_millis(20));
        drop(hang(&threads));
        until(|| threads.shared.lock().idle == 1 || threads.alive() == 0);
        until(|| threads.alive() == 0);
        let threads = BlockingThreads::keeping("busy", false, LONG);
        for _ in 0..100 {
            drop(hang(&threads));
            until(|| threads.shared.lock().idle == 1);
        }
        assert_eq!(threads.alive(), 1);
        let shared = Arc::clone(&threads.shared);
        drop(threads);
        until(|| shared.lock().alive == 0);
    }

    #[test]
    fn a_panic_ends_its_job_and_not_the_thread() {
        let threads = BlockingThreads::keeping("panics", false, LONG);
        threads.run(|| panic!("a job")).unwrap();
        until(|| threads.shared.lock().idle == 1);
        drop(hang(&threads));
        assert_eq!(threads.alive(), 1);
    }
}
