//! Pages of records while more waits for the journal than is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{Response, StoreOp};
use crate::error::Result;
use crate::event::{BucketId, BucketKey, EventId, QueueName};
use crate::journal::reading;
use crate::journal::{Batch, Journal, MemoryJournal};
use crate::record::{Cursor, NodeId, Numbered, Order, Outcome, Query, Record, Stages};
use crate::store::Watcher;
use crate::store::{Control, Durability, MemoryStore, Outbox, OutboxPage, Store, StoreFuture};
use crate::time::Timestamp;

/// What an outbox holds from a number on; `None`: a record that is damaged.
#[derive(Debug)]
struct Contents {
    first: u64,
    records: Vec<Option<Record>>,
    /// Up to which number it is in the journal.
    loaded: u64,
}

/// A store that has outboxes alone, which answer a read with few.
#[derive(Debug, Default)]
struct Outboxes {
    kept: Mutex<BTreeMap<Outbox, Contents>>,
    /// The most records of one read.
    limit: usize,
    /// How many were read.
    read: AtomicU64,
    near: MemoryStore,
}

impl Store for Outboxes {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        self.near.apply(bucket, op)
    }
    fn durability(&self) -> Durability {
        self.near.durability()
    }
    fn now_us(&self) -> u64 {
        self.near.now_us()
    }
    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        self.near.poll_members(me)
    }
    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.near.controls()
    }
    fn is_shared(&self) -> bool {
        true
    }
    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.near.buckets()
    }
    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.near.watch(watcher)
    }
    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        StoreFuture::ready(Ok(self.kept.lock().keys().cloned().collect()))
    }
    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        let kept = self.kept.lock();
        let Contents { first, records, .. } = &kept[outbox];
        let gone = after.saturating_add(1).saturating_sub(*first);
        let gone = gone.min(records.len() as u64);
        let numbered = (first + gone..).zip(&records[gone as usize..]);
        let looked_at: Vec<_> = numbered.take(limit.min(self.limit)).collect();
        self.read
            .fetch_add(looked_at.len() as u64, Ordering::Relaxed);
        let last = looked_at.last().map_or(after, |(number, _)| *number);
        let readable = looked_at.into_iter();
        let readable = readable.filter_map(|(number, it)| Some((number, it.clone()?)));
        StoreFuture::ready(Ok(OutboxPage {
            records: readable.collect(),
            last,
            first: *first,
            next: first + records.len() as u64,
            ..OutboxPage::default()
        }))
    }
    fn close(&self) -> StoreFuture<()> {
        self.near.close()
    }
}

impl Outboxes {
    /// Loads some of what an outbox has, and trims some of what was loaded.
    async fn carry(&self, journal: &MemoryJournal, random: &mut fastrand::Rng) {
        let batch = {
            let mut kept = self.kept.lock();
            let at = random.usize(..kept.len());
            let (outbox, kept) = kept.iter_mut().nth(at).unwrap();
            let end = kept.first + kept.records.len() as u64;
            let through = random.u64(kept.loaded..end.max(kept.loaded + 1));
            let numbered = (kept.first..).zip(&kept.records);
            let new = numbered.filter(|(number, _)| (kept.loaded + 1..=through).contains(number));
            let records = new.filter_map(|(number, it)| Some((number, it.clone()?)));
            Batch {
                outbox: outbox.to_string(),
                records: records.collect(),
            }
        };
        journal.load(vec![batch.clone()]).await.unwrap();
        let mut kept = self.kept.lock();
        let (_, kept) = { kept.iter_mut() }
            .find(|(outbox, _)| outbox.to_string() == batch.outbox)
            .unwrap();
        if let Some((last, _)) = batch.records.last() {
            kept.loaded = *last;
        }
        let trimmed = random.u64(kept.first - 1..=kept.loaded.max(kept.first - 1));
        kept.records.drain(..(trimmed + 1 - kept.first) as usize);
        kept.first = trimmed + 1;
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn record(queue: &QueueName, finished_us: u64, number: u64) -> Record {
    Record {
        id: EventId::from_parts(Timestamp::from_millis(1), BucketId(0), number),
        queue: queue.clone(),
        key: None,
        attempt: 1,
        outcome: Outcome::Acked,
        cause: None,
        due: Timestamp::from_millis(1),
        stages: Stages {
            finished_us,
            ..Stages::default()
        },
        node: NodeId(1),
        error: None,
        trace: None,
        payload: None,
        by: None,
    }
}

const START_US: u64 = 1_000_000_000_000;

/// Some outboxes, most of them loud.
fn some(random: &mut fastrand::Rng) -> Outboxes {
    let is_whole = random.u8(..4) == 0;
    let mut kept = BTreeMap::new();
    for at in 0..if is_whole { 1 } else { random.u16(1..6) } {
        let queue = queue(if at % 2 == 0 { "loud" } else { "quiet" });
        let most = [3, 40, 1_500][random.usize(..3)];
        let many = random.u64(..most);
        let mut now_us = START_US;
        let step_us = [2, 1_000, 100_000][random.usize(..3)];
        let records = (1..=many).map(|number| {
            now_us += random.u64(..step_us);
            let late_us = if is_whole { random.u64(..900_000) } else { 0 };
            let is_damaged = random.u8(..30) == 0;
            (!is_damaged).then(|| record(&queue, now_us - late_us, u64::from(at) << 32 | number))
        });
        let outbox = if is_whole {
            Outbox::Store
        } else {
            Outbox::Bucket(BucketKey::new(queue.clone(), BucketId(at)))
        };
        let kept_of = Contents {
            first: 1,
            records: records.collect(),
            loaded: 0,
        };
        kept.insert(outbox, kept_of);
    }
    Outboxes {
        kept: Mutex::new(kept),
        limit: [7, 300, 10_000][random.usize(..3)],
        ..Outboxes::default()
    }
}

/// Whoever follows the pages has each record once, in order, whatever the journal takes meanwhile.
#[tokio::test]
async fn who_follows_pages_past_what_is_not_looked_at_has_each_record_once() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (store, journal) = (some(&mut random), MemoryJournal::new());
        let within_us = random.u64(..30_000_000);
        let mut query = Query {
            queue: random.bool().then(|| queue("quiet")),
            since: (random.u8(..3) == 0)
                .then(|| Timestamp::from_micros_up(START_US + within_us / 3)),
            until: (random.u8(..3) == 0).then(|| Timestamp::from_micros_up(START_US + within_us)),
            order: [Order::Oldest, Order::Newest][random.usize(..2)],
            limit: Some([20, 100, 1_000][random.usize(..3)]),
            ..Query::default()
        };
        let mut expected: Vec<Numbered> = {
            let kept = store.kept.lock();
            let all = kept.values();
            all.flat_map(|kept| (kept.first..).zip(&kept.records))
                .filter_map(|(number, it)| Some((number, it.clone()?)))
                .filter(|it| query.matches(&it.1))
                .collect()
        };
        expected.sort_by_key(Cursor::of);
        if query.order == Order::Newest {
            expected.reverse();
        }
        let (most, carries) = ([20, 100, 500][random.usize(..3)], random.u8(..3));
        let mut found = Vec::new();
        loop {
            for _ in 0..random.u8(..=carries) {
                store.carry(&journal, &mut random).await;
            }
            let journal = (carries > 0).then_some(&journal as &dyn Journal);
            let page = reading::page(&store, journal, query.clone(), most);
            let page = page.await.map_err(reading::Unread::cause).unwrap();
            assert!(page.items.len() <= query.page_len());
            found.extend(page.items.into_iter().map(|it| it.id));
            let Some(next) = page.next else { break };
            assert!(query.is_after(next), "{seed}: it goes on");
            query.after = Some(next);
        }
        let expected: Vec<EventId> = expected.into_iter().map(|(_, it)| it.id).collect();
        let unique: BTreeSet<EventId> = found.iter().copied().collect();
        assert_eq!(unique.len(), found.len(), "{seed}: one is there twice");
        assert!(
            found == expected,
            "{seed}: {} of {}",
            found.len(),
            expected.len()
        );
    }
}

/// A quiet queue is shown beside loud ones, and a page looks at no more than it is to.
#[tokio::test]
async fn a_page_looks_at_few_and_shows_all_of_a_quiet_queue() {
    let mut kept = BTreeMap::new();
    for at in 0..5 {
        let queue = queue(if at == 0 { "quiet" } else { "loud" });
        let (many, step_us) = if at == 0 {
            (40, 1_000_000)
        } else {
            (3_000, 10_000)
        };
        let records = (1..=many).map(|number| {
            record(
                &queue,
                START_US + number * step_us,
                u64::from(at) << 32 | number,
            )
        });
        let kept_of = Contents {
            first: 1,
            records: records.map(Some).collect(),
            loaded: 0,
        };
        kept.insert(Outbox::Bucket(BucketKey::new(queue, BucketId(at))), kept_of);
    }
    let store = Outboxes {
        kept: Mutex::new(kept),
        limit: 10_000,
        ..Outboxes::default()
    };
    for order in [Order::Oldest, Order::Newest] {
        let (mut query, mut quiet, mut all, mut pages) = (Query::default(), 0, 0, 0);
        (query.order, query.limit) = (order, Some(1_000));
        loop {
            let before = store.read.load(Ordering::Relaxed);
            let page = reading::page(&store, None, query.clone(), 2_000);
            let page = page.await.map_err(reading::Unread::cause).unwrap();
            let read = store.read.load(Ordering::Relaxed) - before;
            assert!(read < 4 * 2_100, "{read} of 12,040 are looked at");
            all += page.items.len();
            quiet += { page.items.iter() }
                .filter(|it| it.queue.as_str() == "quiet")
                .count();
            pages += 1;
            let Some(next) = page.next else { break };
            query.after = Some(next);
        }
        assert_eq!((all, quiet), (12_040, 40));
        assert!(pages <= 20, "{pages} pages");
    }
}
