//! A database whose clock is wrong, and steps while a relay works.

use duly_outbox::{Relay, RelayOptions};
use sqlx_0_8::{Executor, PgPool};

use crate::world::{Seen, TestDatabase, bus, orders, push_to};

/// A database that tells the time as it is, and as much more as its table `shift` says.
async fn shifted() -> TestDatabase {
    let mut database = TestDatabase::empty().await;
    let shift = "create table shift as select interval '0' as by; \
                 create function clock_timestamp() returns timestamptz language sql volatile as \
                 'select pg_catalog.clock_timestamp() + by from public.shift'; \
                 create function now() returns timestamptz language sql stable as \
                 'select pg_catalog.now() + by from public.shift'";
    database.pool.execute(shift).await.unwrap();
    // Otherwise the functions of the server come first.
    let order = "do $$ begin execute format('alter database %I set search_path = public, \
                 pg_catalog', current_database()); end $$";
    database.pool.execute(order).await.unwrap();
    database.pool = PgPool::connect(&database.url).await.unwrap();
    database.with_tables().await
}

/// It goes decades back, and forth, once the relay has claimed rows, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_clock_of_postgresql_neither_loses_nor_doubles() {
    let (database, seen) = (shifted().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let years = "select extract(year from clock_timestamp())::bigint";
    let year = database.number(years).await;
    let pool = database.pool.clone();
    let relay = Relay::sqlx_0_8(&bus, pool, RelayOptions::default())
        .await
        .unwrap();
    for (number, shift) in [(1, 0), (2, -25), (3, 12), (4, -25), (5, 0)] {
        let step = format!("update shift set by = interval '{shift} years'");
        database.pool.execute(&*step).await.unwrap();
        assert_eq!(database.number(years).await, year + shift);
        // Of plain SQL, whose id has the time of the database, and of a program.
        let plain = format!("select duly_push('orders', '{{\"number\": {number}}}')");
        database.pool.execute(&*plain).await.unwrap();
        push_to(&database.pool, &queue, 10 + number).await;
        seen.reach(2 * usize::try_from(number).unwrap()).await;
    }
    // Another relay claimed rows, for a quarter of a century as it turns out.
    let claimed = "update shift set by = interval '25 years'; \
                   update duly_outbox_step set holder = 'other', \
                   until = clock_timestamp() + interval '3 s' \
                   where n = (select max(n) from duly_outbox_step); \
                   update shift set by = interval '0'";
    database.pool.execute(claimed).await.unwrap();
    push_to(&database.pool, &queue, 20).await;
    seen.reach(11).await;
    relay.stop().await;
    assert_eq!(seen.numbers(), [1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 20]);
    assert!(seen.counts().values().all(|count| *count == 1));
    let refused = "select count(*) from duly_outbox_refused";
    assert_eq!(database.number(refused).await, 0);
}
