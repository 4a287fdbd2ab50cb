//! apalis with apalis-redis.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use apalis::prelude::*;
use apalis_redis::{Config, ConnectionManager, RedisStorage};
use redis::aio::{ConnectionManagerConfig, MultiplexedConnection};
use tokio::task::AbortHandle;

use crate::Result;
use crate::contender::{CALL_LIMIT, Contender, Setup, To, queue_name};
use crate::payload::Watch;

/// Shorter ones lose their wake-up more often: it does when a fetch outlasts the interval.
const POLL: Duration = Duration::from_millis(20);
/// A heartbeat fetches too, and so is the net under a wake-up that was lost.
const HEARTBEAT: Duration = Duration::from_secs(1);
const WORKER: &str = "worker";

pub struct OnApalis {
    storages: Vec<RedisStorage<String>>,
    workers: Vec<AbortHandle>,
    /// To look with, beside the library, which cannot tell cheaply what is left.
    eyes: MultiplexedConnection,
}

async fn starts(payload: String, watch: Data<Arc<Watch>>) -> Result<(), BoxDynError> {
    watch.starts(&payload);
    Ok(())
}

impl Contender for OnApalis {
    const BATCH: usize = 1_000;
    /// Its fetch takes all that is due in one go, and fails for good at 8,000.
    const BACKLOG_MAX: usize = 4_000;
    const HERD_MAX: usize = 7_000;

    async fn open(setup: Setup) -> Result<Self> {
        let client = redis::Client::open(setup.url.as_str())?;
        let eyes = client.get_multiplexed_async_connection().await?;
        let (mut storages, mut workers) = (Vec::new(), Vec::new());
        for place in 0..setup.queues {
            let mut config = Config::default().queue(queue_name(place));
            if !setup.as_shipped {
                // Handlers that end at once need no lease of their own; the set of what a worker
                // has in flight stays, and with it what is handed on when the worker dies.
                config = config.batch_size(100).heartbeat_interval(HEARTBEAT);
                config = config.lock_tasks(false).emit_events(false);
            }
            let limits = ConnectionManagerConfig::new().set_response_timeout(Some(CALL_LIMIT));
            let connection = client.get_connection_manager_with_config(limits).await?;
            let storage = RedisStorage::<String, ConnectionManager>::new(connection);
            let storage = storage.with_config(config);
            storages.push(storage.clone());
            if setup.workers == 0 {
                continue;
            }
            let watch = Arc::clone(&setup.watch);
            let worker = if setup.as_shipped {
                let worker = WorkerBuilder::new(WORKER)
                    .backend(storage)
                    .data(watch)
                    .concurrency(setup.workers)
                    .build(starts);
                tokio::spawn(async move { tell(worker.run().await) })
            } else {
                let worker = WorkerBuilder::new(WORKER)
                    .backend(storage.poll_with_interval(POLL))
                    .data(watch)
                    .concurrency(setup.workers)
                    .build(starts);
                tokio::spawn(async move { tell(worker.run().await) })
            };
            workers.push(worker.abort_handle());
        }
        Ok(Self {
            storages,
            workers,
            eyes,
        })
    }

    async fn push(&self, to: To, payload: String) -> Result {
        let mut storage = self.storages[to.queue].clone();
        storage.push_task(task(to, payload)).await?;
        Ok(())
    }

    async fn push_many(&self, to: To, payloads: Vec<String>) -> Result {
        let mut storage = self.storages[to.queue].clone();
        let tasks = payloads.into_iter().map(move |payload| task(to, payload));
        storage.push_all(futures_util::stream::iter(tasks)).await?;
        Ok(())
    }

    async fn left(&self) -> Result<usize> {
        let config = self.storages[0].get_config();
        let in_flight = format!("{}:{WORKER}", config.inflight_jobs_set());
        let counts: (usize, usize, usize) = redis::pipe()
            .zcard(config.scheduled_jobs_set())
            .llen(config.active_jobs_list())
            .scard(in_flight)
            .query_async(&mut self.eyes.clone())
            .await?;
        Ok(counts.0 + counts.1 + counts.2)
    }

    async fn close(&self) -> Result {
        for worker in &self.workers {
            worker.abort();
        }
        Ok(())
    }
}

fn task(to: To, payload: String) -> Task<String> {
    let task = TaskBuilder::new(payload);
    match to.due_ms {
        Some(ms) => task.run_at_time(UNIX_EPOCH + Duration::from_millis(ms)),
        None => task,
    }
    .build()
}

/// Says why a worker has ended, since nothing else would.
fn tell<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        eprintln!("apalis-redis: the worker has ended: {error}");
    }
}
