//! A pool of duly's workers that calls a closure for each job, and a ring without workers.

use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use duly::__internal::pool::{
    DeadlineTable, JobEnd, JobQueue, Pool, PoolOptions, Publisher, RingProducer, Work, ring,
};
use tokio::runtime::Handle;

/// The deadline board of the current runtime.
pub(crate) fn board() -> Arc<DeadlineTable> {
    DeadlineTable::new(Handle::current())
}

/// A pool in the current runtime.
pub(crate) struct ClosurePool<J, H, F>(Pool<Call<J, H, F>>)
where
    J: Send + Sync + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static;

impl<J, H, F> ClosurePool<J, H, F>
where
    J: Send + Sync + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    pub(crate) fn new(
        board: &Arc<DeadlineTable>,
        capacity: usize,
        workers: usize,
        limit: Option<Duration>,
        handler: H,
    ) -> Self {
        let options = PoolOptions {
            capacity,
            ..PoolOptions::new(workers, Handle::current(), board.clone())
        };
        let work = Call {
            handler,
            limit,
            types: PhantomData,
        };
        Self(Pool::new(work, options).expect("a capacity that a ring can have"))
    }

    pub(crate) fn publisher(&self) -> Publisher<Call<J, H, F>> {
        self.0.publisher()
    }

    /// Waits until nothing is queued and nothing runs.
    pub(crate) async fn idle(&self) {
        self.0.idle().await;
    }

    /// Stops at once, and drops what runs and what is queued.
    pub(crate) async fn stop(&self) {
        self.0.set_workers(0);
        self.0.cut();
        self.0.stopped().await;
        self.0.drain();
    }
}

/// The call of a closure.
pub(crate) struct Call<J, H, F> {
    handler: H,
    limit: Option<Duration>,
    types: PhantomData<fn(J) -> F>,
}

impl<J, H, F> Work for Call<J, H, F>
where
    J: Send + Sync + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    type Job = J;
    type Scratch = ();
    type Ticket = ();
    type Output = ();

    #[inline]
    fn scratch(&self) {}

    #[inline]
    fn begin(&self, job: J, (): &mut ()) -> Option<((), impl Future<Output = ()> + Send)> {
        Some(((), (self.handler)(job)))
    }

    #[inline]
    fn end(&self, (): (), _ended: JobEnd<()>) {}

    #[inline]
    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

/// A ring and its stash without workers, to measure taking alone.
pub(crate) struct Backlog<J> {
    producer: RingProducer<J>,
    feed: JobQueue<J>,
}

impl<J: Send + Sync + 'static> Backlog<J> {
    pub(crate) fn new(capacity: usize) -> Self {
        let (producer, consumer) = ring(capacity).expect("a capacity that a ring can have");
        let feed = JobQueue::new(consumer);
        Self { producer, feed }
    }

    /// Publishes what fits.
    pub(crate) fn publish_many(&mut self, jobs: &mut VecDeque<J>) -> usize {
        self.producer.try_publish_many(jobs, |job| job)
    }

    /// Takes up to `most` jobs; whether there are more.
    #[inline]
    pub(crate) fn take(&self, local: &mut VecDeque<J>, most: usize) -> bool {
        self.feed.take(local, most)
    }
}
