//! Large rows: near to the limits of MySQL and MariaDB, and many of them.

use std::time::Duration;

use duly::prelude::*;
use duly_outbox::{Database, PushIn, Relay, RelayOptions, schema};
use sqlx_0_8::Executor;

use crate::databases::{DEFERRED, REFUSED};
use crate::servers::MariaDb;
use crate::world::{Seen, TestDatabase, TestMysql, builder, bus, eventually, order, orders};

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
    /// Its table, and the columns that are written.
    fn table(self) -> (&'static str, &'static str) {
        match self {
            Self::Staged => ("duly_outbox", "event"),
            Self::Plain => ("duly_outbox", "queue, payload, due, id, options"),
            Self::Deferred => ("duly_outbox_deferred", "at, repeated, bucket, event"),
        }
    }

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
        let (table, columns) = self.table();
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

    /// Writes them into PostgreSQL, each value beside its row; returns the query that counts the rows
    /// that were passed.
    async fn fill_postgres(
        self,
        database: &TestDatabase,
        mails: &Queue<String>,
        rows: i64,
    ) -> String {
        for (table, column) in [
            ("duly_outbox", "event"),
            ("duly_outbox", "payload"),
            ("duly_outbox_deferred", "event"),
        ] {
            let sql = format!("alter table {table} alter {column} set storage external");
            database.pool.execute(&*sql).await.unwrap();
        }
        let payload = "x".repeat((1 << 20) - 100);
        let mut tx = database.pool.begin().await.unwrap();
        if let Self::Plain = self {
            let sql = "select duly_push('mails', to_json($1::text), '1 day')";
            let push = sqlx_0_8::query(sql).bind(payload);
            push.execute(&mut *tx).await.unwrap();
        } else {
            mails.push_in(&mut tx, payload, DAY).await.unwrap();
        }
        if let Self::Deferred = self {
            let moved = "insert into duly_outbox_deferred (at, repeated, bucket, event) \
                         select at, false, 'mails/0', event from duly_outbox \
                         where xid = pg_current_xact_id(); \
                         delete from duly_outbox where xid = pg_current_xact_id()";
            tx.execute(moved).await.unwrap();
        }
        let (table, columns) = self.table();
        let own = match self {
            Self::Staged | Self::Plain => "where xid = pg_current_xact_id()",
            Self::Deferred => "",
        };
        let more = format!(
            "insert into {table} ({columns}) select {columns} \
             from {table}, generate_series(2, {rows}) {own}"
        );
        tx.execute(&*more).await.unwrap();
        let xid = "select pg_current_xact_id()::text";
        let xid: String = sqlx_0_8::query_scalar(xid)
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        match self {
            Self::Staged | Self::Plain => format!(
                "select count(*) from duly_outbox o, \
                 (select * from duly_outbox_step order by n desc limit 1) as s \
                 where o.xid = '{xid}' and (pg_visible_in_snapshot(o.xid, s.done) \
                 or (o.xid, o.n) <= (s.passed_xid, s.passed_n))"
            ),
            Self::Deferred => format!("select {rows} - count(*) from duly_outbox_deferred"),
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

/// Returns how many blocks of values beside their rows were read or written, once every other connection
/// has ended and said how many.
async fn blocks(client: &tokio_postgres::Client) -> i64 {
    let others = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                  where datname = current_database() and pid <> pg_backend_pid()";
    let is_alone = async || number(client, others).await == 0;
    eventually("the other connections have ended", is_alone).await;
    let blocks = "select sum(toast_blks_read + toast_blks_hit)::bigint from pg_statio_user_tables";
    number(client, blocks).await
}

async fn number(client: &tokio_postgres::Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// A server reads the payload of plain SQL whole to tell how long its text is. Pages are large after
/// small rows, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_row_of_postgresql_is_passed_without_a_read_of_those_behind_it() {
    const ROWS: i64 = 64;
    const BLOCKS: i64 = (1 << 20) / (8 << 10); // in a row
    for (backlog, small) in [
        (Backlog::Staged, 0),
        (Backlog::Plain, 0),
        (Backlog::Plain, 3_000),
        (Backlog::Deferred, 0),
    ] {
        let (database, seen) = (TestDatabase::new().await, Seen::default());
        let bus = bus("memory:", &seen).await;
        let mails = bus.queue_named::<String>("mails").unwrap();
        let mut tx = database.pool.begin().await.unwrap();
        let many = (1..=small).map(order);
        let queue = orders(&bus);
        queue.push_many_in(&mut tx, many, When::Now).await.unwrap();
        tx.commit().await.unwrap();
        let passed = backlog.fill_postgres(&database, &mails, ROWS).await;
        let client = database.client().await;
        // It reads, too.
        let tables = ["outbox_0", "outbox_1", "outbox_2", "outbox_deferred"];
        for table in tables {
            let off = "autovacuum_enabled = false, toast.autovacuum_enabled = false";
            let off = format!("alter table duly_{table} set ({off})");
            client.batch_execute(&off).await.unwrap();
        }
        let before = blocks(&client).await;
        let relay = Relay::connect(&bus, &database.url, RelayOptions::default());
        let relay = relay.await.unwrap();
        let most = async || number(&client, &passed).await >= ROWS * 3 / 4;
        eventually("most are passed", most).await;
        relay.stop().await;
        let passed = number(&client, &passed).await;
        let blocks = blocks(&client).await - before;
        let each = blocks / passed / BLOCKS;
        println!("{backlog:?} behind {small}: {passed} rows, {each} reads and writes of each");
        assert!(
            each < 15,
            "{backlog:?} behind {small}: {blocks} blocks for {passed} rows"
        );
        assert_eq!(number(&client, REFUSED).await, 0);
    }
}
