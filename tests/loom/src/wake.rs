//! The wake-up protocol of `src/flow/pool/wake.rs`, in every interleaving.
//!
//! The code under test is the real file. Around it stands the least that a pool is: a ring that
//! promises no more than `disruptor` does (a slot is published by a `Release` store and found by an
//! `Acquire` load), a stash behind a lock, and workers that take one job at a time.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Release};
use loom::thread::{self, JoinHandle};

use crate::flow::pool::wake::{Fault, LeaveResult, Wake};

#[test]
fn one_publisher_one_worker() {
    Model {
        jobs: 2,
        ..Model::new()
    }
    .check();
}

#[test]
fn one_publisher_two_workers() {
    Model {
        jobs: 3,
        workers: 2,
        ..Model::new()
    }
    .check();
}

#[test]
fn two_publishers_one_worker() {
    Model {
        publishers: 2,
        ..Model::new()
    }
    .check();
}

#[test]
fn two_publishers_two_workers() {
    Model {
        publishers: 2,
        workers: 2,
        preemptions: 2,
        ..Model::new()
    }
    .check();
}

#[test]
fn one_publisher_one_lingering_worker() {
    Model {
        jobs: 3,
        linger: true,
        ..Model::new()
    }
    .check();
}

#[test]
fn one_publisher_two_lingering_workers() {
    Model {
        workers: 2,
        linger: true,
        ..Model::new()
    }
    .check();
}

#[test]
fn two_publishers_one_lingering_worker() {
    Model {
        publishers: 2,
        linger: true,
        ..Model::new()
    }
    .check();
}

#[test]
fn two_publishers_two_lingering_workers() {
    Model {
        publishers: 2,
        workers: 2,
        linger: true,
        preemptions: 2,
        ..Model::new()
    }
    .check();
}

#[test]
fn a_handler_that_never_ends_keeps_nobody_from_the_next_job() {
    Model {
        workers: 2,
        hangs: Some(0),
        ..Model::new()
    }
    .check();
    Model {
        jobs: 3,
        workers: 2,
        hangs: Some(1),
        linger: true,
        ..Model::new()
    }
    .check();
}

#[test]
fn a_paused_pool_takes_up_its_work_when_it_goes_on() {
    Model {
        workers: 0,
        resumed_with: Some(1),
        ..Model::new()
    }
    .check();
    Model {
        workers: 0,
        resumed_with: Some(2),
        preemptions: 2,
        ..Model::new()
    }
    .check();
}

#[test]
fn fewer_and_then_more_workers_lose_nothing() {
    Model {
        workers: 1,
        paused_first: true,
        resumed_with: Some(1),
        ..Model::new()
    }
    .check();
}

#[test]
#[should_panic(expected = "stranded")]
fn without_the_publishers_fence_a_job_is_stranded() {
    Model {
        fault: Fault::NoPublisherFence,
        ..Model::new()
    }
    .check();
}

#[test]
#[should_panic(expected = "stranded")]
fn without_another_look_before_leaving_a_job_is_stranded() {
    Model {
        fault: Fault::NoExitRecheck,
        ..Model::new()
    }
    .check();
}

#[test]
#[should_panic(expected = "stranded")]
fn without_another_look_after_lingering_in_vain_a_job_is_stranded() {
    Model {
        fault: Fault::NoExitRecheck,
        linger: true,
        ..Model::new()
    }
    .check();
}

#[test]
#[should_panic(expected = "stranded")]
fn without_another_look_after_lingering_a_job_waits_for_a_handler_that_never_ends() {
    let fault = Fault::NoLingerRecheck;
    Model {
        fault,
        jobs: 3,
        workers: 2,
        linger: true,
        hangs: Some(1),
        ..Model::new()
    }
    .check();
}

/// What a run consists of.
#[derive(Clone, Copy)]
struct Model {
    jobs: usize,
    publishers: usize,
    workers: usize,
    linger: bool,
    /// The handler of this job never ends, so its worker keeps its place.
    hangs: Option<usize>,
    /// The limit is set to 0 before it is set to `resumed_with`.
    paused_first: bool,
    /// Another thread sets this limit while jobs are published.
    resumed_with: Option<usize>,
    fault: Fault,
    preemptions: usize,
}

impl Model {
    fn new() -> Self {
        Self {
            jobs: 2,
            publishers: 1,
            workers: 1,
            linger: false,
            hangs: None,
            paused_first: false,
            resumed_with: None,
            fault: Fault::None,
            preemptions: 3,
        }
    }

    fn check(self) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(self.preemptions);
        builder.check(move || {
            let pool = Pool::new(self);
            let mut others: Vec<_> = (1..self.publishers)
                .map(|publisher| {
                    let pool = pool.clone();
                    thread::spawn(move || publish_all_of(&pool, publisher))
                })
                .collect();
            if let Some(limit) = self.resumed_with {
                let pool = pool.clone();
                others.push(thread::spawn(move || {
                    if self.paused_first {
                        set_limit(&pool, 0);
                    }
                    set_limit(&pool, limit);
                }));
            }
            publish_all_of(&pool, 0);
            others.into_iter().for_each(|other| other.join().unwrap());
            pool.check_the_end();
        });
    }
}

/// The reading side: jobs below `drained` have left the ring, those below `taken` the stash.
struct Feed {
    drained: usize,
    taken: usize,
}

/// The least that a pool is.
struct Pool {
    model: Model,
    wake: Wake,
    published: Vec<AtomicBool>,
    feed: Mutex<Feed>,
    /// Bookkeeping that must not order anything, hence not loom's.
    workers: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    fn new(model: Model) -> Arc<Self> {
        Arc::new(Self {
            model,
            wake: Wake::faulty(model.workers, model.fault),
            published: (0..model.jobs).map(|_| AtomicBool::new(false)).collect(),
            feed: Mutex::new(Feed {
                drained: 0,
                taken: 0,
            }),
            workers: std::sync::Mutex::default(),
        })
    }

    /// Takes the next job, and says whether it leaves any that nobody else will be called for.
    fn take(&self) -> Option<(usize, bool)> {
        let mut feed = self.feed.lock().unwrap();
        let before = feed.drained;
        if feed.taken == feed.drained {
            while self.is_published(feed.drained) {
                feed.drained += 1;
            }
        }
        let job = feed.taken;
        (job < feed.drained).then(|| {
            feed.taken += 1;
            let has_drained = feed.drained > before;
            (
                job,
                feed.taken < feed.drained || (!has_drained && self.is_published(feed.drained)),
            )
        })
    }

    fn has_work(&self) -> bool {
        let feed = self.feed.lock().unwrap();
        feed.taken < feed.drained || self.is_published(feed.drained)
    }

    fn is_published(&self, job: usize) -> bool {
        self.published
            .get(job)
            .is_some_and(|published| published.load(Acquire))
    }

    fn check_the_end(&self) {
        loop {
            let worker = self.workers.lock().unwrap().pop();
            match worker {
                Some(worker) => worker.join().unwrap(),
                None => break,
            }
        }
        let taken = self.feed.lock().unwrap().taken;
        assert_eq!(taken, self.published.len(), "a job was stranded");
        let hanging = usize::from(self.model.hangs.is_some());
        assert_eq!(
            self.wake.active(),
            hanging,
            "a worker did not give its place back"
        );
    }
}

fn publish_all_of(pool: &Arc<Pool>, publisher: usize) {
    for job in (publisher..pool.model.jobs).step_by(pool.model.publishers) {
        pool.published[job].store(true, Release);
        if pool.wake.call() {
            start_worker(pool);
        }
    }
}

fn set_limit(pool: &Arc<Pool>, limit: usize) {
    if pool.wake.set_limit(limit, || pool.has_work()) {
        start_worker(pool);
    }
}

fn start_worker(pool: &Arc<Pool>) {
    let worker = thread::spawn({
        let pool = pool.clone();
        move || work(&pool)
    });
    pool.workers.lock().unwrap().push(worker);
}

fn work(pool: &Arc<Pool>) {
    pool.wake.enter();
    // Lingering once a life keeps the model small.
    let (mut may_linger, mut lingering) = (pool.model.linger, false);
    loop {
        let over = pool.wake.is_over();
        match if over { None } else { pool.take() } {
            Some((job, more)) => {
                let left_behind = lingering && pool.wake.found(|| pool.has_work());
                lingering = false;
                if (more || left_behind) && pool.wake.call() {
                    start_worker(pool);
                }
                if pool.model.hangs == Some(job) {
                    return;
                }
            }
            None if may_linger && !over => {
                may_linger = false;
                lingering = pool.wake.linger();
            }
            None => match pool.wake.leave(lingering, || pool.has_work()) {
                LeaveResult::Stayed => lingering = false,
                LeaveResult::Left { .. } => return,
            },
        }
    }
}
