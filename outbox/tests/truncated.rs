//! A relay that is killed while it truncates a partition.

use futures_util::future::join_all;
use sqlx_0_8::{Connection, Executor, PgConnection};

use crate::drivers::Driver;
use crate::kills::child;
use crate::servers::{prefix, shared};
use crate::world::{Seen, TestDatabase, bus, orders, push_to};

/// A truncate waits under its lock, until this lock is free.
const HELD: &str = "create function held() returns trigger language plpgsql as \
    'begin perform pg_advisory_xact_lock(1); return null; end'; \
    create trigger held before truncate on duly_outbox_0 execute function held(); \
    create trigger held before truncate on duly_outbox_1 execute function held(); \
    create trigger held before truncate on duly_outbox_2 execute function held()";
/// Events of more than a mebibyte, so that each sweep looks at their partition.
const EVENTS: usize = 1_200;
/// Pushes them into the partition of the transactions before.
const PUSH: &str = "begin; select duly_push('orders', \
    format('{\"number\": %s, \"more\": \"%s\"}', number, repeat('x', 1000))::json) \
    from generate_series(1, 1200) as number; \
    update duly_outbox set part = (extract(epoch from now())::bigint / 10 + 2) % 3; commit";

/// Its transaction goes on without it, or ends with its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_killed_while_it_truncates_loses_nothing() {
    join_all([true, false].map(is_killed)).await;
}

async fn is_killed(is_session_ended: bool) {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let store = format!("{}?prefix={}", shared().url(), prefix());
    let bus = bus(&store, &seen).await;
    let mut lock = PgConnection::connect(&database.url).await.unwrap();
    let hold = "select pg_advisory_lock(1)";
    for sql in [HELD, hold, PUSH] {
        lock.execute(sql).await.unwrap();
    }
    let relay = child(&database.url, &store, None);
    let waits = "select count(*) from pg_stat_activity where datname = current_database() \
                 and wait_event = 'advisory'";
    database.until(waits, 1).await;
    drop(relay); // killed
    // What it goes on as is in another partition.
    let rows = "select count(*) from duly_outbox where queue is not null";
    if is_session_ended {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity \
                   where datname = current_database() and wait_event = 'advisory'";
        lock.execute(end).await.unwrap();
        database.until(waits, 0).await;
        assert_eq!(database.number(rows).await, EVENTS as i64);
    }
    let free = "select pg_advisory_unlock_all()";
    lock.execute(free).await.unwrap();
    if !is_session_ended {
        database.until(rows, 0).await;
    }
    push_to(&database.pool, &orders(&bus), 0).await;
    let next = Driver::Sqlx08.relay(&bus, &database.url).await.unwrap();
    seen.reach(EVENTS + 1).await;
    database.until(rows, 0).await;
    next.stop().await;
    assert!(seen.counts().values().all(|count| *count == 1));
}
