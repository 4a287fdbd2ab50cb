//! The relay: several at once, a database or a store that is away, old ids, copies of a database.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::store::MemoryStore;
use duly_outbox::{PushIn, Relay, RelayOptions};
use futures_util::future::join_all;
use sqlx_0_8::postgres::PgConnectOptions;
use sqlx_0_8::{Executor, PgPool};
use tokio_postgres::error::SqlState;

use crate::databases::Outbox;
use crate::servers::{Pooler, Postgres, PostgresOptions, Redis, prefix, shared_postgres};
use crate::world::{
    LATE, Seen, TestDatabase, World, builder, bus, client, eventually, order, orders, push, push_to,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_names_what_the_database_lacks() {
    let database = TestDatabase::empty().await;
    let bus = bus("memory:", &Seen::default()).await;
    let start = || Relay::sqlx_0_8(&bus, database.pool.clone(), RelayOptions::default());
    let error = start().await.unwrap_err().to_string();
    for name in [
        "duly_outbox,",
        "duly_outbox_step",
        "duly_done",
        "duly_push",
        "duly outbox schema",
    ] {
        assert!(error.contains(name), "{error}");
    }
    // As a migration tool does it: as often as it likes.
    for _ in 0..2 {
        let sql = duly_outbox::schema(duly_outbox::Database::Postgres);
        database.pool.execute(sql).await.unwrap();
    }
    start().await.unwrap().stop().await;
    database
        .pool
        .execute("update duly_outbox_version set version = 0")
        .await
        .unwrap();
    let error = start().await.unwrap_err().to_string();
    assert!(
        error.contains("have version 0, this program needs 1"),
        "{error}"
    );
    let mut options = RelayOptions::default();
    options.idle_poll = Duration::ZERO;
    let error = Relay::sqlx_0_8(&bus, database.pool.clone(), options)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("idle_poll is 0ns"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_relays_push_each_event_once() {
    let world = World::new().await;
    let relays = join_all((0..4).map(|_| world.relay())).await;
    for number in 0..300 {
        push(&world, number).await;
    }
    world.seen.reach(300).await;
    for relay in relays {
        relay.stop().await;
    }
    assert!(world.seen.counts().values().all(|count| *count == 1));
}

/// More rows than a page has, in one transaction and beside others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_transaction_is_pushed_page_by_page() {
    let world = World::new().await;
    let mut large = world.database.pool.begin().await.unwrap();
    let pushed = world
        .orders
        .push_many_in(&mut large, (0..2_500).map(order), When::Now);
    pushed.await.unwrap();
    push(&world, 5_000).await;
    let relay = world.relay().await;
    world.seen.reach(1).await;
    large.commit().await.unwrap();
    for number in 5_001..5_010 {
        push(&world, number).await;
    }
    world.seen.reach(2_510).await;
    relay.stop().await;
    assert!(world.seen.counts().values().all(|count| *count == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_lends_sessions_by_the_transaction_is_enough() {
    let mut server = Postgres::start(PostgresOptions::default());
    server.sql(duly_outbox::schema(duly_outbox::Database::Postgres));
    let pooler = Pooler::start(&server);
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let options = RelayOptions::default();
    let config = pooler.url().parse().unwrap();
    let first = Relay::tokio_postgres(&bus, config, tokio_postgres::NoTls, options.clone()).await;
    // A setting that PgBouncer does not know.
    let url: PgConnectOptions = pooler.url().parse().unwrap();
    let pool = PgPool::connect_with(url.extra_float_digits(None))
        .await
        .unwrap();
    let second = Relay::sqlx_0_8(&bus, pool, options).await.unwrap();
    let mut client = client(&pooler.url()).await;
    for number in 0..50 {
        let mut tx = client.transaction().await.unwrap();
        let pushed = orders(&bus)
            .push_in(&mut tx, order(number), When::Now)
            .await;
        pushed.unwrap();
        tx.commit().await.unwrap();
    }
    seen.reach(50).await;
    assert!(seen.counts().values().all(|count| *count == 1));
    first.unwrap().stop().await;
    second.stop().await;
    server.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_grows_while_the_store_is_away() {
    let mut redis = Redis::plain();
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let store = format!("{}?prefix={}&timeout=500ms", redis.url(), prefix());
    let bus = bus(&store, &seen).await;
    let (relay, queue) = (
        Relay::sqlx_0_8(&bus, database.pool.clone(), RelayOptions::default())
            .await
            .unwrap(),
        orders(&bus),
    );
    push_to(&database.pool, &queue, 0).await;
    seen.reach(1).await;
    redis.kill();
    for number in 1..=20 {
        push_to(&database.pool, &queue, number).await;
    }
    // It tries again and again.
    let waiting = "select count(*) from duly_outbox_deferred";
    database.until(waiting, 20).await;
    let tried = "select coalesce(sum(tries), 0)::bigint from duly_outbox_deferred";
    let is_trying = async || database.number(tried).await >= 4;
    eventually("it tries again and again", is_trying).await;
    assert_eq!(seen.numbers(), [0]);
    redis.restart();
    seen.reach(21).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_the_store_goes_on_while_the_database_is_away() {
    let mut server = Postgres::start(PostgresOptions::default());
    server.sql(duly_outbox::schema(duly_outbox::Database::Postgres));
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let options = RelayOptions::default();
    let config = server.url().parse().unwrap();
    let relay = Relay::tokio_postgres(&bus, config, tokio_postgres::NoTls, options)
        .await
        .unwrap();
    server.kill();
    orders(&bus).push(order(1), When::Now).await.unwrap();
    seen.reach(1).await;
    server.restart();
    let pool = PgPool::connect(&server.url()).await.unwrap();
    push_to(&pool, &orders(&bus), 2).await;
    seen.reach(2).await;
    assert!(!relay.has_ended());
    relay.stop().await;
}

/// Locks what a relay reads and writes, in a transaction that stays open: the database takes requests,
/// and does not reply.
const LOCK: &str = "lock table duly_outbox_step, duly_outbox_deferred in access exclusive mode";

/// Stops a relay, which must not take as long as a request may.
async fn stops_in_time(relay: Relay) {
    let stopped = tokio::time::timeout(Duration::from_secs(10), relay.stop()).await;
    assert!(stopped.is_ok(), "it waits for the database");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_a_moment_only_for_a_database_that_does_not_reply() {
    let world = World::new().await;
    let relay = world.relay().await;
    let mut held = world.database.pool.begin().await.unwrap();
    held.execute(LOCK).await.unwrap();
    let waits = "select count(*) from pg_locks where not granted and database = \
                 (select oid from pg_database where datname = current_database())";
    world.database.until(waits, 1).await;
    stops_in_time(relay).await;
    held.rollback().await.unwrap();
    let relay = world.relay().await;
    push(&world, 1).await;
    world.seen.reach(1).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_a_moment_only_for_a_database_that_takes_no_deferred_events_back() {
    let redis = Redis::plain();
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let store = format!("{}?prefix={}&timeout=2s", redis.url(), prefix());
    let bus = bus(&store, &seen).await;
    let relay = Relay::sqlx_0_8(&bus, database.pool.clone(), RelayOptions::default())
        .await
        .unwrap();
    let queue = orders(&bus);
    redis.stop_process();
    push_to(&database.pool, &queue, 1).await;
    // Until it is pushing a deferred event while the database replies no more.
    let held = async {
        loop {
            let mut held = database.pool.begin().await.unwrap();
            held.execute(LOCK).await.unwrap();
            let taken = "select count(*) from duly_outbox_deferred where holder <> ''";
            let taken = sqlx_0_8::query_scalar::<_, i64>(taken);
            if taken.fetch_one(&mut *held).await.unwrap() > 0 {
                return held;
            }
            held.rollback().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let held = tokio::time::timeout(LATE, held).await.unwrap();
    stops_in_time(relay).await;
    held.rollback().await.unwrap();
    redis.cont();
}

/// Also one that has nothing to push.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_ends_with_its_bus() {
    for outbox in Outbox::all().await {
        for (is_shared, pushed) in [(false, 0), (true, 0), (false, 1)] {
            let builder = builder(&Seen::default());
            let builder = if is_shared {
                builder.shared_store(Arc::new(MemoryStore::new()))
            } else {
                builder.store_url("memory:")
            };
            let bus = builder.start().await.unwrap();
            let relay = outbox.relay(&bus).await;
            bus.shutdown(Duration::from_secs(1)).await.unwrap();
            outbox.push(&orders(&bus), 0..pushed, When::Now).await;
            eventually(outbox.name(), async || relay.has_ended()).await;
        }
        let left = outbox.number("select count(*) from duly_outbox").await;
        assert_eq!(left, 1, "{}", outbox.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_dead_rows_and_no_room_are_left_behind() {
    let world = World::new().await;
    let pool = &world.database.pool;
    for round in 0..3 {
        let many = (0..1_000).map(|number| {
            let event = world.orders.event(order(round * 1_000 + number));
            event.header("more", "x".repeat(1_000)) // small partitions are left as they are
        });
        let mut tx = pool.begin().await.unwrap();
        world
            .orders
            .push_many_in(&mut tx, many, When::Now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    let mut held = pool.begin().await.unwrap();
    held.execute("set transaction isolation level repeatable read")
        .await
        .unwrap();
    held.execute("select count(*) from pg_class").await.unwrap();
    let relay = world.relay().await;
    world.seen.reach(3_000).await;
    // The partitions into which nobody writes any more are emptied, under a held snapshot too.
    world
        .database
        .until("select count(*) from duly_outbox", 0)
        .await;
    held.rollback().await.unwrap();
    relay.stop().await;
    assert!(world.seen.counts().values().all(|count| *count == 1));
}

/// The pool is the user's, and would lend the connection to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_dropped_leaves_no_transaction_behind() {
    let world = World::new().await;
    let pool = sqlx_0_8::postgres::PgPoolOptions::new().max_connections(1);
    let pool = pool.after_connect(|connection, _| {
        Box::pin(async {
            connection
                .execute("set lock_timeout = '1s'")
                .await
                .map(drop)
        })
    });
    let pool = pool.connect(&world.database.url).await.unwrap();
    let options = RelayOptions::default();
    let relay = Relay::sqlx_0_8(&world.bus, pool.clone(), options).await;
    let relay = relay.unwrap();
    let mut held = world.database.pool.begin().await.unwrap();
    held.execute("lock table duly_outbox_step in exclusive mode")
        .await
        .unwrap();
    push(&world, 1).await;
    let waiting = "select count(*) from pg_stat_activity \
                   where datname = current_database() and wait_event_type = 'Lock'";
    world.database.until(waiting, 1).await;
    drop(relay);
    world.database.until(waiting, 0).await; // the request has failed
    held.rollback().await.unwrap();
    pool.execute("select 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rights_are_enough() {
    let world = World::new().await;
    let (pool, url) = (&world.database.pool, &world.database.url);
    let suffix = fastrand::u64(..);
    let (writer, relay_user) = (format!("w{suffix}"), format!("r{suffix}"));
    for user in [&writer, &relay_user] {
        shared_postgres().sql(&format!("create role {user} login password 'x'"));
    }
    let rights = include_str!("../../src/docs/transactions.md");
    let rights = rights
        .split("```sql")
        .find(|text| text.contains(" on duly_outbox to shop"));
    let rights = rights.unwrap().split("```").next().unwrap();
    let rights = rights
        .replace(" shop;", &format!(" {writer};"))
        .replace(" relay;", &format!(" {relay_user};"));
    pool.execute(&*rights).await.unwrap();
    let of = |user: &str| url.replace("duly:open-sesame", &format!("{user}:x"));
    let mut client = client(&of(&writer)).await;
    let relay_pool = PgPool::connect(&of(&relay_user)).await.unwrap();
    let options = RelayOptions::default();
    let relay = Relay::sqlx_0_8(&world.bus, relay_pool.clone(), options.clone())
        .await
        .unwrap();
    let mut tx = client.transaction().await.unwrap();
    world
        .orders
        .push_in(&mut tx, order(1), When::Now)
        .await
        .unwrap();
    tx.query("select duly_push('orders', '{\"number\": 2}')", &[])
        .await
        .unwrap();
    tx.query("select duly_push('no such name!', '1')", &[])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    world.seen.reach(2).await;
    for (column, value) in [
        ("xid", "'1'"),
        ("part", "1"),
        ("repeated", "true"),
        ("anew", "true"),
    ] {
        let sql = format!("insert into duly_outbox (event, {column}) values ('', {value})");
        let error = client.execute(&sql, &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    }
    world
        .database
        .until("select count(*) from duly_outbox_refused", 1)
        .await;
    relay.stop().await;
    let less = format!("revoke select (n) on duly_outbox_refused from {relay_user}");
    pool.execute(&*less).await.unwrap();
    let refused = Relay::sqlx_0_8(&world.bus, relay_pool.clone(), options).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("duly_outbox_refused"), "{refused}");
    let truncated = "begin; lock table duly_outbox_0 in access exclusive mode nowait; truncate \
                     duly_outbox_0, duly_outbox_1, duly_outbox_2, duly_outbox_step_0; rollback";
    relay_pool.execute(truncated).await.unwrap();
    assert!(
        client
            .query("select * from duly_outbox", &[])
            .await
            .is_err()
    );
}
