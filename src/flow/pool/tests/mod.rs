//! Tests of the pool from inside the crate, and their helpers.

mod beginning;
mod ending;
mod publishing;
mod stopping;
mod stress;
mod workers;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{Pool, PoolOptions};
use crate::flow::pool::deadlines::DeadlineTable;
use crate::flow::pool::job_queue::lock;
use crate::flow::pool::work::{JobEnd, Work};

/// Longer than anything here takes; only a lost job waits that long.
const NEVER: Duration = Duration::from_secs(60);

/// Work whose handler is a closure, and which logs what was begun and how it ended.
struct Books<H> {
    handler: H,
    limit: Option<Duration>,
    begun: Mutex<Vec<u64>>,
    ended: Mutex<Vec<(u64, JobEnd<()>)>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    changed: Notify,
}

impl<H, F> Books<H>
where
    H: Fn(u64) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    fn new(handler: H) -> Self {
        Self {
            handler,
            limit: None,
            begun: Mutex::default(),
            ended: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            changed: Notify::new(),
        }
    }

    fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    fn begun(&self) -> Vec<u64> {
        lock(&self.begun).clone()
    }

    /// Returns how each job ended; fails if one ended twice.
    fn ends(&self) -> BTreeMap<u64, JobEnd<()>> {
        let ended = lock(&self.ended).clone();
        let ends: BTreeMap<_, _> = ended.iter().cloned().collect();
        assert_eq!(ends.len(), ended.len(), "a job ended twice");
        ends
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if done(self) {
                    return;
                }
                changed.await;
            }
        };
        assert!(
            timeout(NEVER, waiting).await.is_ok(),
            "timed out waiting until {what}"
        );
    }

    async fn until_begun(&self, count: usize) {
        self.until("so many have begun", |books| {
            lock(&books.begun).len() >= count
        })
        .await;
    }

    async fn until_ended(&self, count: usize) {
        self.until("so many have ended", |books| {
            lock(&books.ended).len() >= count
        })
        .await;
    }
}

impl<H, F> Work for Books<H>
where
    H: Fn(u64) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    type Job = u64;
    type Scratch = ();
    type Ticket = u64;
    type Output = ();

    fn scratch(&self) {}

    fn begin(&self, job: u64, (): &mut ()) -> Option<(u64, impl Future<Output = ()> + Send)> {
        let future = (self.handler)(job);
        lock(&self.begun).push(job);
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.most_running.fetch_max(running, SeqCst);
        self.changed.notify_waiters();
        Some((job, future))
    }

    fn end(&self, job: u64, ended: JobEnd<()>) {
        self.running.fetch_sub(1, SeqCst);
        lock(&self.ended).push((job, ended));
        self.changed.notify_waiters();
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

/// Creates a pool of `workers` in the current runtime, with the smallest ring.
fn pool<W: Work>(work: W, workers: usize) -> Pool<W> {
    let runtime = Handle::current();
    let deadlines = DeadlineTable::new(runtime.clone());
    let options = PoolOptions {
        capacity: 64,
        ..PoolOptions::new(workers, runtime, deadlines)
    };
    Pool::new(work, options).expect("the capacity is good")
}

async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(NEVER, future).await {
        Ok(output) => output,
        Err(_elapsed) => panic!("{what} took for ever"),
    }
}

/// Polls once.
async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

fn all_finished(jobs: impl IntoIterator<Item = u64>) -> BTreeMap<u64, JobEnd<()>> {
    jobs.into_iter()
        .map(|job| (job, JobEnd::Finished(())))
        .collect()
}
