//! A store that takes its time over one kind of operation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duly::core::op::{Answer, StoreOp};
use duly::event::BucketKey;
use duly::store::{
    Durability, Outbox, OutboxLimit, OutboxPage, OutboxWatcher, Store, StoreFuture, Watcher,
};

/// A way to a store on which some operations arrive late.
pub(crate) struct Slow {
    pub(crate) near: Arc<dyn Store>,
    pub(crate) is_slow: fn(&StoreOp) -> bool,
    pub(crate) by: Duration,
}

impl fmt::Debug for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slow").field(&self.near).finish()
    }
}

impl Store for Slow {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Answer> {
        if !(self.is_slow)(&op) {
            return self.near.apply(bucket, op);
        }
        let (near, bucket, by) = (Arc::clone(&self.near), bucket.clone(), self.by);
        Box::pin(async move {
            tokio::time::sleep(by).await;
            near.apply(&bucket, op).await
        })
    }

    fn durability(&self) -> Durability {
        self.near.durability()
    }

    fn now_us(&self) -> u64 {
        self.near.now_us()
    }

    fn is_shared(&self) -> bool {
        self.near.is_shared()
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.near.buckets()
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.near.watch(watcher);
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        self.near.outboxes()
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        self.near.read_outbox(outbox, after, limit)
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        self.near.trim_outbox(outbox, through)
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> duly::Result<()> {
        self.near.limit_outboxes(limit)
    }

    fn watch_outboxes(&self, watcher: Arc<dyn OutboxWatcher>) {
        self.near.watch_outboxes(watcher);
    }

    fn close(&self) -> StoreFuture<()> {
        self.near.close()
    }
}
