//! Administrative operations: statistics, and the number of workers.

use std::sync::Arc;

use futures_util::StreamExt;

use crate::bus::fan_out::{in_order_past_slow, operator_call};
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::names::MatchLevel;
use crate::config::queue_meant;
use crate::core::op::{Stats, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketId, BucketKey, QueueName, is_audit};
use crate::flow::host;
use crate::record::{NodeId, Page};
use crate::store::MemberInfo;
use crate::time::Timestamp;

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

/// A node of a store: a process that has it open and consumes queues.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The node.
    pub id: NodeId,
    /// The queues that it consumes.
    pub queues: Arc<[QueueName]>,
    /// The name of its machine, or of its container; empty where it is unknown.
    pub host: Arc<str>,
    /// The number of its last membership poll; a live node polls four times a second, so of a node
    /// that has stopped it does not change.
    pub beat: u64,
    /// Whether it is this process.
    pub is_here: bool,
}

impl Bus {
    /// Returns the nodes that consume queues of the store, in the order of their ids: this process
    /// if it does, and the members of a shared store.
    ///
    /// A node that died stays a member for a minute; only its [`beat`](NodeInfo::beat) stops.
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
    /// assert!(bus.nodes().await?.is_empty()); // it only publishes
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>> {
        let store = self.inner.open()?;
        let here: Arc<[QueueName]> = self.load().into_iter().map(|load| load.queue).collect();
        let mut nodes = Vec::new();
        if store.is_shared() {
            // It reads the members without becoming one.
            let reader = MemberInfo {
                node: NodeId(fastrand::u64(1..)),
                queues: [].into(),
                host: "".into(),
                leaves: true,
            };
            let members = operator_call(store.poll_members(reader)).await?.members;
            nodes.extend(members.into_iter().map(|member| NodeInfo {
                id: member.node,
                queues: member.queues,
                host: member.host,
                beat: member.beat,
                is_here: member.node == self.inner.id,
            }));
        }
        if !here.is_empty() && !nodes.iter().any(|node| node.is_here) {
            nodes.push(NodeInfo {
                id: self.inner.id,
                queues: here,
                host: host(),
                beat: 0,
                is_here: true,
            });
        }
        nodes.sort_unstable_by_key(|node| node.id);
        Ok(nodes)
    }

    /// Returns the store's clock, as far as this process knows it: by this clock events are due,
    /// expire and are recorded. On a shared store it is the server's, as of the last reply, and
    /// may be another than this machine's.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// assert!(bus.store_time() > duly::time::Timestamp::from_millis(1_700_000_000_000));
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    #[must_use]
    pub fn store_time(&self) -> Timestamp {
        self.inner.now()
    }

    /// Counts the events of up to `limit` queues by state: of those after `after` in the order of
    /// their names. It reads the list of queues once, so that many queues cost less than a call of
    /// [`stats`](Self::stats) for each.
    ///
    /// A queue of which a bucket cannot be counted within two seconds has the error instead, as one
    /// server of several may be away.
    ///
    /// # Errors
    ///
    /// The store's error, when the list cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// for queue in ["a", "b", "c"] {
    ///     bus.queue_named::<u64>(queue)?.push(7, When::Now).await?;
    /// }
    /// let page = bus.stats_page(None, 2).await?;
    /// assert_eq!(page.items[1].0.as_str(), "b");
    /// let mut page = bus.stats_page(page.next, 2).await?;
    /// let (queue, stats) = page.items.remove(0);
    /// assert_eq!((queue.as_str(), stats?.ready, page.next), ("c", 1, None));
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn stats_page(
        &self,
        after: Option<QueueName>,
        limit: usize,
    ) -> Result<Page<(QueueName, Result<QueueStats>), QueueName>> {
        let mut buckets = operator_call(self.inner.open()?.buckets()).await?;
        buckets.retain(|key| !is_audit(&key.queue));
        buckets.retain(|key| after.as_ref().is_none_or(|after| key.queue > *after));
        buckets.sort_unstable();
        let (mut queues, mut len) = (0, 0);
        let mut last: Option<&QueueName> = None;
        for key in &buckets {
            if last != Some(&key.queue) {
                if queues == limit.max(1) {
                    break;
                }
                queues += 1;
                last = Some(&key.queue);
            }
            len += 1;
        }
        let next = last.filter(|_| len < buckets.len()).cloned();
        buckets.truncate(len);
        let counted = buckets.into_iter().map(|key| async move {
            let stats = operator_call(self.inner.apply(&key, StoreOp::stats())).await;
            (key.queue, stats)
        });
        let mut items: Vec<(QueueName, Result<QueueStats>)> = Vec::new();
        let mut counted = in_order_past_slow(counted);
        while let Some((queue, stats)) = counted.next().await {
            match items.last_mut().filter(|(last, _)| *last == queue) {
                None => items.push((queue, stats)),
                Some((_, all)) => match (&mut *all, stats) {
                    (Ok(sum), Ok(stats)) => *sum += stats,
                    (Ok(_), Err(error)) => *all = Err(error),
                    (Err(_), _) => {}
                },
            }
        }
        Ok(Page::new(items, next))
    }

    /// Returns the name of each queue that the store knows, in their order.
    ///
    /// A queue is known from its first push on, also while it has no events: on Redis for ever, in a
    /// store of one process as long as it has tombstones, up to a day after its last event.
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
    /// bus.queue_named::<u64>("order-close")?.push(7, When::Now).await?;
    ///
    /// assert_eq!(bus.queues().await?, ["order-close".parse()?]);
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn queues(&self) -> Result<Vec<QueueName>> {
        let buckets = self.inner.open()?.buckets().await?;
        let mut queues: Vec<_> = buckets.into_iter().map(|bucket| bucket.queue).collect();
        queues.retain(|queue| !is_audit(queue));
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
    /// queue.event(7).after(Duration::from_secs(60)).key("customer:8").push().await?;
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
        let known = self.open()?.buckets_of(queue).await?;
        if let Some(away) = known.away {
            return Err(away);
        }
        let mut buckets = known.buckets;
        buckets.sort_unstable();
        Ok(buckets)
    }
}
