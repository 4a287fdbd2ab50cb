//! Tests: how many jobs run at once.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::{Books, Pool, all_finished, pool, within};
use crate::flow::pool::job_queue::lock;
use crate::flow::pool::work::{JobEnd, Work};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_workers_follows_while_they_run() {
    let permits = Arc::new(Semaphore::new(0));
    let handler = {
        let permits = permits.clone();
        move |_| {
            let permits = permits.clone();
            async move {
                permits
                    .acquire()
                    .await
                    .expect("the semaphore stays open")
                    .forget();
            }
        }
    };
    let pool = pool(Books::new(handler), 0);
    let mut jobs: VecDeque<_> = (0..40).collect();
    within("publishing", pool.publisher().publish_many(&mut jobs))
        .await
        .unwrap();
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!(
        (pool.active(), pool.queued()),
        (0, 40),
        "a paused pool begins nothing"
    );

    let books = pool.work();
    for workers in [3, 5] {
        pool.set_workers(workers);
        books.until_begun(workers).await;
        assert_eq!(books.running.load(SeqCst), workers);
    }
    pool.set_workers(1);
    permits.add_permits(5);
    books
        .until("the new number is kept", |books| {
            lock(&books.ended).len() == 5 && lock(&books.begun).len() == 6
        })
        .await;
    books.most_running.store(0, SeqCst);
    permits.add_permits(35);
    within("idling", pool.idle()).await;
    assert_eq!(books.most_running.load(SeqCst), 1);
    assert_eq!(books.ends(), all_finished(0..40));
}

#[tokio::test]
async fn a_paused_pool_does_not_even_begin_what_its_workers_have_taken() {
    type Act = Box<dyn Fn() + Send + Sync>;
    let pause = Arc::new(std::sync::OnceLock::<Act>::new());
    let handler = {
        let pause = pause.clone();
        move |job: u64| {
            if job == 20 {
                pause.get().expect("set before anything is published")();
            }
            ready(())
        }
    };
    let pool = Arc::new(pool(Books::new(handler), 1));
    let weak = Arc::downgrade(&pool);
    let act = move || weak.upgrade().expect("the pool is there").set_workers(0);
    assert!(pause.set(Box::new(act)).is_ok());

    let mut jobs: VecDeque<_> = (0..64).collect();
    pool.publisher().try_publish_many(&mut jobs);
    pool.work().until_begun(21).await;
    within("stopping", pool.stopped()).await;
    assert!(pool.work().begun().into_iter().eq(0..=20));
    assert!(pool.drain().into_iter().eq(21..64));
}

/// Even jobs may leave; one of them pauses the pool and empties it, as an operator would beside it.
struct Pauses {
    pool: OnceLock<Weak<Pool<Self>>>,
    at: u64,
    /// Whether that job is suspended then, instead of ending.
    is_suspended: bool,
    begun: Mutex<Vec<u64>>,
    left: Mutex<Vec<u64>>,
}

impl Work for Pauses {
    type Job = u64;
    type Scratch = ();
    type Ticket = ();
    type Output = ();
    fn scratch(&self) {}
    fn begin(&self, job: u64, (): &mut ()) -> Option<((), impl Future<Output = ()> + Send)> {
        lock(&self.begun).push(job);
        let pauses = job == self.at;
        if pauses && let Some(pool) = self.pool.get().and_then(Weak::upgrade) {
            pool.set_workers(0);
            pool.withdraw();
        }
        let is_suspended = pauses && self.is_suspended;
        let suspended = move || async move {
            if is_suspended {
                yield_now().await;
            }
        };
        Some(((), suspended()))
    }
    fn end(&self, (): (), _: JobEnd<()>) {}
    fn may_leave(&self, job: &u64) -> bool {
        job.is_multiple_of(2)
    }
    fn left(&self, job: u64) {
        lock(&self.left).push(job);
    }
    fn limit(&self) -> Option<Duration> {
        None
    }
}

#[tokio::test]
async fn what_a_worker_gives_back_to_a_paused_pool_leaves_it() {
    for (at, is_suspended) in [(8, false), (8, true), (20, false), (20, true)] {
        let pauses = Pauses {
            pool: OnceLock::new(),
            at,
            is_suspended,
            begun: Mutex::default(),
            left: Mutex::default(),
        };
        let pool = Arc::new(pool(pauses, 1));
        pool.work().pool.set(Arc::downgrade(&pool)).unwrap();
        let mut jobs: VecDeque<_> = (0..60).collect();
        pool.publisher().try_publish_many(&mut jobs);
        within("stopping", pool.stopped()).await;
        assert!(lock(&pool.work().begun).iter().copied().eq(0..=at));
        let mut left = lock(&pool.work().left).clone();
        left.sort_unstable();
        assert!(
            left.into_iter().eq((at + 2..60).step_by(2)),
            "{at}, {is_suspended}"
        );
        assert_eq!(pool.queued() as u64, (59 - at).div_ceil(2));
    }
}
