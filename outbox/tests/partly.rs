//! A store that takes some events and not others: of one queue, or of one bucket. The others go on.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::store::{MemoryStore, Store, operation::StoreOp};
use duly_outbox::Database;

use crate::aged::few_ends;
use crate::databases::{DEFERRED, Outbox};
use crate::drivers::Driver;
use crate::faulty::{Fault, Faulty};
use crate::world::{
    Order, Seen, TestDatabase, builder, bus, client, eventually, order, orders, push_to,
};

/// A bus on a store in memory that has faults.
pub(crate) async fn faulty(seen: &Seen, store: MemoryStore) -> (Arc<Faulty>, Bus) {
    let near: Arc<dyn Store> = Arc::new(store);
    let faulty = Faulty::to(&near);
    let store: Arc<dyn Store> = faulty.clone();
    let bus = builder(seen).shared_store(store).start().await.unwrap();
    (faulty, bus)
}

pub(crate) fn away(
    queue: &'static str,
    bucket: Option<u16>,
    fault: Fault,
) -> impl FnMut(&duly::event::BucketKey, &StoreOp) -> Fault + Send {
    move |key, op| {
        let is_meant = key.queue.as_str() == queue && bucket.is_none_or(|it| it == key.bucket.0);
        if is_meant && matches!(op, StoreOp::Push(_)) {
            fault
        } else {
            Fault::None
        }
    }
}

/// More than a page of each, and of each several transactions. All faults and databases at once, as
/// each waits for the store most of the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_the_store_does_not_take_delays_no_other() {
    let mut cases = Vec::new();
    for fault in [
        Fault::Refused(ErrorKind::Unavailable),
        Fault::Refused(ErrorKind::Full),
        Fault::Lost,
        Fault::Hung,
    ] {
        for outbox in Outbox::all().await {
            cases.push(delays_no_other(fault, outbox));
        }
    }
    futures_util::future::join_all(cases).await;
}

async fn delays_no_other(fault: Fault, outbox: Outbox) {
    let hour = When::After(Duration::from_secs(3_600));
    let seen = Seen::default();
    let (store, bus) = faulty(&seen, MemoryStore::new()).await;
    store.meets(away("mails", None, fault));
    let (mails, orders) = (bus.queue_named::<Order>("mails").unwrap(), orders(&bus));
    outbox.push(&mails, 0..1_300, hour).await;
    outbox.push(&orders, 0..1, When::Now).await;
    let relay = outbox.relay(&bus).await;
    seen.reach(1).await;
    for number in 1..20 {
        outbox
            .push(&mails, 2_000 + number..2_001 + number, hour)
            .await;
        outbox.push(&orders, number..number + 1, When::Now).await;
        seen.reach(usize::try_from(number + 1).unwrap()).await;
    }
    outbox.until(DEFERRED, 1_319).await;
    relay.stop().await;
    // Another one goes on where the first was. A push that hangs would be waited for.
    if fault == Fault::Hung {
        store.meets(|_, _| Fault::None);
    }
    let relay = outbox.relay(&bus).await;
    store.meets(|_, _| Fault::None);
    outbox.until(DEFERRED, 0).await;
    let stats = bus.stats("mails").await.unwrap();
    assert_eq!(stats.scheduled, 1_319, "{fault:?}");
    assert!(seen.counts().values().all(|count| *count == 1));
    relay.stop().await;
}

/// A relay that was away finds page after page of one bucket, and each is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_not_deferred_beside_the_deferred_rows_of_its_bucket() {
    const DEFERRED_BEFORE: u64 = 3_000;
    const ALL: u64 = 15_000;
    let hour = When::After(Duration::from_secs(3_600));
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        bus.set_buckets("orders", Some(1)).await.unwrap();
        let queue = orders(&bus);
        let defer = async |events| {
            outbox.execute("delete from duly_outbox").await; // what was passed
            outbox.push(&queue, events, hour).await;
            outbox
                .execute(
                    "insert into duly_outbox_deferred (at, repeated, event, bucket) \
                     select at, repeated, event, 'orders/0' from duly_outbox",
                )
                .await;
            outbox.execute("delete from duly_outbox").await;
        };
        defer(0..DEFERRED_BEFORE).await;
        outbox.push(&queue, DEFERRED_BEFORE..ALL, hour).await;
        let relay = outbox.relay(&bus).await;
        let has_all = async || bus.stats("orders").await.unwrap().scheduled as u64 == ALL;
        eventually("the store has all", has_all).await;
        outbox.settled().await;
        relay.stop().await;
        // The number of one more says how many there were, and on MariaDB, where numbers are taken by
        // the thousand, some more; some pages may come before their group is known, or beside deferred
        // rows that take their time.
        defer(ALL..ALL + 1).await;
        let number = if matches!(outbox, Outbox::Mysql(_)) {
            "n"
        } else {
            "key"
        };
        let last = format!("select max({number}) from duly_outbox_deferred");
        let deferred = outbox.number(&last).await;
        assert!(
            deferred < 11_000,
            "{}: {deferred} were deferred",
            outbox.name()
        );
    }
}

/// They would be in the way of each look for others for as long as the snapshot is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deferred_rows_that_are_settled_leave_nothing_behind_beside_a_held_snapshot() {
    let outbox = Outbox::new(Database::Postgres).await;
    let Outbox::Postgres(database) = &outbox else {
        unreachable!("it is one of PostgreSQL");
    };
    let seen = Seen::default();
    let (store, bus) = faulty(&seen, MemoryStore::new()).await;
    let full = Fault::Refused(ErrorKind::Full);
    store.meets(away("mails", None, full));
    let mails = bus.queue_named::<Order>("mails").unwrap();
    let relay = outbox.relay(&bus).await;
    let hour = When::After(Duration::from_secs(3_600));
    outbox.push(&mails, 0..6_000, hour).await;
    outbox.until(DEFERRED, 6_000).await;
    let held = client(&database.url).await;
    let hold = "begin isolation level repeatable read; select count(*) from pg_class";
    held.batch_execute(hold).await.unwrap();
    store.meets(|_, _| Fault::None);
    outbox.until(DEFERRED, 0).await;
    let size = "select pg_relation_size('duly_outbox_deferred')";
    outbox.until(size, 0).await;
    assert_eq!(bus.stats("mails").await.unwrap().scheduled, 6_000);
    held.batch_execute("rollback").await.unwrap();
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_away_delays_no_other_bucket_of_its_queue() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let (store, bus) = faulty(&seen, MemoryStore::new()).await;
        let queue = orders(&bus);
        let mut buckets = std::collections::BTreeSet::new();
        while buckets.len() < 2 {
            buckets.insert(queue.new_id().bucket());
        }
        let gone = buckets.into_iter().next().unwrap();
        let fault = Fault::Refused(ErrorKind::Unavailable);
        store.meets(away("orders", Some(gone.0), fault));
        // Ones of that bucket stand before the others.
        let relay = outbox.relay(&bus).await;
        for number in 0..60 {
            outbox.push(&queue, number..number + 1, When::Now).await;
        }
        let both = async || {
            let deferred = usize::try_from(outbox.number(DEFERRED).await).unwrap();
            deferred > 0 && deferred + seen.numbers().len() == 60
        };
        eventually("the others are handled", both).await;
        store.meets(|_, _| Fault::None);
        seen.reach(60).await;
        assert!(seen.counts().values().all(|count| *count == 1));
        outbox.until(DEFERRED, 0).await;
        relay.stop().await;
    }
}

/// Its id is then older than the store accepts. Whether it may have been accepted is remembered: one
/// that was not goes on under a new id, and one that was is not doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deferred_for_long_is_neither_lost_nor_doubled() {
    for fault in [Fault::Refused(ErrorKind::Unavailable), Fault::Lost] {
        for outbox in Outbox::all().await {
            let seen = Seen::default();
            let memory = MemoryStore::new().with_window(few_ends());
            let (store, bus) = faulty(&seen, memory).await;
            let queue = orders(&bus);
            store.meets(away("orders", None, fault));
            let relay = outbox.relay(&bus).await;
            outbox.push(&queue, 7..8, When::Now).await;
            let tried = "select count(*) from duly_outbox_deferred where tries > 1";
            outbox.until(tried, 1).await;
            relay.stop().await;
            store.meets(|_, _| Fault::None);
            for number in 1_000..2_000 {
                // A store that forgets so soon refuses one now and then.
                while let Err(error) = queue.push(order(number), When::Now).await {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                }
            }
            let relay = outbox.relay(&bus).await;
            outbox.settled().await;
            let refused = "select count(*) from duly_outbox_refused";
            assert_eq!(outbox.number(refused).await, 0, "its records know it");
            seen.reach(1_001).await;
            let is_idle = async || {
                let stats = bus.stats("orders").await.unwrap();
                stats.scheduled + stats.ready + stats.leased == 0
            };
            eventually("nothing is left to handle", is_idle).await;
            assert_eq!(seen.counts()[&7], 1, "{fault:?}");
            relay.stop().await;
        }
    }
}

/// Each has what the other has not, and a claim of deferred rows is of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_relays_push_what_is_deferred_once() {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let (store, bus) = faulty(&seen, MemoryStore::new()).await;
    store.meets(away("orders", None, Fault::Refused(ErrorKind::Unavailable)));
    let relays = [
        Driver::Sqlx08.relay(&bus, &database.url).await.unwrap(),
        Driver::TokioPostgres
            .relay(&bus, &database.url)
            .await
            .unwrap(),
    ];
    for number in 0..200 {
        push_to(&database.pool, &orders(&bus), number).await;
    }
    database.until(DEFERRED, 200).await;
    store.meets(|_, _| Fault::None);
    seen.reach(200).await;
    database.until(DEFERRED, 0).await;
    assert!(seen.counts().values().all(|count| *count == 1));
    for relay in relays {
        relay.stop().await;
    }
}

/// It may have pushed the row, whatever becomes of it here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_row_that_another_relay_took_meanwhile_it_is_kept_that_it_may_have_been_pushed() {
    for is_deferred in [false, true] {
        for kind in [ErrorKind::Unavailable, ErrorKind::Invalid] {
            for outbox in Outbox::all().await {
                taken_meanwhile(Arc::new(outbox), is_deferred, kind).await;
            }
        }
    }
}

async fn taken_meanwhile(outbox: Arc<Outbox>, is_deferred: bool, kind: ErrorKind) {
    // Another relay takes the row, as if the time of the first were over.
    let takes = match (&*outbox, is_deferred) {
        (_, true) => "update duly_outbox_deferred set holder = 'other', repeated = true",
        (Outbox::Sqlite(_), false) => "update duly_outbox_step set claims = claims + 1",
        (Outbox::Mysql(_), false) => "update duly_outbox set holder = 'other', repeated = 2",
        (Outbox::Postgres(_), false) => return, // the page of the first is then nobody's
    };
    let seen = Seen::default();
    let (store, bus) = faulty(&seen, MemoryStore::new()).await;
    outbox.push(&orders(&bus), 1..2, When::Now).await;
    if is_deferred {
        let unavailable = Fault::Refused(ErrorKind::Unavailable);
        store.meets(away("orders", None, unavailable));
        let relay = outbox.relay(&bus).await;
        outbox.until(DEFERRED, 1).await;
        relay.stop().await;
    }
    let (mut takes, mut fault) = (Some(takes), away("orders", None, Fault::Refused(kind)));
    let other = Arc::clone(&outbox);
    store.meets(move |key, op| {
        let fault = fault(key, op);
        if fault != Fault::None
            && let Some(takes) = takes.take()
        {
            other.execute_blocking(takes);
        }
        fault
    });
    let relay = outbox.relay(&bus).await;
    let (table, is_over) = match (kind, is_deferred) {
        (ErrorKind::Invalid, _) => ("duly_outbox_refused", "true"),
        (_, true) => ("duly_outbox_deferred", "holder = 'other'"),
        (_, false) => ("duly_outbox_deferred", "tries > 0"),
    };
    let over = format!("select count(*) from {table} where {is_over}");
    outbox.until(&over, 1).await;
    relay.stop().await;
    let is_repeated = match *outbox {
        Outbox::Postgres(_) => "repeated",
        Outbox::Sqlite(_) | Outbox::Mysql(_) => "repeated > 0",
    };
    let repeated = format!("select count(*) from {table} where {is_repeated}");
    let count = outbox.number(&repeated).await;
    assert_eq!(count, 1, "{} {is_deferred} {kind:?}", outbox.name());
}
