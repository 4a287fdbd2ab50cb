//! bullmq-official, the Rust port by BullMQ's authors.

use std::sync::Arc;
use std::time::Duration;

use bullmq::options::RedisConnectionOptions;
use bullmq::types::RemoveOnFinish;
use bullmq::{BulkJob, Job, JobOptions, Queue, QueueOptions, Worker, WorkerOptions};

use crate::Result;
use crate::contender::{Contender, Setup, To, queue_name};
use crate::payload::now_us;

pub struct OnBullmq {
    queues: Vec<Queue>,
    workers: Vec<Worker>,
}

impl Contender for OnBullmq {
    const BATCH: usize = 1_000;

    async fn open(setup: Setup) -> Result<Self> {
        let connection = RedisConnectionOptions::new().url(&setup.url);
        let (mut queues, mut workers) = (Vec::new(), Vec::new());
        for place in 0..setup.queues {
            let options = QueueOptions::new().connection(connection.clone());
            queues.push(Queue::with_options(&queue_name(place), options).await?);
            if setup.workers == 0 {
                continue;
            }
            let mut options = WorkerOptions::new()
                .connection(connection.clone())
                .concurrency(setup.workers);
            if !setup.as_shipped {
                // Otherwise what is done stays, and what stays costs.
                options = options.remove_on_complete(RemoveOnFinish::Bool(true));
            }
            let watch = Arc::clone(&setup.watch);
            let starts = move |job: Job, _token| {
                let watch = Arc::clone(&watch);
                async move {
                    watch.starts(job.data().as_str().unwrap_or_default());
                    Ok(serde_json::Value::Null)
                }
            };
            workers.push(Worker::with_options(&queue_name(place), starts, options).await?);
        }
        Ok(Self { queues, workers })
    }

    async fn push(&self, to: To, payload: String) -> Result {
        let job = self.queues[to.queue].add("event", payload);
        job.options(options(to)).await?;
        Ok(())
    }

    async fn push_many(&self, to: To, payloads: Vec<String>) -> Result {
        let jobs = payloads
            .into_iter()
            .map(|payload| BulkJob::with_options("event", payload, options(to)));
        self.queues[to.queue].add_bulk(jobs.collect()).await?;
        Ok(())
    }

    async fn left(&self) -> Result<usize> {
        let counts = self.queues[0].get_job_counts().await?;
        let left = counts.waiting + counts.active + counts.delayed + counts.prioritized;
        Ok((left + counts.failed) as usize)
    }

    async fn close(&self) -> Result {
        for worker in &self.workers {
            worker.close(200).await?;
        }
        Ok(())
    }
}

/// A job is due its delay after its timestamp, so together they name an instant.
fn options(to: To) -> JobOptions {
    let Some(due_ms) = to.due_ms else {
        return JobOptions::new();
    };
    let now_ms = now_us() / 1_000;
    JobOptions {
        timestamp: Some(now_ms),
        ..JobOptions::new().delay(Duration::from_millis(due_ms.saturating_sub(now_ms)))
    }
}
