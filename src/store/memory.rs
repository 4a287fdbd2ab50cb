//! The memory store: the reference store behind the `Store` trait, without a disk.

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use crate::core::op::{Answer, Ledger, StoreOp};
use crate::core::roll::{Presence, Roll};
use crate::error::Result;
use crate::event::{BucketKey, Envelope, Payload, QueueName};
use crate::record::{Page, Query, Record};
use crate::store::hub::Hub;
use crate::store::shards::{News, Shards};
use crate::store::{Control, Durability, Setting, Store, StoreFuture, Watcher};
use crate::time::{Clock, SystemClock, Timestamp};

/// How many records a memory store keeps.
pub const RECORDS_MAX: usize = 100_000;

/// A store that lives as long as the process: for tests, and for events that may be forgotten.
///
/// It keeps the whole contract but survives nothing. Records are kept as well, the last
/// [`RECORDS_MAX`] of them.
///
/// # Examples
///
/// ```
/// use duly::core::op::{Reply, StoreOp};
/// use duly::event::{BucketId, BucketKey};
/// use duly::store::{Durability, MemoryStore, Store};
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
#[derive(Debug)]
pub struct MemoryStore {
    shards: Shards<Arc<Envelope>>,
    records: Mutex<Records>,
    hub: Hub,
    clock: Arc<dyn Clock>,
    shared: bool,
}

impl MemoryStore {
    /// An empty store on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// An empty store on `clock`.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: Shards::default(),
            records: Mutex::new(Records::new(RECORDS_MAX)),
            hub: Hub::default(),
            clock,
            shared: false,
        }
    }

    /// The same store for several buses in one process: they look for silent ones among them.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// The same store, still empty, with other bounds: each bucket remembers at most `finished`
    /// finished ids, and at most `records` records are kept. Defaults: 100,000 each.
    #[must_use]
    pub fn with_memory(mut self, finished: usize, records: usize) -> Self {
        self.shards = Shards::new(finished);
        self.records = Mutex::new(Records::new(records));
        self
    }

    /// Checks everything that must be so at any time; looks at every event.
    ///
    /// # Errors
    ///
    /// The first thing that is not so.
    pub fn check(&self) -> Result<(), String> {
        self.shards.check()
    }

    fn decide(&self, bucket: &BucketKey, op: StoreOp) -> Result<Answer> {
        let now_us = self.clock.wall_us();
        let mut ledger = MemoryLedger::default();
        self.shards.change(bucket, News::of(&op), |bucket| {
            let answer = bucket.apply(now_us, op, &mut ledger);
            if !ledger.records.is_empty() {
                // Still under the bucket's lock, so that its records are in their order.
                let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
                records.append(ledger.records);
            }
            answer
        })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Answer> {
        Box::pin(ready(self.decide(bucket, op)))
    }

    fn durability(&self) -> Durability {
        Durability::Memory
    }

    fn now_us(&self) -> u64 {
        self.clock.wall_us()
    }

    fn roll_call(&self, me: Presence) -> StoreFuture<Roll> {
        let used = self.shards.used();
        let roll = match self.shared {
            true => self.hub.call(me, self.clock.wall_us(), used),
            false => self.hub.alone(&me, used),
        };
        Box::pin(ready(Ok(roll)))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        Box::pin(ready(Ok(self.hub.controls())))
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        Box::pin(ready(self.hub.set(queue, setting, |_| Ok(()))))
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        Box::pin(ready(Ok(self.shards.keys())))
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.shards.watch(watcher);
    }

    fn records(&self, query: Query) -> StoreFuture<Page<Record>> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(ready(Ok(records.page(&query))))
    }

    fn close(&self) -> StoreFuture<()> {
        Box::pin(ready(Ok(())))
    }
}

/// Keeps the envelope itself, and the records until the operation is over.
#[derive(Debug, Default)]
struct MemoryLedger {
    records: Vec<Record>,
}

impl Ledger for MemoryLedger {
    type Body = Arc<Envelope>;

    fn added(&mut self, envelope: &Arc<Envelope>, _due: Timestamp) -> Self::Body {
        Arc::clone(envelope)
    }

    fn changed(&mut self, _body: &Self::Body, _due: Timestamp, _tries: u16) {}

    fn updated(&mut self, body: &mut Self::Body, payload: &Payload) {
        Arc::make_mut(body).payload = payload.clone();
    }

    fn buried(&mut self, _body: &Self::Body, _at: Timestamp, _tries: u16) {}

    fn revived(&mut self, _body: &Self::Body, _due: Timestamp) {}

    fn removed(&mut self, _body: &Self::Body) {}

    fn recorded(&mut self, record: Record) {
        self.records.push(record);
    }
}

/// The last records, numbered from 1 in the order in which they were written.
#[derive(Debug)]
struct Records {
    kept: VecDeque<Record>,
    /// The number of the first one kept.
    first: u64,
    max: usize,
}

impl Records {
    fn new(max: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            first: 1,
            max,
        }
    }

    fn append(&mut self, records: Vec<Record>) {
        self.kept.extend(records);
        let surplus = self.kept.len().saturating_sub(self.max);
        self.kept.drain(..surplus);
        self.first += surplus as u64;
    }

    fn page(&self, query: &Query) -> Page<Record> {
        let after = query.after.unwrap_or(0);
        let from = after.saturating_add(1).saturating_sub(self.first);
        let from = usize::try_from(from)
            .unwrap_or(usize::MAX)
            .min(self.kept.len());
        let mut matching = (self.first + from as u64..)
            .zip(self.kept.range(from..))
            .filter(|(_, record)| query.matches(record));
        let page: Vec<_> = matching.by_ref().take(query.page_len()).collect();
        let last = page.last().map(|(number, _)| *number);
        Page {
            items: page.into_iter().map(|(_, record)| record.clone()).collect(),
            next: matching.next().and(last),
        }
    }
}
