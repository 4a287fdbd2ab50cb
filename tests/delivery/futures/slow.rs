//! A store each of whose calls suspends its caller twice: before it is done, and before its reply.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use duly::QueueName;
use duly::event::BucketKey;
use duly::records::Cursor;
use duly::store::operation::{Delivery, NewEvent, Response, StoreOp};
use duly::store::{
    CheckTask, Control, Damage, Durability, KnownBuckets, MemberInfo, Membership, Outbox,
    OutboxLimit, OutboxPage, OutboxWatcher, RecordTable, Setting, Store, StoreFuture, Watcher,
};

#[derive(Debug)]
pub(crate) struct Slow(Arc<dyn Store>);

impl Slow {
    pub(crate) fn over(near: &Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self(Arc::clone(near)))
    }

    fn slowly<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Arc<dyn Store>) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let near = Arc::clone(&self.0);
        StoreFuture::new(async move {
            tokio::task::yield_now().await;
            let response = call(&near).await;
            tokio::task::yield_now().await;
            response
        })
    }
}

impl Store for Slow {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        let bucket = bucket.clone();
        self.slowly(move |near| near.apply(&bucket, op))
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Response> {
        let bucket = bucket.clone();
        self.slowly(move |near| near.push_durably(&bucket, events, wanted))
    }

    fn now_us(&self) -> u64 {
        self.0.now_us()
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        self.slowly(|near| near.poll_members(me))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.slowly(|near| near.controls())
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        let queue = queue.clone();
        self.slowly(move |near| near.set(&queue, setting))
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.slowly(|near| near.buckets())
    }

    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        self.slowly(|near| near.known_buckets())
    }

    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        let queue = queue.clone();
        self.slowly(move |near| near.buckets_of(&queue))
    }

    fn configured(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        self.0.configured(queues, others);
    }

    fn fallback_poll_every(&self) -> Duration {
        self.0.fallback_poll_every()
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> duly::Result<()> {
        self.0.watch(watcher)
    }

    fn starting(&self, queue: &QueueName, deliveries: &[&Delivery]) -> duly::Result<()> {
        self.0.starting(queue, deliveries)
    }

    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        self.0.records()
    }

    fn erase_records(&self, places: Vec<Cursor>) -> StoreFuture<bool> {
        self.slowly(move |near| near.erase_records(places))
    }

    fn check_bucket(&self, bucket: &BucketKey, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        let bucket = bucket.clone();
        self.slowly(move |near| near.check_bucket(&bucket, task))
    }

    fn check_store(&self, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.slowly(|near| near.check_store(task))
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        self.slowly(|near| near.outboxes())
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        let outbox = outbox.clone();
        self.slowly(move |near| near.read_outbox(&outbox, after, limit))
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        let outbox = outbox.clone();
        self.slowly(move |near| near.trim_outbox(&outbox, through))
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> duly::Result<()> {
        self.0.limit_outboxes(limit)
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> duly::Result<()> {
        self.0.watch_outboxes(watcher)
    }

    fn close(&self) -> StoreFuture<()> {
        self.slowly(|near| near.close())
    }
}
