//! A load whose transactions commit, roll back, hang and are killed, beside kills and immediate stops of
//! the server, kills of Redis, of clients and of relays, and relays that are stopped and go on later:
//! what is handled is what was committed, once, and not before. Some events are due later, and their
//! time passes while something is away; some have keys. Each has its effect once.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly::EventBuilder;
use duly::prelude::*;
use duly_outbox::{Database, PushEventIn, Relay, RelayOptions, schema};
use parking_lot::Mutex;
use sqlx::{Connection, Executor};
use sqlx_0_8::postgres::{PgConnectOptions, PgPoolOptions};
use tokio_postgres::NoTls;

use crate::drivers::Driver;
use crate::kills::{CHILD_DATABASE, CHILD_FIRST, CHILD_STORE, ORDERS_OF_CLIENT, PLACED, kill};
use crate::servers::{Aof, MariaDb, Postgres, PostgresOptions, Redis, RedisOptions};
use crate::world::{Rows, Seen, bus, order, orders};

const WRITERS: u64 = 6;
const ORDERS_OF_WRITER: u64 = 25;

pub(crate) fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The program of a child: a relay on the database and the store that the environment names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_in_a_process_of_its_own() {
    let (Ok(database), Ok(store)) = (env::var(CHILD_DATABASE), env::var(CHILD_STORE)) else {
        return;
    };
    let builder = Bus::builder().only_registered().publish_only();
    let bus = builder.store_url(&store).start().await.unwrap();
    let _relay = start_relay(&bus, &database).await;
    std::future::pending::<()>().await;
}

/// Starts a relay, as soon as the database lets it.
async fn start_relay(bus: &Bus, url: &str) -> Relay {
    loop {
        let options = RelayOptions::default();
        let relay = if is_mysql(url) {
            Relay::sqlx_mysql(bus, url.parse().unwrap(), options).await
        } else {
            Relay::tokio_postgres(bus, url.parse().unwrap(), NoTls, options).await
        };
        match relay {
            Ok(relay) => return relay,
            Err(error) if error.kind() == ErrorKind::Unavailable => pause(20).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The program of a child: a writer, whose orders have numbers from one that the environment names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_a_process_of_its_own() {
    let (Ok(database), Ok(first)) = (env::var(CHILD_DATABASE), env::var(CHILD_FIRST)) else {
        return;
    };
    let builder = Bus::builder().only_registered().publish_only();
    let bus = builder.store_url("memory:").start().await.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    let first: u64 = first.parse().unwrap();
    place(&database, &queue, first, 0, 0).await.ok();
    println!("{PLACED}"); // from now on it may be killed
    write(database, queue, first + 1, fastrand::u64(..)).await;
}

/// The pace of what kills; nothing is concluded from it.
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn is_mysql(url: &str) -> bool {
    url.starts_with("mysql:")
}

/// A server that is killed.
pub(crate) enum Server {
    Postgres(Postgres),
    MariaDb(MariaDb),
}

impl Server {
    /// Starts a server with the tables; returns its URL, too.
    fn start(database: Database) -> (Self, String) {
        let orders = "create table orders (number bigint primary key); \
                      create table effects (number bigint)";
        if database == Database::Mysql {
            let server = MariaDb::start();
            server.sql("create database shop");
            let sql = format!("use shop; {orders}; {}", schema(database));
            server.sql(&sql);
            let url = server.url("shop");
            return (Self::MariaDb(server), url);
        }
        let server = Postgres::start(PostgresOptions {
            more: vec!["fsync=off".to_owned()], // processes are killed, the machine is not
            ..PostgresOptions::default()
        });
        server.sql(orders);
        server.sql(schema(database));
        let url = server.url();
        (Self::Postgres(server), url)
    }

    pub(crate) fn restart(&mut self, is_immediate_stop: bool) {
        match self {
            Self::Postgres(server) if is_immediate_stop => server.stop_immediately(),
            _ => {} // killed
        }
        match self {
            Self::Postgres(server) => server.restart(),
            Self::MariaDb(server) => server.restart(),
        }
    }
}

/// Its rows, by connections of which none is opened before it is needed.
fn rows(url: &str) -> Rows {
    let patience = Duration::from_secs(2);
    if is_mysql(url) {
        let pool = sqlx::mysql::MySqlPoolOptions::new().acquire_timeout(patience);
        return Rows::Mysql(pool.connect_lazy(url).unwrap());
    }
    let pool = PgPoolOptions::new().acquire_timeout(patience);
    Rows::Postgres(pool.connect_lazy_with(url.parse::<PgConnectOptions>().unwrap()))
}

/// The event of an order: due at once or within some seconds, without keys or with.
fn event(queue: &Queue<crate::world::Order>, number: u64) -> EventBuilder<crate::world::Order> {
    let event = queue.event(order(number));
    let event = match number % 4 {
        0 => event,
        1 => event.key(format!("customer:{}", number % 7)),
        2 => event.unique(format!("order:{number}"), Unique::Keep),
        _ => event
            .key(format!("customer:{}", number % 7))
            .unique(format!("order:{number}"), Unique::Replace),
    };
    event.when(When::After(due_after(number)))
}

fn due_after(number: u64) -> Duration {
    Duration::from_millis(number % 2 * (number * 97 % 2_000))
}

/// The options of an event by plain SQL.
fn options(number: u64) -> String {
    match number % 4 {
        0 => "{}".to_owned(),
        1 => format!("{{\"key\": \"customer:{}\"}}", number % 7),
        _ => format!("{{\"unique\": \"order:{number}\", \"on_taken\": \"replace\"}}"),
    }
}

/// Inserts an order and its event, and ends the transaction in some way.
async fn place(
    url: &str,
    queue: &Queue<crate::world::Order>,
    number: u64,
    ending: u64,
    wait: u64,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if is_mysql(url) {
        return place_in_mysql(url, queue, number, (ending, wait)).await;
    }
    let (mut client, connection) = loop {
        match tokio_postgres::connect(url, NoTls).await {
            Ok(connected) => break connected,
            Err(_) => pause(20).await, // the server starts
        }
    };
    let task = tokio::spawn(connection);
    let mut tx = client.transaction().await?;
    tx.execute("insert into orders values ($1)", &[&(number as i64)])
        .await?;
    pause(wait / 2).await;
    if number.is_multiple_of(3) {
        let (after, options) = (due_after(number).as_millis(), options(number));
        let sql = format!(
            "select duly_push('orders', '{{\"number\": {number}}}', '{after} ms', '{options}')"
        );
        tx.batch_execute(&sql).await?;
    } else {
        event(queue, number).push_in(&mut tx).await?;
    }
    pause(wait).await;
    match ending {
        0..=5 => tx.commit().await?,
        6 => tx.rollback().await?,
        7 => task.abort(), // the connection breaks
        _ => {
            tx.batch_execute("select pg_terminate_backend(pg_backend_pid())")
                .await
                .ok();
            tx.commit().await?;
        }
    }
    Ok(())
}

async fn place_in_mysql(
    url: &str,
    queue: &Queue<crate::world::Order>,
    number: u64,
    (ending, wait): (u64, u64),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut connection = loop {
        match sqlx::MySqlConnection::connect(url).await {
            Ok(connected) => break connected,
            Err(_) => pause(20).await, // the server starts
        }
    };
    let mut tx = connection.begin().await?;
    let insert = sqlx::query("insert into orders values (?)").bind(number as i64);
    insert.execute(&mut *tx).await?;
    pause(wait / 2).await;
    if number.is_multiple_of(3) {
        let call = sqlx::query("call duly_push('orders', ?, ?, ?)");
        let call = call.bind(format!("{{\"number\": {number}}}"));
        let call = call
            .bind(due_after(number).as_secs_f64())
            .bind(options(number));
        call.execute(&mut *tx).await?;
    } else {
        event(queue, number).push_in(&mut tx).await?;
    }
    pause(wait).await;
    match ending {
        0..=5 => tx.commit().await?,
        6 => tx.rollback().await?,
        7 => drop(tx), // the connection breaks
        _ => {
            tx.execute("kill connection_id()").await.ok();
            tx.commit().await?;
        }
    }
    Ok(())
}

async fn write(url: String, queue: Queue<crate::world::Order>, first: u64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for number in first..first + ORDERS_OF_WRITER {
        let ending = random.u64(..9);
        // Some are held for long beside the others.
        let wait = if random.u64(..10) == 0 {
            random.u64(..500)
        } else {
            random.u64(..5)
        };
        // Its result is in the table of orders, whatever the error says.
        place(&url, &queue, number, ending, wait).await.ok();
    }
}

async fn run(database: Database, seed: u64) {
    println!("DULY_OUTBOX_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (server, url) = Server::start(database);
    let rows = rows(&url);
    // Its own, as it is killed, too; what it has accepted is on its disk.
    let redis = Arc::new(Mutex::new(Redis::start(RedisOptions {
        aof: Aof::Everysec, // a kill of the process loses nothing of it
        ..RedisOptions::default()
    })));
    let store = redis.lock().url();
    let seen = Seen::checking(rows.clone());
    let bus = bus(&store, &seen).await;
    let mut relays = vec![start_relay(&bus, &url).await];
    if database == Database::Mysql {
        relays.push(start_relay(&bus, &url).await);
    } else {
        for driver in [Driver::Sqlx08, Driver::Sqlx09] {
            relays.push(driver.relay(&bus, &url).await.unwrap());
        }
    }
    let (server, is_over) = (
        Arc::new(Mutex::new(server)),
        Arc::new(AtomicBool::new(false)),
    );

    let kills = {
        let (is_over, server, seed) = (Arc::clone(&is_over), Arc::clone(&server), random.u64(..));
        let (redis, url) = (Arc::clone(&redis), url.clone());
        tokio::task::spawn_blocking(move || {
            kill(&is_over, &server, &redis, (&url, &store, seed));
        })
    };
    let writers = (0..WRITERS).map(|writer| {
        let first = writer * ORDERS_OF_WRITER;
        tokio::spawn(write(url.clone(), orders(&bus), first, random.u64(..)))
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    kills.await.unwrap();

    let committed: Vec<i64> = loop {
        match rows
            .numbers("select number from orders order by number")
            .await
        {
            Ok(rows) => break rows,
            Err(_) => pause(10).await, // it has just been started
        }
    };
    seen.reach(committed.len()).await;
    // Nothing comes any more: what was committed is passed.
    settled(&rows).await;
    let counts = seen.counts();
    let handled: Vec<i64> = counts.keys().map(|number| *number as i64).collect();
    assert_eq!(handled, committed);
    // A kill of Redis repeats attempts; events it does not.
    let doubled = seen.ids().into_iter().filter(|(_, ids)| ids.len() != 1);
    assert_eq!(doubled.collect::<Vec<_>>(), [], "accepted twice");
    assert_eq!(seen.early(), [0; 0], "handled before the commit");
    let effects = rows.numbers("select number from effects order by number");
    assert_eq!(
        effects.await.unwrap(),
        committed,
        "each has its effect once"
    );
    let refused = rows
        .numbers("select count(*) from duly_outbox_refused")
        .await;
    assert_eq!(refused.unwrap(), [0]);
    let by_clients = committed
        .iter()
        .filter(|it| **it >= ORDERS_OF_CLIENT as i64);
    let by_clients = by_clients.count();
    assert!(by_clients > 0, "killed clients commit, too");
    println!(
        "{} committed, {by_clients} by killed clients",
        committed.len()
    );
    for relay in relays {
        relay.stop().await;
    }
    bus.shutdown(Duration::from_secs(10)).await.unwrap();
}

/// Waits until every row is passed.
async fn settled(rows: &Rows) {
    let open = match rows {
        Rows::Postgres(_) => {
            "select (select count(*) from duly_outbox o left join (select done, reading \
             from duly_outbox_step order by n desc limit 1) as s on true where s.done is null \
             or s.reading is not null or not pg_visible_in_snapshot(o.xid, s.done)) \
             + (select count(*) from duly_outbox_deferred)"
        }
        Rows::Mysql(_) => {
            "select (select count(*) from duly_outbox) + (select count(*) from duly_outbox_deferred)"
        }
    };
    for _ in 0..6_000 {
        if rows.numbers(open).await.is_ok_and(|open| open == [0]) {
            return;
        }
        pause(10).await;
    }
    panic!("rows are left in the outbox");
}

async fn runs(database: Database) {
    let seed = number("DULY_OUTBOX_SEED", fastrand::u64(..));
    for case in 0..number("DULY_OUTBOX_CASES", 1) {
        run(database, seed.wrapping_add(case)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_handled_is_what_was_committed_once_and_not_before() {
    runs(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_handled_is_what_was_committed_in_mysql() {
    runs(Database::Mysql).await;
}
