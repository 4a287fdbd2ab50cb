//! A way to a store on which the word of new records gets lost, and that is not closed with the bus.
//! It may have outboxes besides those of the store, of which some fail, and one is busy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use duly::event::BucketKey;
use duly::records::Numbered;
use duly::store::operation::{Response, StoreOp};
use duly::store::{
    Control, Durability, MemberInfo, Membership, Outbox, OutboxLimit, OutboxPage, OutboxWatcher,
    RecordTable, Setting, Store, StoreFuture, Watcher,
};
use duly::{Error, ErrorKind, QueueName};

/// What of an outbox fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failing {
    Read,
    Trim,
}

/// An outbox that gets a record with every tenth read of others, and says so.
#[derive(Debug)]
struct Busy {
    outbox: Outbox,
    last: Numbered,
    watcher: Option<Weak<dyn OutboxWatcher>>,
    /// How often others were read since it was, and the most of that.
    others: usize,
    most_others: usize,
}

#[derive(Debug)]
pub(crate) struct Deaf(
    Arc<dyn Store>,
    Mutex<BTreeMap<Outbox, Vec<Numbered>>>,
    Mutex<BTreeSet<(Outbox, Failing)>>,
    Mutex<Option<Busy>>,
);

impl Deaf {
    pub(crate) fn to(store: &Arc<dyn Store>) -> Arc<Self> {
        Self::with(store, BTreeMap::new())
    }

    /// With records that wait in outboxes of their own, numbered from 1.
    pub(crate) fn with(
        store: &Arc<dyn Store>,
        outboxes: BTreeMap<Outbox, Vec<Numbered>>,
    ) -> Arc<Self> {
        Arc::new(Self(
            Arc::clone(store),
            Mutex::new(outboxes),
            Mutex::default(),
            Mutex::default(),
        ))
    }

    /// From now on this one of its outboxes, which has a record, is busy.
    pub(crate) fn busy(&self, outbox: Outbox) {
        let own = self.1.lock().expect("nobody panics in there");
        let last = own[&outbox].last().expect("it has a record").clone();
        *self.3.lock().expect("nobody panics in there") = Some(Busy {
            outbox,
            last,
            watcher: None,
            others: 0,
            most_others: 0,
        });
    }

    /// How often others were read between two reads of the busy one, at most.
    pub(crate) fn most_others(&self) -> usize {
        let busy = self.3.lock().expect("nobody panics in there");
        busy.as_ref().map_or(0, |busy| busy.most_others)
    }

    /// An outbox is read; the busy one may get a record meanwhile.
    fn reads(&self, outbox: &Outbox) {
        let mut busy = self.3.lock().expect("nobody panics in there");
        let Some(busy) = &mut *busy else { return };
        if *outbox == busy.outbox {
            busy.others = 0;
            return;
        }
        busy.others += 1;
        busy.most_others = busy.most_others.max(busy.others);
        if busy.others.is_multiple_of(10) {
            busy.last.0 += 1;
            let mut own = self.1.lock().expect("nobody panics in there");
            let records = own.get_mut(&busy.outbox).expect("it is its own");
            records.push(busy.last.clone());
            drop(own);
            if let Some(watcher) = busy.watcher.as_ref().and_then(Weak::upgrade) {
                watcher.recorded(&busy.outbox);
            }
        }
    }

    /// From now on these fail, and no others.
    pub(crate) fn fail(&self, failing: impl IntoIterator<Item = (Outbox, Failing)>) {
        *self.2.lock().expect("nobody panics in there") = failing.into_iter().collect();
    }

    fn fails(&self, outbox: &Outbox, failing: Failing) -> duly::Result<()> {
        let all = self.2.lock().expect("nobody panics in there");
        if all.contains(&(outbox.clone(), failing)) {
            return Err(Error::new(ErrorKind::Unavailable, "its server is down"));
        }
        Ok(())
    }

    /// How many records wait in the outboxes of its own.
    pub(crate) fn waiting(&self) -> usize {
        let outboxes = self.1.lock().expect("nobody panics in there");
        outboxes.values().map(Vec::len).sum()
    }
}

impl Store for Deaf {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        self.0.apply(bucket, op)
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn now_us(&self) -> u64 {
        self.0.now_us()
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        self.0.poll_members(me)
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

    fn fallback_poll_every(&self) -> Duration {
        self.0.fallback_poll_every()
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> duly::Result<()> {
        self.0.watch(watcher)
    }

    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        self.0.records()
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        let store = self.0.outboxes();
        let own = self.1.lock().expect("nobody panics in there");
        let own: Vec<Outbox> = own.keys().cloned().collect();
        StoreFuture::new(async move {
            let mut all = store.await?;
            all.extend(own);
            Ok(all)
        })
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        self.reads(outbox);
        if let Err(error) = self.fails(outbox, Failing::Read) {
            return StoreFuture::ready(Err(error));
        }
        let own = self.1.lock().expect("nobody panics in there");
        let Some(records) = own.get(outbox) else {
            return self.0.read_outbox(outbox, after, limit);
        };
        let some = records.iter().filter(|(number, _)| *number > after);
        let some: Vec<_> = some.take(limit).cloned().collect();
        let number = |it: Option<&Numbered>| it.map(|(number, _)| *number);
        let page = OutboxPage {
            last: number(some.last()).unwrap_or(after),
            damaged: 0,
            newer: false,
            trimmed: 0,
            first: number(records.first()).unwrap_or(after + 1),
            next: number(records.last()).unwrap_or(after) + 1,
            records: some,
        };
        StoreFuture::ready(Ok(page))
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        if let Err(error) = self.fails(outbox, Failing::Trim) {
            return StoreFuture::ready(Err(error));
        }
        let mut own = self.1.lock().expect("nobody panics in there");
        let Some(records) = own.get_mut(outbox) else {
            return self.0.trim_outbox(outbox, through);
        };
        records.retain(|(number, _)| *number > through);
        StoreFuture::ready(Ok(()))
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> duly::Result<()> {
        self.0.limit_outboxes(limit)
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> duly::Result<()> {
        if let Some(busy) = &mut *self.3.lock().expect("nobody panics in there") {
            busy.watcher = Some(watcher);
        }
        Ok(())
    }

    fn close(&self) -> StoreFuture<()> {
        StoreFuture::ready(Ok(()))
    }
}
