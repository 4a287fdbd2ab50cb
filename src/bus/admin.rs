//! Administrative operations: statistics, and the number of workers.

use crate::bus::names::MatchLevel;
use crate::bus::{Bus, Inner};
use crate::config::queue_meant;
use crate::core::op::{Stats, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketId, BucketKey, QueueName};

/// The number of events of a queue by state, over all of its buckets.
pub type QueueStats = Stats;

/// The load of a queue in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLoad {
    /// The queue.
    pub queue: QueueName,
    /// Events that wait in its ring.
    pub queued: usize,
    /// Active workers: an upper bound of the running handlers.
    pub active: usize,
    /// The most workers that may run; 0 means paused.
    pub workers: usize,
    /// The slots of its ring, for events that wait there and events that are handled, together.
    pub ring: usize,
}

impl QueueLoad {
    /// Returns whether it has no room for another event: every worker is active, or the ring is
    /// full.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.active >= self.workers || self.queued + self.active >= self.ring
    }
}

impl Bus {
    /// Returns the name of each queue that the store knows, in their order.
    ///
    /// A queue is known from its first push or consumer on, also while it has no events.
    ///
    /// # Errors
    ///
    /// The store's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.queue_named::<u64>("order-close")?.push_now(7).await?;
    ///
    /// assert_eq!(bus.queues().await?, ["order-close".parse()?]);
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn queues(&self) -> Result<Vec<QueueName>> {
        let buckets = self.inner.open()?.buckets().await?;
        let mut queues: Vec<_> = buckets.into_iter().map(|bucket| bucket.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        Ok(queues)
    }

    /// Counts the events of a queue by state.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid name;
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for an unknown name that is another
    /// spelling of a known one (`order_close` for `order-close`); or the store's error.
    pub async fn stats(&self, queue: &str) -> Result<QueueStats> {
        let mut sum = Stats::default();
        for (_, stats) in self.bucket_stats(queue).await? {
            sum += stats;
        }
        Ok(sum)
    }

    /// Counts the events of a queue by state for each bucket, in the order of the buckets.
    ///
    /// A bucket with many more events than the others is hot, usually because many events share a
    /// key or a unique key. The result includes buckets that are no longer in use because their
    /// number was lowered; a bucket that never had an event may be missing.
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
            self.inner.check_known(&queue, MatchLevel::Spelling).await?;
        }
        let mut found = Vec::new();
        for bucket in buckets {
            let stats = self.inner.apply(&bucket, StoreOp::stats()).await?;
            found.push((bucket.bucket, stats));
        }
        Ok(found)
    }

    /// Returns the load of each queue with a handler in this process.
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

    /// Sets how many handlers of a queue may run at once in this process; 0 pauses it.
    ///
    /// With fewer than before, running handlers finish and are not replaced.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) when the queue has no handler here;
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for more than 65,536.
    pub fn set_workers(&self, queue: &str, workers: usize) -> Result<()> {
        let queue = QueueName::new(queue)?;
        if workers > 65_536 {
            return Err(Error::invalid(format!(
                "workers is {workers}; it must be at most 65536"
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
    /// Returns every bucket of a queue, including those of earlier bucket counts.
    pub(super) async fn buckets_of(&self, queue: &QueueName) -> Result<Vec<BucketKey>> {
        let mut buckets = self.open()?.buckets().await?;
        buckets.retain(|key| key.queue == *queue);
        buckets.sort_unstable();
        Ok(buckets)
    }
}
