//! The memory store: the engine behind the `Store` trait, without a disk.

mod records;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use self::records::Records;
use crate::core::engine::{Bucket, DedupWindow};
use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{ChangeSink, Response, StoreOp, UsedAttempts};
use crate::error::Result;
use crate::event::{BucketKey, Envelope, EventId, Payload, QueueName};
use crate::record::{Cursor, Record};
use crate::store::clock::StoreTime;
use crate::store::contract::{KnownBuckets, Store, Watcher};
use crate::store::control::{Control, Setting};
use crate::store::damage::{CheckTask, Damage};
use crate::store::durability::Durability;
use crate::store::future::StoreFuture;
use crate::store::hub::LocalMembership;
use crate::store::outbox::{Outbox, OutboxLimit, OutboxPage, OutboxWatcher};
use crate::store::shards::{Shards, WakeRule};
use crate::store::watchers::Watchers;
use crate::time::{Clock, GuardedClock, SystemClock, Timestamp};

/// The default limit of records in a memory store.
pub const RECORDS_MAX: usize = 100_000;

/// A store that lives as long as the process: for tests, and for events that may be lost.
///
/// It keeps the whole contract but survives nothing. It keeps the last [`RECORDS_MAX`] records.
///
/// # Examples
///
/// ```
/// use duly::event::{BucketId, BucketKey};
/// use duly::store::{Durability, MemoryStore, Store};
/// use duly::store::operation::{Reply, StoreOp};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// let bucket = BucketKey::new("orders".parse()?, BucketId(0));
/// let answer = store.apply(&bucket, StoreOp::Stats).await?;
/// assert_eq!(answer.reply, Reply::Stats(Default::default()));
/// assert_eq!(store.durability(), Durability::Memory);
/// # Ok::<(), duly::Error>(())
/// # }).unwrap();
/// ```
pub struct MemoryStore {
    shards: Shards<Arc<Envelope>>,
    records: Mutex<Records>,
    recorded: Watchers<dyn OutboxWatcher>,
    hub: LocalMembership,
    time: StoreTime,
    shared: bool,
}

impl MemoryStore {
    /// Creates an empty store on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::on(Arc::new(SystemClock::new()))
    }

    /// Creates an empty store on `clock`. Where that panics, the store's time stands still.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::on(GuardedClock::shared(clock))
    }

    /// Creates an empty store on a clock that does not panic.
    pub(crate) fn on(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: Shards::default(),
            records: Mutex::new(Records::new(RECORDS_MAX)),
            recorded: Watchers::default(),
            hub: LocalMembership::default(),
            time: StoreTime::new(clock),
            shared: false,
        }
    }

    /// Shares the store between several buses in one process: they detect silent nodes among them.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Sets the limits of a store that is still empty: the dedup window of each bucket keeps at
    /// most `finished` tombstones beyond those of the last minute, and the store at most `records`
    /// records. Defaults: 100,000 each.
    #[must_use]
    pub fn with_memory(self, finished: usize, records: usize) -> Self {
        self.with_window(DedupWindow {
            max: finished,
            ..DedupWindow::default()
        })
        .with_records(records)
    }

    /// Sets the dedup window of each bucket in a store that is still empty; all buckets share its
    /// cap.
    #[must_use]
    pub fn with_window(mut self, window: DedupWindow) -> Self {
        self.shards = Shards::new(window);
        self
    }

    fn with_records(mut self, records: usize) -> Self {
        self.records = Mutex::new(Records::new(records));
        self
    }

    /// Checks all invariants, over every event.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn check(&self) -> Result<(), String> {
        self.shards.check()
    }

    fn decide(&self, bucket: &BucketKey, op: StoreOp) -> Result<Response> {
        if matches!(op, StoreOp::Push(_)) {
            self.records().check_room()?;
        }
        let now_us = self.time.now_us();
        let (news, adds) = (WakeRule::of(&op), matches!(op, StoreOp::Push(_)));
        let response = self.change(bucket, (news, adds), now_us, op);
        for unused in self.shards.sweep(now_us) {
            // It ends only what has expired; nobody waits for its answer.
            let _ = self.change(&unused, (WakeRule::Swept, false), now_us, StoreOp::SWEEP);
        }
        response
    }

    fn change(
        &self,
        key: &BucketKey,
        (news, adds): (WakeRule, bool),
        now_us: u64,
        op: StoreOp,
    ) -> Result<Response> {
        let mut changes = MemoryChangeSink::default();
        let mut has_recorded = false;
        let apply = |bucket: &mut Bucket<Arc<Envelope>>| {
            let response = bucket.apply(now_us, op, &mut changes);
            has_recorded = !changes.records.is_empty();
            if has_recorded {
                // Still under the bucket's lock, which keeps the records in order.
                self.records().append(changes.records);
            }
            response
        };
        let response = if adds {
            self.shards.change(key, news, apply)
        } else {
            self.shards.change_known(key, news, apply)
        };
        if has_recorded {
            self.recorded
                .tell(|watcher| watcher.recorded(&Outbox::Store));
        }
        response
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock()
    }
}

/// Prints how much there is, and none of it.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("buckets", &self.shards.len())
            .field("records", &self.records().len())
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        StoreFuture::ready(self.decide(bucket, op))
    }

    fn durability(&self) -> Durability {
        Durability::Memory
    }

    /// Nothing of it outlives the process that would check it.
    fn check_store(&self, _task: CheckTask) -> StoreFuture<Vec<Damage>> {
        StoreFuture::ready(Ok(Vec::new()))
    }

    fn now_us(&self) -> u64 {
        if self.time.take_jump() {
            self.shards.wake_all();
        }
        self.time.now_us()
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        let used = self.shards.used();
        let roll = if self.shared {
            self.hub.call(me, self.time.now_us(), used)
        } else {
            self.hub.alone(&me, used)
        };
        StoreFuture::ready(Ok(roll))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        StoreFuture::ready(Ok(self.hub.controls()))
    }

    fn control_of(&self, queue: &QueueName) -> StoreFuture<Option<Control>> {
        StoreFuture::ready(Ok(self.hub.control_of(queue)))
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        StoreFuture::ready(self.hub.set(queue, setting, |_| Ok(())))
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        StoreFuture::ready(Ok(self.shards.keys()))
    }

    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        let buckets = self.shards.keys_of(queue);
        StoreFuture::ready(Ok(KnownBuckets::all(buckets)))
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.shards.watch(watcher)
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        StoreFuture::ready(Ok(vec![Outbox::Store]))
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        let page = match outbox {
            Outbox::Store => self.records().page(after, limit),
            Outbox::Bucket(_) => OutboxPage::default(),
        };
        StoreFuture::ready(Ok(page))
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        if *outbox == Outbox::Store {
            self.records().trim(through);
        }
        StoreFuture::ready(Ok(()))
    }

    fn erase_records(&self, places: Vec<Cursor>) -> StoreFuture<bool> {
        self.records().erase(&places);
        StoreFuture::ready(Ok(true))
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> Result<()> {
        self.records().limit(limit);
        Ok(())
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        self.recorded.add(watcher)
    }

    fn close(&self) -> StoreFuture<()> {
        StoreFuture::ready(Ok(()))
    }
}

/// A change sink that stores the envelope itself, and the records when the operation is over.
#[derive(Debug, Default)]
struct MemoryChangeSink {
    records: Vec<Record>,
}

impl ChangeSink for MemoryChangeSink {
    type Body = Arc<Envelope>;

    fn added(&mut self, envelope: &Arc<Envelope>, _due: Timestamp) -> Self::Body {
        Arc::clone(envelope)
    }

    fn changed(&mut self, _: EventId, _: &Self::Body, _due: Timestamp, _used: UsedAttempts) {}

    fn updated(&mut self, _id: EventId, body: &mut Self::Body, payload: &Payload) {
        Arc::make_mut(body).payload = payload.clone();
    }

    fn buried(&mut self, _id: EventId, _body: &Self::Body, _at: Timestamp, _tries: u16) {}

    fn revived(&mut self, _id: EventId, _body: &Self::Body, _due: Timestamp) {}

    fn removed(&mut self, _id: EventId, _body: &Self::Body) {}

    fn recorded(&mut self, record: Record, telling: Option<&Self::Body>) {
        self.records.push(match telling {
            Some(envelope) => record.telling(envelope),
            None => record,
        });
    }
}
