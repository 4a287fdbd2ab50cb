//! A consumer: one queue of this process, with its ring, workers and handler.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use tokio::runtime::{Handle, Runtime};

use crate::core::step::{Input, Job};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Envelope, QueueName};
use crate::flow::handlers::attempt::Attempt;
use crate::flow::handlers::executor::{Executor, Task};
use crate::flow::handlers::waits::{EndlessWait, QueueWaits};
use crate::flow::pool::deadlines::DeadlineTable;
use crate::flow::pool::publisher::Publisher;
use crate::flow::pool::{Pool, PoolOptions};
use crate::panics::{self, Contained};

/// A consumer, whatever its payload type.
pub(crate) trait Consumer: Send + Sync {
    /// Publishes leased events into the ring.
    fn publish_jobs(&self, jobs: Vec<Job<Arc<Envelope>>>);

    /// Sets how many handlers may run at once; 0 pauses. No effect once it is stopped or closed.
    fn set_workers(&self, workers: usize);

    /// Returns how many handlers may run at once.
    fn workers(&self) -> usize;

    /// Returns how many events wait in the ring and how many workers are active.
    fn load(&self) -> (usize, usize);

    /// Returns the number of its pool.
    fn pool(&self) -> u32;

    /// Returns whether its handlers block their threads.
    fn blocks(&self) -> bool;

    /// Returns how many workers are held by handlers that run on after their timeout.
    fn stuck(&self) -> usize;

    /// Releases the leased events that wait in the ring; published values stay.
    fn withdraw(&self);

    /// Starts no more handlers, waits for those that run, and releases the events that never
    /// started.
    fn stop(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Accepts and starts nothing more; whoever waits for room is refused.
    fn close(&self);

    /// Drops the handlers that still run.
    fn cut(&self);

    /// Returns this consumer's [`ValuePublisher`] for its payload type.
    fn port(self: Arc<Self>) -> Box<dyn Any + Send + Sync>;
}

/// Publishes values straight into a ring.
pub(crate) trait ValuePublisher<T>: Send + Sync {
    /// Publishes a value, or returns it when the ring is full or the bus is stopping.
    fn try_publish(&self, payload: T) -> Result<(), (T, Error)>;

    /// Publishes as many values as there is room for, from the front; returns their number.
    fn try_publish_many(&self, payloads: &mut VecDeque<T>) -> usize;

    /// Publishes all values in order, waiting for room.
    fn publish_many<'a>(&'a self, payloads: &'a mut VecDeque<T>) -> BoxFuture<'a, Result<()>>;

    /// Publishes a value, waiting for room.
    fn publish(&self, payload: T) -> BoxFuture<'_, Result<()>>;

    /// Returns an independent port to the same ring.
    fn split(&self) -> Box<dyn ValuePublisher<T>>;
}

/// The consumer of a handler.
pub(crate) struct HandlerConsumer<A: Attempt>
where
    A::Payload: DeserializeOwned,
{
    pool: Pool<Executor<A>>,
    /// The mover's publisher.
    publisher: Mutex<Publisher<Executor<A>>>,
    runtime: Handle,
    /// The queue's own runtime, for handlers that are heavy on the processor.
    own_runtime: Mutex<Option<Runtime>>,
}

impl<A: Attempt> HandlerConsumer<A>
where
    A::Payload: DeserializeOwned,
{
    /// Creates the ring; workers start when there is work.
    ///
    /// # Errors
    ///
    /// When the ring size is invalid, or the queue's own runtime cannot be started.
    pub(crate) fn new(
        executor: Executor<A>,
        runtime: &Handle,
        deadlines: &Arc<DeadlineTable>,
    ) -> Result<Self> {
        let options = Arc::clone(&executor.deps.options);
        let own_runtime = if !options.dedicated {
            None
        } else {
            Some(own_runtime(&executor.deps.surroundings.queue)?)
        };
        let (runtime, deadlines) = match &own_runtime {
            None => (runtime.clone(), Arc::clone(deadlines)),
            Some(own) => (
                own.handle().clone(),
                DeadlineTable::new(own.handle().clone()),
            ),
        };
        let pool_options = PoolOptions {
            capacity: options.ring,
            linger: options.linger,
            ..PoolOptions::new(options.workers, runtime.clone(), deadlines)
        };
        let pool = Pool::new(executor, pool_options)
            .map_err(|error| Error::invalid("invalid ring size").because(error))?;
        let publisher = Mutex::new(pool.publisher());
        pool.work().deps.waits.set_workers(options.workers);
        Ok(Self {
            pool,
            publisher,
            runtime,
            own_runtime: Mutex::new(own_runtime),
        })
    }

    fn publisher(&self) -> MutexGuard<'_, Publisher<Executor<A>>> {
        self.publisher.lock()
    }

    fn hand_back(&self, tasks: impl IntoIterator<Item = Task<A::Payload>>) {
        let mut forgotten = 0_usize;
        for task in tasks {
            match task {
                Task::Stored(job) => self.pool.work().hand_back(&job),
                Task::Published(_) => forgotten += 1,
            }
        }
        if forgotten > 0 {
            let queue = &self.pool.work().deps.surroundings.queue;
            let line = || tracing::warn!(%queue, forgotten, "published events dropped at shutdown");
            panics::reported(line);
        }
    }
}

impl<A: Attempt> Consumer for HandlerConsumer<A>
where
    A::Payload: DeserializeOwned,
{
    fn publish_jobs(&self, jobs: Vec<Job<Arc<Envelope>>>) {
        let mut tasks: VecDeque<_> = jobs
            .into_iter()
            .map(|job| Task::Stored(Box::new(job)))
            .collect();
        let withdrawals = self.publisher().withdrawals();
        self.publisher().try_publish_many(&mut tasks);
        if tasks.is_empty() {
            return;
        }
        // Credits reserve room for these, but values published in memory took it: wait for room, and
        // no longer than what waits in the ring, or nobody runs what this node holds.
        let mut publisher = self.pool.publisher();
        let inbox = Arc::clone(&self.pool.work().deps.inbox);
        self.runtime.spawn(async move {
            publisher
                .publish_until_withdrawn(&mut tasks, withdrawals)
                .await;
            publisher.withdraw_if_paused();
            for task in tasks {
                if let Task::Stored(job) = task {
                    inbox.add(Input::Ended {
                        bucket: job.bucket,
                        settlement: job.release(),
                    });
                }
            }
        });
    }

    fn set_workers(&self, workers: usize) {
        self.pool.work().deps.waits.set_workers(workers);
        self.pool.set_workers(workers);
    }

    fn workers(&self) -> usize {
        self.pool.workers()
    }

    fn load(&self) -> (usize, usize) {
        (self.pool.queued(), self.pool.active())
    }

    fn pool(&self) -> u32 {
        self.pool.number()
    }

    fn blocks(&self) -> bool {
        !A::CAN_BE_DROPPED
    }

    fn stuck(&self) -> usize {
        self.pool.work().handler.stuck()
    }

    fn withdraw(&self) {
        self.pool.withdraw();
    }

    fn stop(self: Arc<Self>) -> BoxFuture<'static, ()> {
        self.pool.halt();
        self.hand_back(self.pool.drain());
        Box::pin(async move {
            self.pool.stopped().await;
            self.hand_back(self.pool.drain());
        })
    }

    fn close(&self) {
        self.pool.close();
        self.pool.halt();
    }

    fn cut(&self) {
        self.pool.cut();
    }

    fn port(self: Arc<Self>) -> Box<dyn Any + Send + Sync> {
        let port: Arc<dyn ValuePublisher<A::Payload>> = Arc::new(HandlerPublisher::of(&self.pool));
        Box::new(port)
    }
}

impl<A: Attempt> Drop for HandlerConsumer<A>
where
    A::Payload: DeserializeOwned,
{
    fn drop(&mut self) {
        let own = self.own_runtime.get_mut().take();
        if let Some(runtime) = own {
            runtime.shutdown_background(); // a runtime must not block inside another one
        }
    }
}

/// Publishes values of one type into one ring.
struct HandlerPublisher<A: Attempt>
where
    A::Payload: DeserializeOwned,
{
    publisher: Mutex<Publisher<Executor<A>>>,
    waits: QueueWaits,
    queue: QueueName,
}

impl<A: Attempt> HandlerPublisher<A>
where
    A::Payload: DeserializeOwned,
{
    fn of(pool: &Pool<Executor<A>>) -> Self {
        let deps = &pool.work().deps;
        Self {
            publisher: Mutex::new(pool.publisher()),
            waits: deps.waits.clone(),
            queue: deps.surroundings.queue.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Publisher<Executor<A>>> {
        self.publisher.lock()
    }

    fn is_endless(&self, _: EndlessWait) -> Error {
        Error::new(
            ErrorKind::Full,
            format!(
                "the ring of queue {} is full, and every worker that could make room waits for room \
                 itself; push the value instead, or publish it after the handler has returned",
                self.queue
            ),
        )
    }
}

impl<A: Attempt> ValuePublisher<A::Payload> for HandlerPublisher<A>
where
    A::Payload: DeserializeOwned,
{
    fn try_publish(&self, payload: A::Payload) -> Result<(), (A::Payload, Error)> {
        let mut publisher = self.lock();
        match publisher.try_publish(Task::Published(Contained::new(payload))) {
            Ok(()) => Ok(()),
            Err(Task::Published(payload)) if publisher.is_closed() => {
                Err((payload.into_inner(), stopping()))
            }
            Err(Task::Published(payload)) => Err((
                payload.into_inner(),
                Error::new(ErrorKind::Full, "the ring is full; try again later"),
            )),
            Err(Task::Stored(_)) => unreachable!("a publisher returns the task that it was given"),
        }
    }

    fn try_publish_many(&self, payloads: &mut VecDeque<A::Payload>) -> usize {
        let task = |payload| Task::Published(Contained::new(payload));
        self.lock().try_publish_many_as(payloads, task)
    }

    fn publish_many<'a>(
        &'a self,
        payloads: &'a mut VecDeque<A::Payload>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            while self.try_publish_many(payloads) > 0 {}
            if payloads.is_empty() {
                return Ok(());
            }
            let waiting = self.waits.wait().map_err(|it| self.is_endless(it))?;
            let mut publisher = self.lock().clone();
            let task = |payload| Task::Published(Contained::new(payload));
            tokio::select! {
                biased;
                published = publisher.publish_many_as(payloads, task) => {
                    published.map_err(|_closed| stopping())
                }
                endless = waiting.refused() => Err(self.is_endless(endless)),
            }
        })
    }

    fn publish(&self, payload: A::Payload) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let task = match self.try_publish(payload) {
                Ok(()) => return Ok(()),
                Err((payload, error)) if error.kind() == ErrorKind::Full => {
                    Task::Published(Contained::new(payload))
                }
                Err((_, error)) => return Err(error),
            };
            let waiting = self.waits.wait().map_err(|it| self.is_endless(it))?;
            let mut publisher = self.lock().clone();
            tokio::select! {
                biased;
                published = publisher.publish(task) => published.map_err(|_closed| stopping()),
                endless = waiting.refused() => Err(self.is_endless(endless)),
            }
        })
    }

    fn split(&self) -> Box<dyn ValuePublisher<A::Payload>> {
        Box::new(Self {
            publisher: Mutex::new(self.lock().clone()),
            waits: self.waits.clone(),
            queue: self.queue.clone(),
        })
    }
}

fn stopping() -> Error {
    Error::closed("the bus is stopping and accepts no more events")
}

fn own_runtime(queue: &str) -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(format!("duly-{queue}"))
        .enable_all()
        .build()
        .map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("queue {queue}: failed to start its own runtime"),
            )
            .because(error)
        })
}
