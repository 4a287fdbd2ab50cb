//! Wrappers that expose the pool to the benchmarks.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;

use super::board::DeadlineTable;
use super::feed::JobQueue;
use super::pool::{Pool, PoolOptions};
use super::publisher::Publisher;
use super::ring::{RingProducer, ring};
use super::work::{JobEnd, Work};

/// The deadline table of a runtime.
#[derive(Clone)]
pub struct Deadlines(Arc<DeadlineTable>);

impl Deadlines {
    /// Creates the table of the current runtime.
    #[must_use]
    pub fn new() -> Self {
        Self(DeadlineTable::new(Handle::current()))
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").finish_non_exhaustive()
    }
}

/// A pool that calls a closure for each job.
pub struct BenchPool<J, H, F>(Pool<Call<J, H, F>>)
where
    J: Send + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static;

impl<J, H, F> BenchPool<J, H, F>
where
    J: Send + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    /// Creates a pool of `workers` in the current runtime.
    ///
    /// # Panics
    ///
    /// Panics if the ring cannot have that capacity.
    pub fn new(
        deadlines: &Deadlines,
        capacity: usize,
        workers: usize,
        limit: Option<Duration>,
        handler: H,
    ) -> Self {
        let options = PoolOptions::new(workers, Handle::current(), deadlines.0.clone());
        let work = Call {
            handler,
            limit,
            types: PhantomData,
        };
        match Pool::new(
            work,
            PoolOptions {
                capacity,
                ..options
            },
        ) {
            Ok(pool) => Self(pool),
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a publisher.
    pub fn publisher(&self) -> BenchPublisher<J, H, F> {
        BenchPublisher(self.0.publisher())
    }

    /// Waits until nothing is queued or running.
    pub async fn idle(&self) {
        self.0.idle().await;
    }

    /// Stops at once; drops what runs and what is queued.
    pub async fn stop(&self) {
        self.0.set_workers(0);
        self.0.cut();
        self.0.stopped().await;
        self.0.drain();
    }
}

impl<J, H, F> fmt::Debug for BenchPool<J, H, F>
where
    J: Send + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Publishes to a [`BenchPool`].
pub struct BenchPublisher<J, H, F>(Publisher<Call<J, H, F>>)
where
    J: Send + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static;

impl<J, H, F> BenchPublisher<J, H, F>
where
    J: Send + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    /// Publishes a job, or returns it.
    ///
    /// # Errors
    ///
    /// Returns the job when there is no room.
    pub fn try_publish(&mut self, job: J) -> Result<(), J> {
        self.0.try_publish(job)
    }

    /// Publishes a job, waiting for room. Returns whether the pool was open.
    pub async fn publish(&mut self, job: J) -> bool {
        self.0.publish(job).await.is_ok()
    }

    /// Publishes all of `jobs`, waiting for room. Returns whether the pool was open.
    pub async fn publish_many(&mut self, jobs: &mut VecDeque<J>) -> bool {
        self.0.publish_many(jobs).await.is_ok()
    }
}

impl<J, H, F> fmt::Debug for BenchPublisher<J, H, F>
where
    J: Send + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BenchPublisher").finish_non_exhaustive()
    }
}

struct Call<J, H, F> {
    handler: H,
    limit: Option<Duration>,
    types: PhantomData<fn(J) -> F>,
}

impl<J, H, F> Work for Call<J, H, F>
where
    J: Send + 'static,
    H: Fn(J) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    type Job = J;
    type Ticket = ();
    type Output = ();

    #[inline]
    fn begin(&self, job: J) -> Option<((), impl Future<Output = ()> + Send)> {
        Some(((), (self.handler)(job)))
    }

    #[inline]
    fn end(&self, (): (), _ended: JobEnd<()>) {}

    #[inline]
    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

/// A job queue (ring and stash) without workers, to measure taking alone.
pub struct BenchJobQueue<J> {
    producer: Mutex<RingProducer<J>>,
    feed: JobQueue<J>,
}

impl<J: Send + 'static> BenchJobQueue<J> {
    /// Creates an empty one.
    ///
    /// # Panics
    ///
    /// Panics if the ring cannot have that capacity.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        match ring(capacity) {
            Ok((producer, consumer)) => Self {
                producer: Mutex::new(producer),
                feed: JobQueue::new(consumer),
            },
            Err(error) => panic!("{error}"),
        }
    }

    /// Publishes as many of `jobs` as fit.
    pub fn publish_many(&mut self, jobs: &mut VecDeque<J>) -> usize {
        self.producer
            .get_mut()
            .map_or(0, |producer| producer.try_publish_many(jobs, |job| job))
    }

    /// Takes up to `most` jobs. Returns whether there are more.
    #[inline]
    pub fn take(&self, local: &mut VecDeque<J>, most: usize) -> bool {
        self.feed.take(local, most)
    }
}

impl<J> fmt::Debug for BenchJobQueue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BenchJobQueue").finish_non_exhaustive()
    }
}
