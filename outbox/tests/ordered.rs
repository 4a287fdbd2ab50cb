//! Events that contend for one unique key: after an outage the one stands that a direct push leaves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::EventBuilder;
use duly::prelude::*;
use duly::store::{Durability, MemoryStore, Store, operation::StoreOp};
use futures_util::future::join_all;

use crate::at_rest::before;
use crate::databases::{DEFERRED, Outbox};
use crate::drivers::Driver;
use crate::faulty::{Fault, Faulty};
use crate::partly::{away, faulty};
use crate::world::{Order, Seen, TestDatabase, builder, bus, eventually, order, orders};

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

/// While one relay waits for the store, another one finds a later event of the same key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_relays_none_overtakes_what_the_other_has() {
    join_all(Outbox::all().await.map(overtakes_nothing)).await;
}

async fn overtakes_nothing(outbox: Outbox) {
    let seen = Seen::default();
    let near: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let store = Faulty::to(&near);
    let shared: Arc<dyn Store> = store.clone();
    let bus = builder(&seen).shared_store(shared).start().await.unwrap();
    bus.set_buckets("orders", Some(1)).await.unwrap();
    bus.pause("orders").await.unwrap();
    let queue = orders(&bus);
    let relays = [outbox.relay(&bus).await, outbox.relay(&bus).await];
    let pushes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pushes);
    store.meets(move |_, op| match op {
        StoreOp::Push(_) if counted.fetch_add(1, Ordering::Relaxed) == 0 => Fault::Hung,
        _ => Fault::None,
    });
    outbox
        .push_events(vec![unique(&queue, 1, "job", Unique::Replace)])
        .await;
    let is_pushing = async || pushes.load(Ordering::Relaxed) > 0;
    eventually("the first event is being pushed", is_pushing).await;
    outbox
        .push_events(vec![unique(&queue, 2, "job", Unique::Replace)])
        .await;
    outbox.settled().await;
    for relay in relays {
        relay.stop().await;
    }
    bus.resume("orders").await.unwrap();
    seen.reach(1).await;
    assert_eq!(seen.numbers(), [2], "{}", outbox.name());
}

/// A relay asks for what was deferred of a key only if anything was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nothing_is_deferred_no_key_is_looked_for() {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let (proxy, url) = before(&database);
    let [pages, looks] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = [Arc::clone(&pages), Arc::clone(&looks)];
    proxy.on_request(move |piece| {
        let text = String::from_utf8_lossy(piece);
        let words = ["insert into duly_outbox_step", "select wanted.key"];
        for (word, count) in words.iter().zip(&counts) {
            count.fetch_add(text.matches(word).count(), Ordering::Relaxed);
        }
        None
    });
    let relay = Driver::TokioPostgres.relay(&bus, &url).await.unwrap();
    let outbox = Outbox::Postgres(database);
    for number in 0..20 {
        let event = unique(&orders(&bus), number, &number.to_string(), Unique::Keep);
        outbox.push_events(vec![event]).await;
        seen.reach(usize::try_from(number + 1).unwrap()).await;
    }
    relay.stop().await;
    assert!(pages.load(Ordering::Relaxed) >= 20, "all are counted");
    assert_eq!(looks.load(Ordering::Relaxed), 0);
}

/// The other one is about to push it. Elsewhere a relay waits for such a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_takes_no_row_behind_one_that_another_has_locked() {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let (store, bus) = faulty(&seen, MemoryStore::new()).await;
    bus.set_buckets("orders", Some(1)).await.unwrap();
    bus.pause("orders").await.unwrap();
    let (queue, outbox) = (orders(&bus), Outbox::Postgres(database));
    let Outbox::Postgres(database) = &outbox else {
        unreachable!("it was just made");
    };
    store.meets(away("orders", None, Fault::Refused(ErrorKind::Unavailable)));
    let relay = outbox.relay(&bus).await;
    for (number, key) in [(0, "first"), (1, "job"), (2, "job")] {
        let event = unique(&queue, number, key, Unique::Replace);
        outbox.push_events(vec![event]).await;
    }
    outbox.until(DEFERRED, 3).await;
    relay.stop().await;
    store.meets(|_, _| Fault::None);
    let mut other = database.client().await;
    let other = other.transaction().await.unwrap();
    let lock = "select from duly_outbox_deferred where key = \
                (select key from duly_outbox_deferred order by key offset 1 limit 1) for update";
    other.query(lock, &[]).await.unwrap();
    let relay = outbox.relay(&bus).await;
    outbox.until(DEFERRED, 2).await;
    for number in 3..6 {
        outbox.push(&queue, number..number + 1, When::Now).await;
        let is_pushed = async || {
            let stats = bus.stats("orders").await.unwrap();
            (stats.scheduled + stats.ready) as u64 == number - 1
        };
        eventually("another event is pushed", is_pushed).await;
    }
    let free = "select count(*) from duly_outbox_deferred where holder = ''";
    assert_eq!(outbox.number(free).await, 2);
    drop(other);
    outbox.settled().await;
    relay.stop().await;
    bus.resume("orders").await.unwrap();
    seen.reach(5).await;
    assert_eq!(seen.numbers(), [0, 2, 3, 4, 5]);
}

/// Such events go to the store by calls of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_another_durability_overtakes_none_of_its_key() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let (store, bus) = faulty(&seen, MemoryStore::new()).await;
        bus.set_buckets("orders", Some(1)).await.unwrap();
        bus.pause("orders").await.unwrap();
        let queue = orders(&bus);
        let is_refused = |event: &duly::store::operation::NewEvent| event.envelope.attempts == 7;
        let mut refusals = 0;
        store.meets(move |_, op| match op {
            StoreOp::Push(events) if refusals < 2 && events.iter().any(is_refused) => {
                refusals += 1;
                Fault::Refused(ErrorKind::Unavailable)
            }
            _ => Fault::None,
        });
        let first = unique(&queue, 1, "job", Unique::Replace).attempts(7);
        let second = unique(&queue, 2, "job", Unique::Replace);
        let events = vec![first.durable(Durability::Memory), second];
        outbox.push_events(events).await;
        let relay = outbox.relay(&bus).await;
        outbox.settled().await;
        relay.stop().await;
        bus.resume("orders").await.unwrap();
        seen.reach(1).await;
        assert_eq!(seen.numbers(), [2], "{}", outbox.name());
    }
}

/// By the statistics of such a table any row has the key that is looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_looked_for_in_the_index_among_many_rows_without_one() {
    const ROWS: i64 = 20_000;
    const KEYS: u64 = 300;
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    // Another relay has them.
    let deferred = format!(
        "insert into duly_outbox_deferred (at, repeated, event, bucket, holder, until) \
         select now(), false, '', 'mails/0', 'other', now() + interval '50 s' \
         from generate_series(1, {ROWS})"
    );
    let client = database.client().await;
    client.batch_execute(&deferred).await.unwrap();
    let analyze = "analyze duly_outbox_deferred";
    client.batch_execute(analyze).await.unwrap();
    let outbox = Outbox::Postgres(database);
    let event = |number: u64| unique(&orders(&bus), number, &number.to_string(), Unique::Keep);
    outbox.push_events((0..KEYS).map(event).collect()).await;
    let relay = outbox.relay(&bus).await;
    seen.reach(usize::try_from(KEYS).unwrap()).await;
    relay.stop().await; // its connection tells what it has read
    let read = |what: &str| {
        format!(
            "select coalesce(sum({what}), 0)::bigint from pg_stat_user_tables \
             where relname = 'duly_outbox_deferred'"
        )
    };
    let of_keys = i64::try_from(KEYS).unwrap();
    let is_told = async || {
        let (by_index, by_scan) = (outbox.number(&read("idx_scan")).await, "seq_scan");
        by_index + outbox.number(&read(by_scan)).await >= of_keys
    };
    eventually("the server tells what was read", is_told).await;
    let scanned = outbox.number(&read("seq_tup_read")).await;
    assert!(scanned < ROWS * of_keys / 4, "{scanned} rows were read");
}

/// None of those that wait behind it is looked at for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_events_of_a_key_that_the_store_does_not_take_keep_no_other_waiting() {
    const MANY: i64 = 2_100;
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let (store, bus) = faulty(&seen, MemoryStore::new()).await;
        bus.set_buckets("orders", Some(1)).await.unwrap();
        let queue = orders(&bus);
        store.meets(away("orders", None, Fault::Refused(ErrorKind::Unavailable)));
        let relay = outbox.relay(&bus).await;
        let poison = |number| unique(&queue, number, "job", Unique::Keep);
        outbox
            .push_events((0..MANY.cast_unsigned()).map(poison).collect())
            .await;
        outbox.until(DEFERRED, MANY).await;
        let other = unique(&queue, POISON, "other", Unique::Keep);
        outbox.push_events(vec![other]).await;
        outbox.until(DEFERRED, MANY + 1).await;
        let is_poison = |event: &duly::store::operation::NewEvent| {
            event.envelope.unique.as_deref() == Some("job")
        };
        store.meets(move |_, op| match op {
            StoreOp::Push(events) if events.iter().any(is_poison) => {
                Fault::Refused(ErrorKind::Unavailable)
            }
            _ => Fault::None,
        });
        seen.reach(1).await;
        assert_eq!(seen.numbers(), [POISON], "{}", outbox.name());
        outbox.until(DEFERRED, MANY).await;
        relay.stop().await;
    }
}
