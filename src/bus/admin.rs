//! Administrative operations: statistics, and how many workers a queue has.

use crate::bus::names::Doubt;
use crate::bus::{Bus, Inner};
use crate::config::queue_meant;
use crate::core::op::{Stats, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketId, BucketKey, QueueName};

/// How many events of a queue stand where, in all of its buckets.
pub type QueueStats = Stats;

/// What a queue of this process is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLoad {
    /// The queue.
    pub queue: QueueName,
    /// Events that wait in its ring.
    pub queued: usize,
    /// Workers that are active: an upper bound of the handlers that run.
    pub active: usize,
    /// Workers there may be; 0 means paused.
    pub workers: usize,
    /// How many events its ring takes: those that wait there and those that are handled, together.
    pub ring: usize,
}

impl QueueLoad {
    /// Whether it has no room for another event: every worker is active, or the ring is full.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.active >= self.workers || self.queued + self.active >= self.ring
    }
}

impl Bus {
    /// How many events of a queue stand where.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that is not legal;
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for one that is unknown and a known one
    /// spelled otherwise (`order_close` for `order-close`); or what the store answers.
    pub async fn stats(&self, queue: &str) -> Result<QueueStats> {
        let mut sum = Stats::default();
        for (_, stats) in self.bucket_stats(queue).await? {
            sum += stats;
        }
        Ok(sum)
    }

    /// How many events of a queue stand where, bucket by bucket, in the order of the buckets.
    ///
    /// A bucket with many more events than the others is a hot one: most often a key or a unique
    /// key that many events share. Buckets that the queue has no more, because their number was
    /// lowered, are listed too; one that never had an event may be missing.
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// queue.event(7).after(Duration::from_secs(60)).key("customer:8").send().await?;
    ///
    /// let stats = bus.bucket_stats("order-close").await?;
    /// let hottest = stats.iter().max_by_key(|(_, stats)| stats.scheduled);
    /// assert_eq!(hottest.map(|(_, stats)| stats.scheduled), Some(1));
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn bucket_stats(&self, queue: &str) -> Result<Vec<(BucketId, QueueStats)>> {
        let queue = QueueName::new(queue)?;
        let buckets = self.inner.buckets_of(&queue).await?;
        if buckets.is_empty() {
            self.inner.check_known(&queue, Doubt::Spelling).await?;
        }
        let mut found = Vec::new();
        for bucket in buckets {
            let stats = self.inner.apply(&bucket, StoreOp::stats()).await?;
            found.push((bucket.bucket, stats));
        }
        Ok(found)
    }

    /// What each queue with a handler in this process is doing.
    #[must_use]
    pub fn load(&self) -> Vec<QueueLoad> {
        let flow = self.inner.flow();
        let load = flow.iter().flat_map(|flow| flow.load());
        load.map(|(queue, queued, active, workers)| QueueLoad {
            queue: queue.clone(),
            queued,
            active,
            workers,
            ring: self.inner.options(queue).ring,
        })
        .collect()
    }

    /// Lets so many handlers of a queue run at once in this process, from now on; 0 pauses it.
    ///
    /// With fewer than before, what runs goes on to its end and is not replaced.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) when the queue has no handler here;
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for more than 65,536.
    pub fn set_workers(&self, queue: &str, workers: usize) -> Result<()> {
        let queue = QueueName::new(queue)?;
        if workers > 65_536 {
            return Err(Error::invalid(format!(
                "workers is {workers}, it is at most 65536"
            )));
        }
        let set = match self.inner.flow().as_ref() {
            Some(flow) => flow.set_workers(&queue, workers),
            None => return Err(Error::closed("the bus is stopping")),
        };
        set.map_err(|error| {
            let meant = queue_meant(&queue, self.inner.queues.keys().filter(|it| **it != queue));
            match meant {
                Some(meant) => Error::new(error.kind(), format!("{error}, did you mean {meant}?")),
                None => error,
            }
        })
    }
}

impl Inner {
    /// Every bucket of a queue, those of earlier bucket counts too.
    pub(super) async fn buckets_of(&self, queue: &QueueName) -> Result<Vec<BucketKey>> {
        let mut buckets = self.open()?.buckets().await?;
        buckets.retain(|key| key.queue == *queue);
        buckets.sort_unstable();
        Ok(buckets)
    }
}
