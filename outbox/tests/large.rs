//! Rows that are near to the limits of MySQL and MariaDB.

use std::time::Duration;

use duly::prelude::*;
use duly_outbox::{Database, PushIn, schema};

use crate::databases::{DEFERRED, REFUSED};
use crate::servers::MariaDb;
use crate::world::{Seen, TestMysql, builder, bus, eventually, orders};

const DAY: Duration = Duration::from_secs(86_400);
/// As many bytes a statement of the shared server may have.
const PACKET: usize = 16 << 20;

async fn insert(database: &TestMysql, payload: &str, due: Option<i64>, options: &str) {
    let sql = "insert into duly_outbox (queue, payload, due, options) values ('mails', ?, ?, ?)";
    let insert = sqlx::query(sql).bind(payload).bind(due).bind(options);
    insert.execute(&database.pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_refused_for_a_long_text_blocks_nothing() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let long = "x".repeat(65_000);
    let numbers = vec!["1e15"; 13_000].join(",");
    let wrong = [
        format!("{{\"attempts\": \"{long}\"}}"),
        format!("{{\"{long}\": 1}}"),
        format!("{{\"attempts\": [{numbers}]}}"),
    ];
    for options in &wrong {
        insert(&database, "1", None, options).await;
    }
    let relay = database.relay(&bus).await;
    database.push(&orders(&bus), 1).await;
    seen.reach(1).await;
    database.until(REFUSED, 3).await;
    let short = "select count(*) from duly_outbox_refused where length(reason) < 500";
    assert_eq!(database.number(short).await, 3);
    relay.stop().await;
}

/// What it goes on as is no larger for the server, or it is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_payload_of_plain_sql_goes_on_and_blocks_nothing() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let packet = database
        .number("select cast(@@max_allowed_packet as signed)")
        .await;
    assert_eq!(usize::try_from(packet).unwrap(), PACKET);
    let builder = builder(&seen).payload_bytes_max(2 * PACKET);
    let bus = builder.store_url("memory:").start().await.unwrap();
    let due = Some(4_102_444_800_000); // in the year 2100
    for bytes in [9 << 20, PACKET - 200] {
        let payload = format!("\"{}\"", "x".repeat(bytes));
        insert(&database, &payload, due, "{}").await;
    }
    let relay = database.relay(&bus).await;
    database.push(&orders(&bus), 1).await;
    seen.reach(1).await;
    let refused =
        "select count(*) from duly_outbox_refused where reason like '%max_allowed_packet%'";
    database.until(refused, 1).await;
    database.until("select count(*) from duly_outbox", 0).await;
    let is_pushed = async || bus.stats("mails").await.unwrap().scheduled == 1;
    eventually("the other one is pushed", is_pushed).await;
    assert_eq!(database.number(REFUSED).await, 1);
    relay.stop().await;
}

/// Where large rows wait, and how they were written.
#[derive(Clone, Copy, Debug)]
enum Backlog {
    Staged,
    Plain,
    Deferred,
}

impl Backlog {
    /// Writes so many rows of a MiB, all of one event.
    async fn fill(self, database: &TestMysql, mails: &Queue<String>, rows: i64) {
        let payload = "x".repeat((1 << 20) - 100);
        if let Self::Plain = self {
            let payload = format!("\"{payload}\"");
            insert(database, &payload, Some(4_102_444_800_000), "{}").await;
            let id = format!("update duly_outbox set id = '{}'", mails.new_id());
            database.execute(&id).await;
        } else {
            let mut tx = database.pool.begin().await.unwrap();
            mails.push_in(&mut tx, payload, DAY).await.unwrap();
            tx.commit().await.unwrap();
        }
        let (table, columns) = match self {
            Self::Staged => ("duly_outbox", "event"),
            Self::Plain => ("duly_outbox", "queue, payload, due, id, options"),
            Self::Deferred => ("duly_outbox_deferred", "at, repeated, bucket, event"),
        };
        if let Self::Deferred = self {
            let moved = "insert into duly_outbox_deferred (at, repeated, bucket, event) \
                         select at, 0, 'mails/0', event from duly_outbox; delete from duly_outbox";
            database.execute(moved).await;
        }
        let double = format!("insert into {table} ({columns}) select {columns} from {table}");
        for _ in 0..rows.ilog2() {
            database.execute(&double).await;
        }
    }

    /// The rows of it that are left.
    fn left(self) -> &'static str {
        match self {
            Self::Staged => "select count(*) from duly_outbox",
            Self::Plain => "select count(*) from duly_outbox where queue is not null",
            Self::Deferred => DEFERRED,
        }
    }
}

/// A server reads a row whole to tell how long it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_row_is_passed_without_a_read_of_those_behind_it() {
    const ROWS: i64 = 128;
    const PAGES: i64 = (1 << 20) / (16 << 10); // of the server, in a row
    let server = MariaDb::start(); // its reads are those of this test
    let reads = || -> i64 {
        let status = server.sql("show global status like 'Innodb_buffer_pool_read_requests'");
        status.split_whitespace().last().unwrap().parse().unwrap()
    };
    for backlog in [Backlog::Staged, Backlog::Plain, Backlog::Deferred] {
        let schema = schema(Database::Mysql);
        let name = format!("{backlog:?}").to_lowercase();
        server.sql(&format!("create database {name}; use {name}; {schema}"));
        let url = server.url(&name);
        let pool = sqlx::MySqlPool::connect(&url).await.unwrap();
        let database = TestMysql { name, url, pool };
        let bus = bus("memory:", &Seen::default()).await;
        let mails = bus.queue_named::<String>("mails").unwrap();
        backlog.fill(&database, &mails, ROWS).await;
        let before = reads();
        let relay = database.relay(&bus).await;
        let some = async || database.number(backlog.left()).await <= ROWS - 2;
        eventually("some are passed", some).await;
        relay.stop().await;
        let reads = reads() - before;
        let passed = ROWS - database.number(backlog.left()).await;
        // Of deferred rows all are read once, when the relay ends and gives its claims back.
        let at_the_end = i64::from(matches!(backlog, Backlog::Deferred)) * ROWS * PAGES;
        let each = (reads - at_the_end) / passed / PAGES;
        println!("{backlog:?}: {passed} rows, each was read {each} times");
        assert!(each < 25, "{backlog:?}: {reads} reads for {passed} rows");
        assert_eq!(database.number(REFUSED).await, 0);
    }
}
