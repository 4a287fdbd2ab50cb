//! A store decorator that turns the panics of another store into errors: a store may be anybody's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{Answer, Delivery, NewEvent, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, QueueName};
use crate::panics;
use crate::store::contract::{KnownBuckets, Store, Watcher};
use crate::store::control::{Control, Setting};
use crate::store::damage::{CheckTask, Damage};
use crate::store::durability::Durability;
use crate::store::future::StoreFuture;
use crate::store::future::panicked;
use crate::store::outbox::{Outbox, OutboxLimit, OutboxPage, OutboxWatcher};
use crate::store::records::RecordTable;
use crate::time::{Clock, SystemClock};

/// A store whose calls do not panic. The futures that it returns do not either, as those of any
/// store ([`StoreFuture`]).
pub(crate) struct Guarded {
    near: Arc<dyn Store>,
    is_shared: bool,
    durability: Durability,
}

impl Guarded {
    pub(crate) fn new(near: Arc<dyn Store>) -> Self {
        Self {
            is_shared: near.is_shared(),
            durability: near.durability(),
            near,
        }
    }

    fn call<T>(&self, call: impl FnOnce(&dyn Store) -> StoreFuture<T>) -> StoreFuture<T> {
        let answer = panics::caught(|| call(&*self.near));
        answer.unwrap_or_else(|words| StoreFuture::ready(Err(panicked(&words))))
    }

    /// A call that returns at once.
    fn now<T>(&self, call: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        panics::caught(|| call(&*self.near)).unwrap_or_else(|words| Err(panicked(&words)))
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.near.fmt(f)
    }
}

impl Store for Guarded {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Answer> {
        self.call(|near| near.apply(bucket, op))
    }

    fn durability(&self) -> Durability {
        panics::caught(|| self.near.durability()).unwrap_or(self.durability)
    }

    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Answer> {
        self.call(|near| near.push_durably(bucket, events, wanted))
    }

    /// The machine's time where the store's panics.
    fn now_us(&self) -> u64 {
        panics::caught(|| self.near.now_us()).unwrap_or_else(|_| SystemClock::new().wall_us())
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        self.call(|near| near.poll_members(me))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.call(|near| near.controls())
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        self.call(|near| near.set(queue, setting))
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.call(|near| near.buckets())
    }

    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        self.call(|near| near.known_buckets())
    }

    fn configured(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        panics::reported(|| self.near.configured(queues, others));
    }

    fn fallback_poll_every(&self) -> Duration {
        self.near.fallback_poll_every()
    }

    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        self.call(|near| near.buckets_of(queue))
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.now(|near| near.watch(watcher))
    }

    fn starting(&self, queue: &QueueName, deliveries: &[&Delivery]) -> Result<()> {
        self.now(|near| near.starting(queue, deliveries))
    }

    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        self.near.records()
    }

    fn check_bucket(&self, bucket: &BucketKey, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.call(|near| near.check_bucket(bucket, task))
    }

    fn check_store(&self, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.call(|near| near.check_store(task))
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        self.call(|near| near.outboxes())
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        self.call(|near| near.read_outbox(outbox, after, limit))
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        self.call(|near| near.trim_outbox(outbox, through))
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> Result<()> {
        self.now(|near| near.limit_outboxes(limit))
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        self.now(|near| near.watch_outboxes(watcher))
    }

    fn close(&self) -> StoreFuture<()> {
        self.call(|near| near.close())
    }
}
