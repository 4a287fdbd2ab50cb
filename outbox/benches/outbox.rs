//! What a push in a transaction costs: beside the inserts of a business row and of a bare row of the
//! outbox in it, and beside a direct push.
//!
//! `cargo bench -p duly-outbox --all-features`; `DULY_BENCH_ROUNDS` sets how often each is measured.

#![allow(clippy::print_stdout)]

mod common;
#[path = "../../tests/servers/mod.rs"]
mod servers;

use std::ops::Range;
use std::time::Duration;

use common::{Failed, Handled, client, late, percentiles, since};
use duly::prelude::*;
use duly_outbox::{Database, PushIn, Relay, RelayOptions, at_once, schema};
use servers::{MariaDb, Postgres, PostgresOptions, prefix, shared};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

/// Transactions of a round of the first measurement.
const TRANSACTIONS: u64 = 500;
/// Events of a round of the second, and of one of its transactions.
const EVENTS: u64 = 20_000;
const EVENTS_OF_TRANSACTION: u64 = 100;
/// Events of the third.
const LATE_EVENTS: u64 = 500;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let rounds = std::env::var("DULY_BENCH_ROUNDS").map_or(Ok(5), |text| text.parse())?;
    let server = Postgres::start(PostgresOptions::default());
    server.sql("create table orders (id bigint primary key, customer text, note text)");
    server.sql(schema(Database::Postgres));
    let mut client = client(&server.url()).await?;
    let (handled, handled_at) = mpsc::unbounded_channel();
    let store = format!("{}?prefix={}", shared().url(), prefix());
    let builder = Bus::builder().only_registered().store_url(&store);
    let bus = builder.register(late {}).state(handled).start().await?;
    // Without a relay, whose work is measured next.
    let queue = bus.queue_named::<u64>("orders")?;
    let folder = tempfile::tempdir()?;
    let mut file = rusqlite::Connection::open(folder.path().join("shop.db"))?;
    file.pragma_update(None, "journal_mode", "wal")?;
    file.execute_batch("create table orders (id integer primary key, customer text, note text)")?;
    file.execute_batch(schema(Database::Sqlite))?;
    let maria = MariaDb::start();
    let orders = "create table orders (id bigint primary key, customer text, note text)";
    maria.sql(&format!(
        "create database shop; use shop; {orders}; {}",
        schema(Database::Mysql)
    ));
    let mut mysql = MySqlConnection::connect(&maria.url("shop")).await?;
    let mut calls = [Calls::default(), Calls::default(), Calls::default()];
    for round in 0..rounds {
        let ids = TRANSACTIONS * round..TRANSACTIONS * (round + 1);
        in_postgres(&mut client, &queue, (ids.clone(), &mut calls[0])).await?;
        in_sqlite(&mut file, &queue, (ids.clone(), &mut calls[1]))?;
        in_mysql(&mut mysql, &queue, (ids, &mut calls[2])).await?;
    }
    for (name, calls) in ["PostgreSQL", "SQLite", "MariaDB"].into_iter().zip(calls) {
        let (insert, push) = (median(calls.inserts), median(calls.pushes));
        let bare = median(calls.bare);
        println!(
            "{name}: in a transaction an insert of an order {:.0} us; a push {:.0} us, {:.2} of it, of \
             which the insert of its row {:.0} us, and the rest {:.2} of that",
            1e6 * insert,
            1e6 * push,
            push / insert,
            1e6 * bare,
            push / bare - 1.0
        );
    }

    let config = server.url().parse()?;
    let relay = Relay::tokio_postgres(&bus, config, NoTls, RelayOptions::default()).await?;

    let (mut direct, mut outbox) = (Vec::new(), Vec::new());
    let queue = bus.queue_named::<u64>("many")?;
    for _ in 0..rounds {
        let began = Instant::now();
        for first in (0..EVENTS).step_by(EVENTS_OF_TRANSACTION as usize) {
            let many = first..first + EVENTS_OF_TRANSACTION;
            queue.push_many(many, Duration::from_secs(3_600)).await?;
        }
        direct.push(began.elapsed().as_secs_f64());
        outbox.push(through_the_outbox(&mut client, &queue).await?);
    }
    let (direct, outbox) = (median(direct), median(outbox));
    println!(
        "events in hundreds: direct {:.0}/s, by the outbox until all are accepted {:.0}/s, {:.2} of it",
        EVENTS as f64 / direct,
        EVENTS as f64 / outbox,
        direct / outbox
    );

    let late = lateness(&mut client, &bus.queue::<late>(), handled_at).await?;
    let [p50, p99] = percentiles(late);
    println!("from the commit to the handler: p50 {p50:.1} ms, p99 {p99:.1} ms");
    relay.stop().await;
    Ok(bus.shutdown(Duration::from_secs(10)).await?)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// The seconds of each call.
#[derive(Default)]
struct Calls {
    inserts: Vec<f64>,
    /// A row of the outbox as a push writes it, by hand.
    bare: Vec<f64>,
    pushes: Vec<f64>,
}

impl Calls {
    fn insert(&mut self, began: Instant) {
        self.inserts.push(began.elapsed().as_secs_f64());
    }

    fn bare(&mut self, began: Instant) {
        self.bare.push(began.elapsed().as_secs_f64());
    }

    fn push(&mut self, began: Instant) {
        self.pushes.push(began.elapsed().as_secs_f64());
    }
}

/// As many bytes as an event of these has in the outbox, and the statement of a push.
const ROW: [u8; 90] = [7; 90];
const BARE: &str = "insert into duly_outbox (event) values ($1)";
const HOUR: Duration = Duration::from_secs(3_600);

async fn in_postgres(
    client: &mut Client,
    queue: &Queue<u64>,
    (ids, calls): (Range<u64>, &mut Calls),
) -> Result<(), Failed> {
    let order = "insert into orders values ($1, 'Ada', 'a note of some length')";
    let order = client.prepare(order).await?;
    for id in ids {
        let mut tx = client.transaction().await?;
        let began = Instant::now();
        tx.execute(&order, &[&(id as i64)]).await?;
        calls.insert(began);
        let began = Instant::now();
        tx.query_typed(BARE, &[(&ROW.as_slice(), Type::BYTEA)])
            .await?;
        calls.bare(began);
        let began = Instant::now();
        queue.push_in(&mut tx, id, HOUR).await?;
        calls.push(began);
        tx.commit().await?;
    }
    Ok(())
}

fn in_sqlite(
    file: &mut rusqlite::Connection,
    queue: &Queue<u64>,
    (ids, calls): (Range<u64>, &mut Calls),
) -> Result<(), Failed> {
    for id in ids {
        let mut tx = file.transaction()?;
        let began = Instant::now();
        let order = "insert into orders values (?1, 'Ada', 'a note of some length')";
        tx.prepare_cached(order)?.execute([id as i64])?;
        calls.insert(began);
        let began = Instant::now();
        tx.prepare_cached(BARE)?.execute([ROW])?;
        calls.bare(began);
        let began = Instant::now();
        at_once(queue.push_in(&mut tx, id, HOUR))?;
        calls.push(began);
        tx.commit()?;
    }
    Ok(())
}

async fn in_mysql(
    connection: &mut MySqlConnection,
    queue: &Queue<u64>,
    (ids, calls): (Range<u64>, &mut Calls),
) -> Result<(), Failed> {
    for id in ids {
        let mut tx = connection.begin().await?;
        let began = Instant::now();
        let order = "insert into orders values (?, 'Ada', 'a note of some length')";
        tx.execute(sqlx::query(order).bind(id as i64)).await?;
        calls.insert(began);
        let began = Instant::now();
        let bare = BARE.replace("$1", "?");
        tx.execute(sqlx::query(AssertSqlSafe(bare)).bind(ROW.as_slice()))
            .await?;
        calls.bare(began);
        let began = Instant::now();
        queue.push_in(&mut tx, id, HOUR).await?;
        calls.push(began);
        tx.commit().await?;
    }
    Ok(())
}

async fn through_the_outbox(client: &mut Client, queue: &Queue<u64>) -> Result<f64, Failed> {
    let began = Instant::now();
    for first in (0..EVENTS).step_by(EVENTS_OF_TRANSACTION as usize) {
        let many = first..first + EVENTS_OF_TRANSACTION;
        let mut tx = client.transaction().await?;
        queue
            .push_many_in(&mut tx, many, Duration::from_secs(3_600))
            .await?;
        tx.commit().await?;
    }
    let open = "select exists (select from duly_outbox o, (select done from duly_outbox_step \
                order by n desc limit 1) as s where o.xid >= pg_snapshot_xmax(s.done))";
    while client.query_one(open, &[]).await?.get::<_, bool>(0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Returns how long each event took from its commit to its handler, pushed one after the other.
async fn lateness(
    client: &mut Client,
    queue: &Queue<u64>,
    mut handled: Handled,
) -> Result<Vec<Duration>, Failed> {
    let mut late = Vec::new();
    for number in 0..LATE_EVENTS {
        let mut tx = client.transaction().await?;
        queue.push_in(&mut tx, number, When::Now).await?;
        tx.commit().await?;
        late.push(since(Instant::now(), &mut handled).await?);
        // Not in step with the relay's polls.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..15_000))).await;
    }
    Ok(late)
}
