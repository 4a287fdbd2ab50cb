//! Ends in transactions: one effect in the database, however often an event is attempted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duly::prelude::*;
use duly::records::Outcome;
use duly::store::MemoryStore;
use duly_outbox::{FinishIn, Relay, RelayOptions, Transaction};
use sqlx::Connection;
use sqlx_0_8::{Executor, PgPool};

use crate::aged::few_ends;
use crate::world::{Seen, TestDatabase, builder, bus, client, eventually};

/// What the handler has, and how often it was called.
#[derive(Clone)]
struct Shop {
    pool: PgPool,
    url: String,
    calls: Arc<AtomicU32>,
}

/// How an attempt of the handler ends, by the number of the order.
const FAILS_BEFORE_COMMIT: i64 = 1;
const FAILS_AFTER_COMMIT: i64 = 2;
const BY_TOKIO_POSTGRES: i64 = 3;
const BY_SQLX_0_9: i64 = 4;

#[delay_event(
    queue = "effects",
    register = false,
    attempts = 8,
    backoff = "fixed(1ms)"
)]
async fn effect(event: Event<i64>, cx: &Context, shop: duly::State<Shop>) -> Result<(), Failure> {
    let call = shop.calls.fetch_add(1, Ordering::Relaxed);
    let number = event.payload;
    if number == BY_TOKIO_POSTGRES {
        let mut client = client(&shop.url).await;
        let mut tx = client.transaction().await?;
        if cx.finish_in(&mut tx, &event).await?.is_again() {
            return Ok(());
        }
        tx.execute("insert into effects values ($1)", &[&number])
            .await?;
        tx.commit().await?;
    } else if number == BY_SQLX_0_9 {
        let mut connection = sqlx::PgConnection::connect(&shop.url).await?;
        let mut tx = connection.begin().await?;
        if cx.finish_in(&mut tx, &event).await?.is_again() {
            return Ok(());
        }
        sqlx::query("insert into effects values ($1)")
            .bind(number)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
    } else {
        let mut tx = shop.pool.begin().await?;
        if cx.finish_in(&mut tx, &event).await?.is_again() {
            return Ok(());
        }
        sqlx_0_8::query("insert into effects values ($1)")
            .bind(number)
            .execute(&mut *tx)
            .await?;
        if number == FAILS_BEFORE_COMMIT && call < 2 {
            return Err(Failure::retry("before the commit"));
        }
        tx.commit().await?;
    }
    if call < 2 {
        return Err(Failure::retry(
            "after the commit, as if the process had been killed",
        ));
    }
    Ok(())
}

async fn shop() -> (TestDatabase, Shop, Bus) {
    shop_on(MemoryStore::new()).await
}

async fn shop_on(store: MemoryStore) -> (TestDatabase, Shop, Bus) {
    let database = TestDatabase::new().await;
    database
        .pool
        .execute("create table effects (number bigint)")
        .await
        .unwrap();
    let shop = Shop {
        pool: database.pool.clone(),
        url: database.url.clone(),
        calls: Arc::default(),
    };
    let builder = Bus::builder().only_registered().store(store);
    let bus = builder
        .register(effect {})
        .state(shop.clone())
        .start()
        .await
        .unwrap();
    (database, shop, bus)
}

async fn done(bus: &Bus, id: EventId) {
    done_times(bus, id, 1).await;
}

async fn done_times(bus: &Bus, id: EventId, times: usize) {
    let done = async || {
        let records = bus
            .records()
            .id(id)
            .outcome(Outcome::Acked)
            .page()
            .await
            .unwrap();
        records.items.len() == times
    };
    eventually("the event is done", done).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_and_the_end_of_its_event_commit_together() {
    let all = [
        FAILS_BEFORE_COMMIT,
        FAILS_AFTER_COMMIT,
        BY_TOKIO_POSTGRES,
        BY_SQLX_0_9,
    ];
    for number in all {
        let (database, shop, bus) = shop().await;
        let sent = bus.queue::<effect>().push(number, When::Now).await.unwrap();
        done(&bus, sent.id()).await;
        assert_eq!(
            database.number("select count(*) from effects").await,
            1,
            "{number}"
        );
        assert_eq!(database.number("select count(*) from duly_done").await, 1);
        let calls = shop.calls.load(Ordering::Relaxed);
        let expected = if number == FAILS_BEFORE_COMMIT { 3 } else { 2 };
        assert_eq!(calls, expected, "{number}");
    }
}

/// The name is new again once its bucket has forgotten it, and its event another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_of_a_name_has_its_effect_once() {
    let (database, _shop, bus) = shop_on(MemoryStore::new().with_window(few_ends())).await;
    let queue = bus.queue::<effect>();
    let id = queue.id_for_name("customer:9");
    let push = async || queue.event(7).id(id).push().await.unwrap().is_accepted();
    let effects = "select count(*) from effects where number = 7";
    assert!(push().await);
    done(&bus, id).await; // its first attempt fails after the commit
    assert_eq!(database.number(effects).await, 1);
    while !push().await {
        let other = queue.push(8, When::Now).await.unwrap();
        done(&bus, other.id()).await;
    }
    done_times(&bus, id, 2).await;
    assert_eq!(database.number(effects).await, 2);
}

/// As after a lost lease: the other attempt is still at work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_beside_another_waits_for_its_end() {
    for commits in [true, false] {
        let (database, shop, bus) = shop().await;
        shop.calls.store(2, Ordering::Relaxed);
        let queue = bus.queue::<effect>();
        let id = queue.new_id();
        let mut other = database.pool.begin().await.unwrap();
        let sql = format!("insert into duly_done values ('effects/{id}', 1, 'other')");
        other.execute(&*sql).await.unwrap();
        other
            .execute("insert into effects values (7)")
            .await
            .unwrap();
        queue.event(7).id(id).push().await.unwrap();
        let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' \
                     and datname = current_database()";
        database.until(waits, 1).await;
        if commits {
            other.commit().await.unwrap();
        } else {
            other.rollback().await.unwrap();
        }
        done(&bus, id).await;
        assert_eq!(database.number("select count(*) from effects").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_known_for_its_time_and_then_deleted() {
    let database = TestDatabase::new().await;
    database
        .pool
        .execute(
            "insert into duly_done values ('a', 1, '', now() - interval '4 hours'), \
             ('b', 1, '', now() - interval '30 minutes')",
        )
        .await
        .unwrap();
    let bus = bus("memory:", &Seen::default()).await;
    let mut options = RelayOptions::default();
    options.done_kept = Duration::from_secs(7_200);
    let relay = Relay::sqlx_0_8(&bus, database.pool.clone(), options)
        .await
        .unwrap();
    database.until("select count(*) from duly_done", 1).await;
    assert_eq!(
        database
            .number("select count(*) from duly_done where event = 'b'")
            .await,
        1
    );
    relay.stop().await;
}

#[delay_event(
    queue = "slow",
    register = false,
    attempts = 3,
    timeout = "1h",
    backoff = "steps(1h, 1d)"
)]
async fn slow(_: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

fn never(_attempt: u16) -> Duration {
    Duration::MAX
}

/// Its second attempt is due after the longest delay.
#[delay_event(queue = "never", register = false, attempts = 2, timeout = "1s", backoff = never)]
async fn once(_: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

/// An attempt that comes later would have its effect again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_that_is_shorter_than_the_attempts_of_an_event_is_refused() {
    let database = TestDatabase::new().await;
    // 16 attempts of 30 s, and the delays 1 s, 2 s, ... 512 s, and 10 minutes five times.
    let quick = bus("memory:", &Seen::default()).await;
    let builder = builder(&Seen::default()).register(slow {});
    let both = builder.store_url("memory:").start().await.unwrap();
    let builder = Bus::builder().only_registered().register(once {});
    let once = builder.store_url("memory:").start().await.unwrap();
    let longest = u64::from(u32::MAX);
    for (bus, queue, last) in [
        (quick, "orders", 4_503),
        (both, "slow", 28 * 3_600),
        (once, "never", longest + 2),
    ] {
        let start = async |kept: u64, is_url: bool| {
            let mut options = RelayOptions::default();
            options.done_kept = Duration::from_secs(kept);
            if is_url {
                Relay::connect(&bus, &database.url, options).await
            } else {
                Relay::sqlx_0_8(&bus, database.pool.clone(), options).await
            }
        };
        for is_url in [false, true] {
            let error = start(last, is_url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let error = error.to_string();
            let is_named = error.contains(&format!("`{queue}`"));
            assert!(is_named && error.contains(&format!("{last}s")), "{error}");
            start(last + 1, is_url).await.unwrap().stop().await;
        }
    }
}

/// The trait is what drivers of others would implement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_context_has_nothing_to_finish() {
    let database = TestDatabase::new().await;
    let cx = Context::detached("effects", duly::States::default());
    let mut tx = database.pool.begin().await.unwrap();
    let error = cx
        .finish_in(&mut tx, &Event::published(1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    tx.insert_events(vec![vec![1]]).await.unwrap();
}
