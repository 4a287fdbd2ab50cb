//! Records to load, and how they are read back.

use std::sync::Arc;

use duly::event::{BucketId, TraceId};
use duly::journal::{Batch, FoundRecords, Journal, Keep};
use duly::records::{
    Cursor, MinuteQuery, MinuteStats, NodeId, Numbered, Order, Outcome, Query, Record, Stages,
};
use duly::time::Timestamp;
use duly::{EventId, QueueName};

use crate::journal::harness::{JournalHarness, Subject};

/// A minute in the life of the records here, in microseconds since the epoch.
pub(crate) const START_US: u64 = 1_700_000_040_000_000;

pub(crate) fn queue(name: &str) -> QueueName {
    name.parse().expect("a legal name")
}

pub(crate) fn id(entropy: u64) -> EventId {
    EventId::from_parts(Timestamp::from_micros_up(START_US), BucketId(3), entropy)
}

pub(crate) fn trace(last: u8) -> TraceId {
    let mut bytes = [0xAB; 16];
    bytes[15] = last;
    TraceId::from_bytes(bytes).expect("it is not all zero")
}

/// A record of its own event, the `number`-th, that finished `after_us` after the start.
pub(crate) fn record(number: u64, after_us: u64) -> Numbered {
    let finished_us = START_US + after_us;
    let record = Record {
        id: id(number),
        queue: queue("orders"),
        key: None,
        attempt: 1,
        outcome: Outcome::Acked,
        cause: None,
        due: Timestamp::from_millis(finished_us / 1_000 - 2),
        stages: Stages {
            moved_us: finished_us - 1_900,
            fetched_us: finished_us - 1_800,
            started_us: finished_us - 1_000,
            finished_us,
        },
        node: NodeId(7),
        error: None,
        trace: None,
        payload: None,
        by: None,
    };
    (number, record)
}

/// The same record with `change`s.
pub(crate) fn with(mut numbered: Numbered, change: impl FnOnce(&mut Record)) -> Numbered {
    change(&mut numbered.1);
    numbered
}

/// So many plain records, a millisecond apart.
pub(crate) fn many(count: u64) -> Vec<Numbered> {
    (1..=count).map(|it| record(it, it * 1_000)).collect()
}

pub(crate) fn batch(records: &[Numbered]) -> Batch {
    batch_of("store", records)
}

pub(crate) fn batch_of(outbox: &str, records: &[Numbered]) -> Batch {
    Batch {
        outbox: outbox.to_owned(),
        records: records.to_vec(),
    }
}

pub(crate) async fn load(journal: &Arc<dyn Journal>, records: &[Numbered]) {
    journal.load(vec![batch(records)]).await.expect("a load");
}

/// A fresh journal with these records in it.
pub(crate) async fn loaded(harness: &dyn JournalHarness, records: &[Numbered]) -> Arc<dyn Subject> {
    let subject = harness.fresh().await;
    load(&subject.journal(), records).await;
    subject
}

pub(crate) async fn page(journal: &Arc<dyn Journal>, query: Query) -> FoundRecords {
    let most = query.page_len();
    let found = journal.page(query).await.expect("a page");
    assert!(found.records.len() <= most, "a page holds more than asked");
    found
}

/// All pages of a query, one after the other, joined.
pub(crate) async fn all(journal: &Arc<dyn Journal>, mut query: Query) -> Vec<Numbered> {
    let mut found = Vec::new();
    loop {
        let page = page(journal, query.clone()).await;
        found.extend(page.records);
        let Some(next) = page.next else {
            return found;
        };
        let goes_on = query.after.is_none_or(|before| match query.order {
            Order::Oldest => next > before,
            Order::Newest => next < before,
        });
        assert!(goes_on, "a page leads back: {next} after {:?}", query.after);
        query.after = Some(next);
    }
}

/// Everything there is, the oldest first.
pub(crate) async fn everything(journal: &Arc<dyn Journal>) -> Vec<Numbered> {
    all(
        journal,
        Query {
            limit: Some(Query::LIMIT_MAX),
            ..Query::default()
        },
    )
    .await
}

/// The numbers of what a query finds, in its order.
pub(crate) async fn numbers(journal: &Arc<dyn Journal>, query: Query) -> Vec<u64> {
    let found = all(journal, query).await;
    found.into_iter().map(|(number, _)| number).collect()
}

/// All minutes there are.
pub(crate) async fn minutes(journal: &Arc<dyn Journal>) -> Vec<MinuteStats> {
    let all = MinuteQuery {
        limit: Some(MinuteQuery::LIMIT_MAX),
        ..MinuteQuery::default()
    };
    journal.minutes(all).await.expect("minutes")
}

/// What the minutes of these records are, counted by hand.
pub(crate) fn counted(records: &[Numbered]) -> Vec<MinuteStats> {
    let mut minutes = std::collections::BTreeMap::new();
    for (_, record) in records {
        let key = (MinuteStats::of(record), record.queue.clone());
        let fresh = || MinuteStats::new(MinuteStats::of(record), record.queue.clone());
        minutes.entry(key).or_insert_with(fresh).add(record);
    }
    minutes.into_values().collect()
}

/// Records as a journal has to keep them: in order, each once.
pub(crate) fn sorted(records: &[Numbered]) -> Vec<Numbered> {
    let mut records = records.to_vec();
    records.sort_by_key(Cursor::of);
    records.dedup_by_key(|it| Cursor::of(it));
    records
}

/// The most that one step of pruning may remove.
pub(crate) const STEP_MAX: u64 = 10_000;

/// Prunes until there is no more to remove; answers how much was.
pub(crate) async fn prune(journal: &Arc<dyn Journal>, keep: Keep, now: Timestamp) -> u64 {
    let mut removed = 0;
    for _ in 0..10_000 {
        let pruned = journal.prune(keep, now).await.expect("a step");
        assert!(pruned.records <= STEP_MAX, "a step of {}", pruned.records);
        removed += pruned.records;
        if !pruned.more {
            return removed;
        }
    }
    panic!("no end of pruning after {removed} records");
}
