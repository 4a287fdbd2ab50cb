//! A store as the bus calls it: its panics become errors, since a store may be anybody's, and its
//! calls are timed and counted.

mod guard;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use self::guard::{Call, Guard};
use self::table::TableProxy;
use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{Delivery, NewEvent, Response, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, QueueName};
use crate::record::Cursor;
use crate::store::contract::{FALLBACK_POLL_EVERY, KnownBuckets, Store, Watcher};
use crate::store::control::{Control, Setting};
use crate::store::damage::{CheckTask, Damage};
use crate::store::durability::Durability;
use crate::store::future::StoreFuture;
use crate::store::outbox::{Outbox, OutboxLimit, OutboxPage, OutboxWatcher};
use crate::store::records::RecordTable;
use crate::time::{Clock, SystemClock};

/// A store whose calls do not panic, if it guards, and are counted, if it has a meter. The futures
/// that it returns do not panic either, as those of any store ([`StoreFuture`]).
pub(crate) struct StoreProxy {
    near: Arc<dyn Store>,
    guard: Guard,
    is_shared: bool,
    durability: Durability,
}

impl StoreProxy {
    /// Stands before `near`: with `clock` it counts, by metric handles of the recorder that is
    /// installed now.
    pub(crate) fn new(near: Arc<dyn Store>, guards: bool, clock: Option<&Arc<dyn Clock>>) -> Self {
        Self {
            guard: Guard::new(guards, clock),
            is_shared: near.is_shared(),
            durability: near.durability(),
            near,
        }
    }

    /// Calls the store; `Err`: the words of a panic.
    fn caught<T>(&self, call: impl FnOnce(&dyn Store) -> T) -> std::result::Result<T, String> {
        self.guard.caught(|| call(&*self.near))
    }

    /// A call that returns at once.
    fn now<T>(&self, call: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        self.guard.now(|| call(&*self.near))
    }

    fn timed<T: Send + 'static>(
        &self,
        place: usize,
        call: impl FnOnce(&dyn Store) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        self.guard.timed(place, || call(&*self.near))
    }
}

impl fmt::Debug for StoreProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.near.fmt(f)
    }
}

impl Store for StoreProxy {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        self.timed(op.place(), |near| near.apply(bucket, op))
    }

    fn durability(&self) -> Durability {
        let durability = self.caught(|near| near.durability());
        durability.unwrap_or(self.durability)
    }

    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Response> {
        let push = StoreOp::Push(Vec::new()).place();
        self.timed(push, |near| near.push_durably(bucket, events, wanted))
    }

    /// The machine's time where the store's panics.
    fn now_us(&self) -> u64 {
        let now_us = self.caught(|near| near.now_us());
        now_us.unwrap_or_else(|_| SystemClock::new().wall_us())
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        self.timed(Call::PollMembers.place(), |near| near.poll_members(me))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.timed(Call::Controls.place(), |near| near.controls())
    }

    fn control_of(&self, queue: &QueueName) -> StoreFuture<Option<Control>> {
        self.timed(Call::ControlOf.place(), |near| near.control_of(queue))
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        self.timed(Call::Set.place(), |near| near.set(queue, setting))
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.timed(Call::Buckets.place(), |near| near.buckets())
    }

    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        self.timed(Call::Buckets.place(), |near| near.known_buckets())
    }

    fn configured(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        let _ = self.caught(|near| near.configured(queues, others)); // a panic changes nothing else
    }

    fn fallback_poll_every(&self) -> Duration {
        let every = self.caught(|near| near.fallback_poll_every());
        every.unwrap_or(FALLBACK_POLL_EVERY)
    }

    /// None where the store's count panics, as on another one: what was accepted is looked after.
    fn connections(&self) -> u64 {
        self.caught(|near| near.connections()).unwrap_or(0)
    }

    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        self.timed(Call::BucketsOf.place(), |near| near.buckets_of(queue))
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.now(|near| near.watch(watcher))
    }

    /// Counts failures only: it is called for each attempt, and writes to memory at most.
    fn starting(&self, queue: &QueueName, deliveries: &[&Delivery]) -> Result<()> {
        let started = self.now(|near| near.starting(queue, deliveries));
        if let Err(error) = &started {
            self.guard.failed(Call::Starting.place(), error.kind());
        }
        started
    }

    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        let near = self.caught(|near| near.records()).ok()??;
        Some(Arc::new(TableProxy::new(near, self.guard.clone())))
    }

    fn erase_records(&self, places: Vec<Cursor>) -> StoreFuture<bool> {
        self.timed(Call::EraseRecords.place(), |near| {
            near.erase_records(places)
        })
    }

    fn check_bucket(&self, bucket: &BucketKey, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.timed(Call::CheckBucket.place(), |near| {
            near.check_bucket(bucket, task)
        })
    }

    fn check_store(&self, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.timed(Call::CheckStore.place(), |near| near.check_store(task))
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        self.timed(Call::Outboxes.place(), |near| near.outboxes())
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        self.timed(Call::ReadOutbox.place(), |near| {
            near.read_outbox(outbox, after, limit)
        })
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        self.timed(Call::TrimOutbox.place(), |near| {
            near.trim_outbox(outbox, through)
        })
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> Result<()> {
        self.now(|near| near.limit_outboxes(limit))
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        self.now(|near| near.watch_outboxes(watcher))
    }

    fn close(&self) -> StoreFuture<()> {
        self.timed(Call::Close.place(), |near| near.close())
    }
}
