//! A way to a store on which the word of new records gets lost, and that is not closed with the bus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duly::QueueName;
use duly::core::op::{Answer, StoreOp};
use duly::event::BucketKey;
use duly::store::{
    Control, Durability, Outbox, OutboxLimit, OutboxPage, OutboxWatcher, Presence, Roll, Setting,
    Store, StoreFuture, Watcher,
};

#[derive(Debug)]
pub(crate) struct Deaf(Arc<dyn Store>);

impl Deaf {
    pub(crate) fn to(store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self(Arc::clone(store)))
    }
}

impl Store for Deaf {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Answer> {
        self.0.apply(bucket, op)
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn now_us(&self) -> u64 {
        self.0.now_us()
    }

    fn roll_call(&self, me: Presence) -> StoreFuture<Roll> {
        self.0.roll_call(me)
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.0.controls()
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        self.0.set(queue, setting)
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.0.buckets()
    }

    fn look_every(&self) -> Duration {
        self.0.look_every()
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.0.watch(watcher);
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        self.0.outboxes()
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        self.0.read_outbox(outbox, after, limit)
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        self.0.trim_outbox(outbox, through)
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> duly::Result<()> {
        self.0.limit_outboxes(limit)
    }

    fn watch_outboxes(&self, _watcher: Arc<dyn OutboxWatcher>) {}

    fn close(&self) -> StoreFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
