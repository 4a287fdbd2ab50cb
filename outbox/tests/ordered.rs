//! Events that contend for one unique key: after an outage the one stands that a direct push leaves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::EventBuilder;
use duly::prelude::*;
use duly::store::{MemoryStore, Store, operation::StoreOp};
use duly_outbox::Database;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::databases::{DEFERRED, Outbox};
use crate::faulty::{Fault, Faulty};
use crate::partly::{away, faulty};
use crate::world::{Order, Seen, builder, bus, eventually, order, orders};

/// How the events of one unique key are pushed.
#[derive(Clone, Copy, Debug)]
struct Way {
    on_taken: Unique,
    /// In one transaction, or in several.
    is_together: bool,
    is_plain: bool,
}

/// The events of each key.
const EACH: u64 = 5;

/// The event that the store never takes, before all others of its bucket; its number and its key.
const POISON: u64 = 9_999;

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for on_taken in [Unique::Replace, Unique::Keep] {
        for is_together in [false, true] {
            for is_plain in [false, true] {
                ways.push(Way {
                    on_taken,
                    is_together,
                    is_plain,
                });
            }
        }
    }
    ways
}

fn unique(queue: &Queue<Order>, number: u64, key: &str, on_taken: Unique) -> EventBuilder<Order> {
    queue.event(order(number)).unique(key, on_taken)
}

/// Pushes some events of each key, of which the first has this number there.
async fn push(outbox: &Outbox, queue: &Queue<Order>, first: u64) {
    for (way, key) in ways().into_iter().zip(0..) {
        let numbers = (first..).take(2).map(|n| key * 100 + n);
        let (key, on_taken) = (format!("job:{key}"), way.on_taken);
        if way.is_plain {
            let on_taken = format!("{on_taken:?}").to_lowercase();
            let options = format!("{{\"unique\": \"{key}\", \"on_taken\": \"{on_taken}\"}}");
            let pushes = numbers.map(|n| outbox.plain(n, &options));
            let pushes: Vec<_> = if way.is_together {
                vec![format!(
                    "begin; {}; commit",
                    pushes.collect::<Vec<_>>().join("; ")
                )]
            } else {
                pushes.collect()
            };
            for sql in pushes {
                outbox.execute(&sql).await;
            }
        } else {
            let events = numbers.map(|n| unique(queue, n, &key, on_taken));
            let transactions: Vec<Vec<_>> = if way.is_together {
                vec![events.collect()]
            } else {
                events.map(|event| vec![event]).collect()
            };
            for events in transactions {
                outbox.push_events(events).await;
            }
        }
    }
}

/// What direct pushes in this order leave.
async fn expected() -> BTreeSet<u64> {
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    bus.pause("orders").await.unwrap();
    for (way, key) in ways().into_iter().zip(0..) {
        for n in 0..EACH * 2 {
            let key_name = format!("job:{key}");
            let event = unique(&orders(&bus), key * 100 + n, &key_name, way.on_taken);
            event.push().await.unwrap();
        }
    }
    bus.resume("orders").await.unwrap();
    seen.reach(ways().len()).await;
    seen.numbers().into_iter().collect()
}

/// Each try takes one row, and several are over before the store returns; events are pushed before,
/// meanwhile, and beside those that are pushed then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_the_event_stands_that_a_direct_push_leaves() {
    let expected = expected().await;
    let mut cases = Vec::new();
    for fault in [
        Fault::Refused(ErrorKind::Unavailable),
        Fault::Refused(ErrorKind::Full),
        Fault::Lost,
    ] {
        for outbox in Outbox::all().await {
            cases.push(stands(fault, outbox, &expected));
        }
    }
    join_all(cases).await;
}

async fn stands(fault: Fault, outbox: Outbox, expected: &BTreeSet<u64>) {
    let seen = Seen::default();
    let near: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let store = Faulty::to(&near);
    let shared: Arc<dyn Store> = store.clone();
    let bus = builder(&seen).shared_store(shared).start().await.unwrap();
    bus.set_buckets("orders", Some(1)).await.unwrap();
    bus.pause("orders").await.unwrap();
    let queue = orders(&bus);
    let tries = Arc::new(AtomicUsize::new(0));
    let poisoned = |is_away: bool| {
        let tries = Arc::clone(&tries);
        move |_: &duly::event::BucketKey, op: &StoreOp| match op {
            StoreOp::Push(events) => {
                tries.fetch_add(1, Ordering::Relaxed);
                let is_poison = |key: &String| *key == POISON.to_string();
                let has_poison = events
                    .iter()
                    .any(|event| event.envelope.unique.as_ref().is_some_and(is_poison));
                match (is_away, has_poison) {
                    (_, true) => Fault::Refused(ErrorKind::Unavailable),
                    (true, false) => fault,
                    (false, false) => Fault::None,
                }
            }
            _ => Fault::None,
        }
    };
    store.meets(poisoned(true));
    let relay = outbox.relay(&bus).await;
    let poison = unique(&queue, POISON, &POISON.to_string(), Unique::Keep);
    outbox.push_events(vec![poison]).await;
    for round in 0..EACH - 2 {
        push(&outbox, &queue, 2 * round).await;
        let tried = tries.load(Ordering::Relaxed);
        let is_tried = async || tries.load(Ordering::Relaxed) >= tried + 2;
        eventually("deferred rows are tried", is_tried).await;
    }
    // Another relay knows nothing of what this one has tried.
    relay.stop().await;
    push(&outbox, &queue, 2 * (EACH - 2)).await;
    store.meets(poisoned(false));
    let relay = outbox.relay(&bus).await;
    push(&outbox, &queue, 2 * (EACH - 1)).await;
    outbox.settled_but(1).await;
    store.meets(|_, _| Fault::None);
    outbox.settled().await;
    bus.resume("orders").await.unwrap();
    seen.reach(expected.len() + 1).await;
    let mut stands: BTreeSet<_> = seen.numbers().into_iter().collect();
    assert!(stands.remove(&POISON));
    assert_eq!(stands, *expected, "{} {fault:?}", outbox.name());
    assert_eq!(outbox.number(DEFERRED).await, 0);
    relay.stop().await;
}

/// Whichever of two relays takes the later one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_waits_for_an_earlier_one_that_another_relay_has_deferred() {
    const ROUNDS: u64 = 40;
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let (store, bus) = faulty(&seen, MemoryStore::new()).await;
        bus.pause("orders").await.unwrap();
        let queue = orders(&bus);
        let relays = [outbox.relay(&bus).await, outbox.relay(&bus).await];
        for round in 0..ROUNDS {
            let event = |number| {
                let key = format!("job:{round}");
                unique(&queue, 2 * round + number, &key, Unique::Keep)
            };
            store.meets(away("orders", None, Fault::Refused(ErrorKind::Unavailable)));
            outbox.push_events(vec![event(0)]).await;
            outbox.until(DEFERRED, 1).await;
            store.is(Fault::None);
            outbox.push_events(vec![event(1)]).await;
            outbox.settled().await;
        }
        bus.resume("orders").await.unwrap();
        let first: Vec<_> = (0..ROUNDS).map(|round| 2 * round).collect();
        seen.reach(first.len()).await;
        assert_eq!(seen.numbers(), first, "{}", outbox.name());
        for relay in relays {
            relay.stop().await;
        }
    }
}

/// Beside dead rows that a snapshot keeps, each look takes long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_alone_looks_for_deferred_rows_now_and_then() {
    const PAGES: u64 = 200;
    let outbox = Outbox::new(Database::Postgres).await;
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let relay = outbox.relay(&bus).await;
    let began = Instant::now();
    for (number, pages) in (0..PAGES).zip(1..) {
        let event = unique(&queue, number, &number.to_string(), Unique::Keep);
        outbox.push_events(vec![event]).await;
        seen.reach(pages).await;
    }
    let seconds = i64::try_from(began.elapsed().as_secs()).unwrap() + 1;
    relay.stop().await;
    let scans = "select coalesce(sum(seq_scan + idx_scan), 0)::bigint from pg_stat_user_tables \
                 where relname = 'duly_outbox_deferred'";
    let is_counted = async || outbox.number(scans).await > 0;
    eventually("the looks of the session are counted", is_counted).await;
    // It counts what waits, too.
    let scans = outbox.number(scans).await;
    assert!(scans < 50 + 4 * seconds, "{scans} in {seconds} s");
}
