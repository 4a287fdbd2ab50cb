//! Requests that a relay gives up: they end at the server, too, however often it tries again.

use duly::Queue;
use duly::time::When;
use futures_util::future::join_all;
use sqlx::{Connection, Executor, MySqlConnection, MySqlPool};

use crate::clock::shifted;
use crate::databases::Outbox;
use crate::drivers::Driver;
use crate::servers::MariaDb;
use crate::world::{
    Order, Seen, TestDatabase, TestMysql, bus, client, eventually, orders, push_to,
};

/// The requests of a relay that do not end.
const OPEN_POSTGRES: &str = "(select pid::bigint as id from pg_stat_activity \
                             where datname = current_database() and state = 'active' \
                             and (wait_event_type = 'Lock' or wait_event = 'PgSleep')) as open";
const OPEN_MYSQL: &str = "(select cast(id as signed) as id from information_schema.processlist \
                          where db = database() and id <> connection_id() \
                          and (info like '%duly_done%' or state like 'Waiting for table%')) as open";

/// Returns once a request that is open has ended.
async fn one_ends(outbox: &Outbox, open: &str) {
    let first = format!("select coalesce(min(id), 0) from {open}");
    eventually("a request is open", async || {
        outbox.number(&first).await > 0
    })
    .await;
    let id = outbox.number(&first).await;
    let is_open = format!("select count(*) from {open} where id = {id}");
    outbox.until(&is_open, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_given_up_ends_in_postgresql() {
    let lock = |table| format!("begin; lock table {table} in access exclusive mode");
    let slow = "create or replace function public.clock_timestamp() returns timestamptz \
                language sql volatile as 'select pg_catalog.now() from pg_sleep(1000)'";
    let fast = "create or replace function public.clock_timestamp() returns timestamptz \
                language sql volatile as 'select pg_catalog.clock_timestamp()'";
    let blocks = [
        (lock("duly_outbox"), "rollback"),
        (lock("duly_outbox_step"), "rollback"),
        (lock("duly_outbox_deferred"), "rollback"),
        (lock("duly_done"), "rollback"),
        (slow.to_owned(), fast),
    ];
    join_all(blocks.map(|(block, release)| in_postgresql(block, release))).await;
}

async fn in_postgresql(block: String, release: &str) {
    let (database, seen) = (shifted().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let other = client(&database.url).await;
    let outbox = Outbox::Postgres(database);
    let relay = outbox.relay(&bus).await;
    outbox.settled().await; // the first step may take as long as it has rows
    other.batch_execute(&block).await.unwrap();
    one_ends(&outbox, OPEN_POSTGRES).await;
    other.batch_execute(release).await.unwrap();
    goes_on(&outbox, &orders(&bus), &seen).await;
    relay.stop().await;
}

/// Every row is marked, which takes longer than a statement may: the trigger stands for millions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_another_server_is_taken_over_however_many_rows_it_has() {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let relay = Driver::TokioPostgres.relay(&bus, &database.url);
    relay.await.unwrap().stop().await;
    push_to(&database.pool, &queue, 1).await;
    let slow = "create function slow() returns trigger language plpgsql as $$ begin \
                perform pg_sleep(21); return null; end $$; \
                create trigger slow before update on duly_outbox for each statement \
                execute function slow(); \
                update duly_outbox_step set cluster = 'other' \
                where n = (select max(n) from duly_outbox_step)";
    sqlx_0_8::Executor::execute(&database.pool, slow)
        .await
        .unwrap();
    let relay = Driver::TokioPostgres.relay(&bus, &database.url);
    let relay = relay.await.unwrap();
    seen.reach(1).await;
    relay.stop().await;
}

async fn goes_on(outbox: &Outbox, orders: &Queue<Order>, seen: &Seen) {
    outbox.push(orders, 1..2, When::Now).await;
    seen.reach(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_given_up_ends_in_mysql() {
    let server = MariaDb::start(); // what does not end there loads no other test
    let slow = "rename table duly_done to done; create view duly_done as \
                select * from (select benchmark(1000000000000, md5(1)), 1 as event, 1 as at) as slow";
    let fast = "drop view duly_done; rename table done to duly_done";
    let blocks = [
        ("slow", slow, fast),
        ("locked", "lock tables duly_outbox write", "unlock tables"),
    ];
    let server = &server;
    join_all(blocks.map(|block| in_mysql(server, block))).await;
}

async fn in_mysql(server: &MariaDb, (name, block, release): (&str, &'static str, &'static str)) {
    let schema = duly_outbox::schema(duly_outbox::Database::Mysql);
    server.sql(&format!("create database {name}; use {name}; {schema}"));
    let (name, url, seen) = (name.to_owned(), server.url(name), Seen::default());
    let pool = MySqlPool::connect(&url).await.unwrap();
    let mut other = MySqlConnection::connect(&url).await.unwrap();
    let bus = bus("memory:", &seen).await;
    let outbox = Outbox::Mysql(TestMysql { name, url, pool });
    let relay = outbox.relay(&bus).await;
    other.execute(block).await.unwrap();
    one_ends(&outbox, OPEN_MYSQL).await;
    other.execute(release).await.unwrap();
    goes_on(&outbox, &orders(&bus), &seen).await;
    relay.stop().await;
}
