//! Rows that have waited for long, and rows of a copy of a database.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duly::prelude::*;
use duly::store::{DedupWindow, MemoryStore};
use duly_outbox::{Database, PushEventIn, Relay, RelayOptions, schema};
use sqlx_0_8::{Executor, PgPool};

use crate::databases::{Outbox, REFUSED};
use crate::drivers::Driver;
use crate::faulty::Faulty;
use crate::partly::faulty;
use crate::servers::{Postgres, PostgresOptions};
use crate::world::{
    Order, Seen, TestDatabase, TestMysql, World, eventually, order, orders, push, push_to,
};

/// A window of few ends, so that ids from before those are too old.
pub(crate) fn few_ends() -> DedupWindow {
    DedupWindow {
        keep_for: Duration::ZERO,
        max: 20,
        ..DedupWindow::default()
    }
}

/// A bus on a store of such a window.
pub(crate) async fn forgetful(seen: &Seen) -> Bus {
    forgetful_with_clock(seen).await.1
}

/// The same, with the store, whose time may differ for the bus.
pub(crate) async fn forgetful_with_clock(seen: &Seen) -> (Arc<Faulty>, Bus) {
    faulty(seen, MemoryStore::new().with_window(few_ends())).await
}

/// Pushes an order an hour ago under an id that was chosen for it.
pub(crate) async fn push_an_hour_ago(
    (outbox, store): (&Outbox, &Faulty),
    (queue, number): (&Queue<Order>, u64),
    id: EventId,
) {
    store.behind_us.store(3_600_000_000, Ordering::Relaxed);
    outbox.push_given(queue, number, id).await;
    store.behind_us.store(0, Ordering::Relaxed);
}

/// Makes the ids of before too old: as many ends follow.
pub(crate) async fn forget(queue: &Queue<Order>, seen: &Seen) {
    let seen_before = seen.numbers().len();
    for number in 1_000..2_000 {
        // An id may be forgotten before it has come to its bucket.
        while let Err(error) = queue.push(order(number), When::Now).await {
            assert_eq!(error.kind(), duly::ErrorKind::Unavailable, "{error}");
        }
    }
    seen.reach(seen_before + 1_000).await;
}

/// It was never pushed, so another id does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_has_waited_for_long_is_handled_once() {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let bus = forgetful(&seen).await;
    let queue = orders(&bus);
    let (early, given) = (push_to(&database.pool, &queue, 1).await, queue.new_id());
    let mut tx = database.pool.begin().await.unwrap();
    queue
        .event(order(2))
        .id(given)
        .push_in(&mut tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    for number in 1_000..2_000 {
        queue.push(order(number), When::Now).await.unwrap();
    }
    seen.reach(1_000).await;
    let relay = Relay::sqlx_0_8(&bus, database.pool.clone(), RelayOptions::default())
        .await
        .unwrap();
    seen.reach(1_001).await;
    assert_eq!(seen.counts()[&1], 1);
    assert!(
        bus.records()
            .id(early)
            .page()
            .await
            .unwrap()
            .items
            .is_empty(),
        "under another id"
    );
    // One whose id its caller chose is put aside: another id would be another event.
    let reason =
        "select count(*) from duly_outbox_refused where reason like '%older than the tombstones%'";
    database.until(reason, 1).await;
    relay.stop().await;
}

/// It may have been accepted, be over and forgotten: pushing it under another id could double it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_event_that_may_have_been_pushed_is_not_pushed_again() {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let bus = forgetful(&seen).await;
    let queue = orders(&bus);
    push_to(&database.pool, &queue, 1).await;
    push_to(&database.pool, &queue, 2).await;
    let relay = Relay::sqlx_0_8(&bus, database.pool.clone(), RelayOptions::default())
        .await
        .unwrap();
    seen.reach(2).await;
    relay.stop().await;
    for number in 1_000..2_000 {
        queue.push(order(number), When::Now).await.unwrap();
    }
    seen.reach(1_002).await;
    // As after a kill between the push and the step that passes it.
    let sql = "update duly_outbox_step set reading = done, done = '1:1:', repeated = true \
               where n = (select max(n) from duly_outbox_step)";
    database.pool.execute(sql).await.unwrap();
    let relay = Relay::sqlx_0_8(&bus, database.pool.clone(), RelayOptions::default())
        .await
        .unwrap();
    let settled = "select count(*) from (select reading from duly_outbox_step order by n desc \
                   limit 1) as last where reading is null";
    database.until(settled, 1).await;
    relay.stop().await;
    let counts = seen.counts();
    assert_eq!((counts[&1], counts[&2]), (1, 1), "doubled");
    // Its records say that it is over.
    assert_eq!(
        database
            .number("select count(*) from duly_outbox_refused")
            .await,
        0
    );
}

/// Nothing tells whether it was pushed: neither a second event nor a lost one without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_event_of_which_nothing_is_known_is_put_aside() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let (store, bus) = forgetful_with_clock(&seen).await;
        let queue = orders(&bus);
        outbox.push(&queue, 1..2, When::Now).await;
        outbox.push_given(&queue, 2, queue.new_id()).await;
        let named = queue.id_for_name("3");
        push_an_hour_ago((&outbox, &store), (&queue, 3), named).await;
        outbox
            .execute("update duly_outbox set repeated = true")
            .await;
        forget(&queue, &seen).await;
        let relay = outbox.relay(&bus).await;
        let reason = "select count(*) from duly_outbox_refused \
                      where reason like '%may have been accepted%'";
        outbox.until(reason, 3).await;
        assert!(!seen.numbers().iter().any(|number| *number < 1_000));
        relay.stop().await;
    }
}

/// None of them was, however long it takes to find that out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_that_was_never_pushed_is_handled_once_though_its_ids_are_too_old() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let memory = MemoryStore::new().with_window(few_ends());
        let (store, bus) = faulty(&seen, memory).await;
        let queue = orders(&bus);
        outbox.push(&queue, 0..900, When::Now).await;
        forget(&queue, &seen).await;
        store.reads_late_us.store(5_000, Ordering::Relaxed);
        let relay = outbox.relay(&bus).await;
        seen.reach(1_900).await;
        outbox.settled().await;
        assert!(seen.counts().values().all(|count| *count == 1), "doubled");
        assert_eq!(outbox.number(REFUSED).await, 0);
        relay.stop().await;
    }
}

/// In the first database it may have gone on as a staged event, have been handled and forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_row_of_a_copy_is_not_pushed_under_another_id() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = forgetful(&seen).await;
        outbox.push_plain(1).await;
        outbox
            .execute("update duly_outbox set repeated = true")
            .await;
        forget(&orders(&bus), &seen).await;
        let relay = outbox.relay(&bus).await;
        let refused = "select count(*) from duly_outbox_refused \
                       where reason like '%may have been accepted%'";
        outbox.until(refused, 1).await;
        assert!(!seen.numbers().contains(&1), "it may have been handled");
        relay.stop().await;
    }
}

/// It has another identity, so each of its rows may have been pushed since it was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_mysql_is_noticed() {
    // It was that of another server; and, on this one, of another time.
    for change in ["server = 'other'", "identity = 'shop/2026-01-01 00:00:00'"] {
        copy_of_mysql(change).await;
    }
}

async fn copy_of_mysql(change: &str) {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = forgetful(&seen).await;
    let queue = orders(&bus);
    let relay = database.relay(&bus).await;
    database.push(&queue, 1).await;
    seen.reach(1).await;
    relay.stop().await;
    database.push(&queue, 2).await;
    for number in 1_000..2_000 {
        queue.push(order(number), When::Now).await.unwrap();
    }
    let copied = format!("update duly_outbox_server set {change}");
    database.execute(&copied).await;
    let relay = database.relay(&bus).await;
    let refused = "select count(*) from duly_outbox_refused where reason like '%may have been%'";
    database.until(refused, 1).await;
    database.push(&queue, 3).await;
    seen.reach(1_002).await;
    assert!(!seen.numbers().contains(&2), "it may have been handled");
    relay.stop().await;
}

/// Its rows are those of before, and say nothing of what was pushed since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_restored_backup_has_again_is_handled_once() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = forgetful(&seen).await;
        let queue = orders(&bus);
        outbox.push(&queue, 1..4, When::Now).await;
        outbox
            .execute("create table backup as select event from duly_outbox")
            .await;
        let relay = outbox.relay(&bus).await;
        seen.reach(3).await;
        for number in 1_000..2_000 {
            queue.push(order(number), When::Now).await.unwrap();
        }
        seen.reach(1_003).await;
        outbox
            .execute("insert into duly_outbox (event) select event from backup")
            .await;
        outbox.push(&queue, 9..10, When::Now).await;
        seen.reach(1_004).await;
        outbox.settled().await;
        assert!(seen.counts().values().all(|count| *count == 1), "doubled");
        assert_eq!(
            outbox
                .number("select count(*) from duly_outbox_refused")
                .await,
            0
        );
        relay.stop().await;
    }
}

/// Transaction ids of a copy are others: by them alone rows would count as passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_database_loses_nothing() {
    let world = World::new().await;
    let relay = world.relay().await;
    push(&world, 1).await;
    world.seen.reach(1).await;
    relay.stop().await;
    push(&world, 2).await;
    // As after a restore into another server, whose ids are lower, or higher.
    for (number, xid) in [(3, "4000000000"), (4, "3")] {
        let sql = format!(
            "update duly_outbox set xid = '{xid}'::xid8; update duly_outbox_step set \
             cluster = 'other', done = '4000000000:4000000000:' \
             where n = (select max(n) from duly_outbox_step)"
        );
        world.database.pool.execute(&*sql).await.unwrap();
        push(&world, number).await;
        let relay = world.relay().await;
        world.seen.reach(usize::try_from(number).unwrap()).await;
        relay.stop().await;
    }
    assert_eq!(world.seen.numbers(), [1, 2, 3, 4]);
    assert!(world.seen.counts().values().all(|count| *count == 1));
}

/// Its rows, its steps and its server are those of before, and say nothing of what came since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_restored_in_place_is_noticed() {
    let mut server = Postgres::start(PostgresOptions::default());
    server.sql(schema(Database::Postgres));
    let seen = Seen::default();
    let bus = forgetful(&seen).await;
    let queue = orders(&bus);
    let server_url = server.url();
    let relay = || Driver::TokioPostgres.relay(&bus, &server_url);
    let pool = PgPool::connect(&server_url).await.unwrap();
    let first = relay().await.unwrap();
    push_to(&pool, &queue, 1).await;
    seen.reach(1).await;
    first.stop().await;
    push_to(&pool, &queue, 2).await;
    pool.close().await;
    forget(&queue, &seen).await;
    server.restore();
    let second = relay().await.unwrap();
    let pool = PgPool::connect(&server_url).await.unwrap();
    push_to(&pool, &queue, 3).await;
    seen.reach(1_002).await;
    let aside = "select count(*) from duly_outbox_refused where reason like '%may have been%'";
    let is_aside = async || {
        let count = sqlx_0_8::query_scalar::<_, i64>(aside);
        count.fetch_one(&pool).await.unwrap() == 1
    };
    eventually("the row of before is put aside", is_aside).await;
    assert!(!seen.numbers().contains(&2), "it may have been handled");
    second.stop().await;
}

/// What was pushed since the copy was made is not known in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deferred_events_of_a_copy_may_have_been_pushed() {
    let world = World::new().await;
    world.relay().await.stop().await;
    let sql = "insert into duly_outbox_deferred (at, repeated, event, bucket, holder, until) \
               values (now(), false, '\\x01', 'orders/1', 'other', now() + interval '30 s')";
    world.database.pool.execute(sql).await.unwrap();
    let sql = "update duly_outbox_step set cluster = 'other' \
               where n = (select max(n) from duly_outbox_step)";
    world.database.pool.execute(sql).await.unwrap();
    let changed = "create table seen as select repeated, holder from duly_outbox_deferred limit 0; \
                   create function note() returns trigger language plpgsql as $$ begin \
                   insert into seen values (new.repeated, new.holder); return new; end $$; \
                   create trigger note after update on duly_outbox_deferred for each row \
                   execute function note()";
    world.database.pool.execute(changed).await.unwrap();
    let relay = world.relay().await;
    let first = "select count(*) from (select * from seen limit 1) as first \
                 where repeated and holder = ''";
    world.database.until(first, 1).await;
    // Its bytes are none, so it is put aside once it is taken.
    let refused = "select count(*) from duly_outbox_refused";
    world.database.until(refused, 1).await;
    relay.stop().await;
}
