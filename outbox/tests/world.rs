//! What the tests share: a database of their own, a bus, and a handler that counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly_outbox::{Database, FinishIn, PushIn, Relay, RelayOptions, schema};
use parking_lot::Mutex;
use sqlx::MySqlPool;
use sqlx_0_8::{Executor, PgPool};
use tokio::sync::Notify;

use crate::servers::{schema as name, shared_mariadb, shared_postgres};

pub(crate) const LATE: Duration = Duration::from_secs(120);

/// A payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u64,
}

pub(crate) fn order(number: u64) -> Order {
    Order { number }
}

/// The database in which orders are.
#[derive(Clone)]
pub(crate) enum Rows {
    Postgres(PgPool),
    Mysql(MySqlPool),
}

impl Rows {
    /// Runs a query of numbers; an error is that of a server that was killed.
    pub(crate) async fn numbers(&self, sql: &str) -> Result<Vec<i64>, String> {
        match self {
            Self::Postgres(pool) => {
                let rows = sqlx_0_8::query_scalar(sql).fetch_all(pool).await;
                rows.map_err(|error| error.to_string())
            }
            Self::Mysql(pool) => {
                let query = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
                let rows = query.fetch_all(pool).await;
                rows.map_err(|error| error.to_string())
            }
        }
    }

    /// The effect of an order, in the transaction that finishes its event.
    async fn effect(&self, event: &Event<Order>, cx: &Context) -> Result<(), String> {
        let number = event.payload.number;
        let insert = format!("insert into effects values ({number})");
        let done = async {
            match self {
                Self::Postgres(pool) => {
                    let mut tx = pool.begin().await?;
                    if !cx.finish_in(&mut tx, event).await?.is_again() {
                        tx.execute(&*insert).await?;
                        tx.commit().await?;
                    }
                }
                Self::Mysql(pool) => {
                    let mut tx = pool.begin().await?;
                    if !cx.finish_in(&mut tx, event).await?.is_again() {
                        sqlx::Executor::execute(&mut *tx, sqlx::AssertSqlSafe(insert)).await?;
                        tx.commit().await?;
                    }
                }
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        };
        done.await.map_err(|error| error.to_string())
    }
}

/// How often each order was handled.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<SeenOrders>);

#[derive(Default)]
struct SeenOrders {
    counts: Mutex<BTreeMap<u64, u32>>,
    ids: Mutex<BTreeMap<u64, BTreeSet<EventId>>>,
    /// Where a handled order must be visible already.
    rows: Option<Rows>,
    early: Mutex<Vec<u64>>,
    changed: Notify,
}

impl Seen {
    /// Checks for each handled order that its row is committed.
    pub(crate) fn checking(rows: Rows) -> Self {
        Self(Arc::new(SeenOrders {
            rows: Some(rows),
            ..SeenOrders::default()
        }))
    }

    pub(crate) fn counts(&self) -> BTreeMap<u64, u32> {
        self.0.counts.lock().clone()
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.counts().into_keys().collect()
    }

    /// The events of each order.
    pub(crate) fn ids(&self) -> BTreeMap<u64, BTreeSet<EventId>> {
        self.0.ids.lock().clone()
    }

    /// Orders that were handled before their rows were visible.
    pub(crate) fn early(&self) -> Vec<u64> {
        self.0.early.lock().clone()
    }

    /// Waits until so many different orders were handled.
    pub(crate) async fn reach(&self, orders: usize) {
        let reached = async {
            loop {
                let changed = self.0.changed.notified();
                if self.0.counts.lock().len() >= orders {
                    return;
                }
                changed.await;
            }
        };
        let reached = tokio::time::timeout(LATE, reached).await;
        assert!(reached.is_ok(), "not in time: {:?}", self.counts());
    }
}

#[delay_event(queue = "orders", register = false, workers = 16)]
async fn handle(event: Event<Order>, cx: &Context, seen: duly::State<Seen>) -> Result<(), Failure> {
    let (number, seen) = (event.payload.number, &seen.0.0);
    if let Some(rows) = &seen.rows {
        let sql = format!("select number from orders where number = {number}");
        match rows.numbers(&sql).await {
            Ok(found) if found.is_empty() => seen.early.lock().push(number),
            Ok(_) => {}
            Err(error) => return Err(Failure::retry(error)), // the server was killed
        }
        rows.effect(&event, cx).await.map_err(Failure::retry)?;
    }
    seen.ids
        .lock()
        .entry(number)
        .or_default()
        .insert(event.id());
    *seen.counts.lock().entry(number).or_default() += 1;
    seen.changed.notify_waiters();
    Ok(())
}

/// A database of its own on the shared server, with the tables.
pub(crate) struct TestDatabase {
    pub(crate) url: String,
    pub(crate) pool: PgPool,
}

impl TestDatabase {
    pub(crate) async fn new() -> Self {
        Self::empty().await.with_tables().await
    }

    pub(crate) async fn with_tables(self) -> Self {
        self.pool.execute(schema(Database::Postgres)).await.unwrap();
        self
    }

    pub(crate) async fn empty() -> Self {
        Self::in_encoding("UTF8").await
    }

    /// One whose texts are in an encoding, without tables.
    pub(crate) async fn in_encoding(encoding: &str) -> Self {
        let (server, name) = (shared_postgres(), name());
        server.sql(&format!(
            "create database {name} encoding '{encoding}' template template0"
        ));
        let url = server.url().replace("/postgres", &format!("/{name}"));
        // The scheme begins as the path of the database does.
        let url = url.replacen(&format!("/{name}:"), "/postgres:", 1);
        let pool = PgPool::connect(&url).await.unwrap();
        Self { url, pool }
    }

    /// A client of tokio-postgres.
    pub(crate) async fn client(&self) -> tokio_postgres::Client {
        client(&self.url).await
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        sqlx_0_8::query_scalar(sql)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// Waits until a query returns this number.
    pub(crate) async fn until(&self, sql: &str, wanted: i64) {
        let mut last = None;
        let reached = async {
            while last != Some(wanted) {
                last = Some(self.number(sql).await);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = tokio::time::timeout(LATE, reached).await;
        assert!(reached.is_ok(), "{sql}: {last:?}, not {wanted}");
    }
}

pub(crate) async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let reached = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(LATE, reached).await;
    assert!(reached.is_ok(), "not in time: {what}");
}

/// A database of its own on the shared server of MariaDB, with the tables.
pub(crate) struct TestMysql {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) pool: MySqlPool,
}

impl TestMysql {
    pub(crate) async fn new() -> Self {
        let database = Self::empty().await;
        database.execute(schema(Database::Mysql)).await;
        database
    }

    pub(crate) async fn empty() -> Self {
        let (server, name) = (shared_mariadb(), name());
        server.sql(&format!("create database {name}"));
        let url = server.url("root", &name);
        let pool = MySqlPool::connect(&url).await.unwrap();
        Self { name, url, pool }
    }

    pub(crate) async fn execute(&self, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql);
        sqlx::Executor::execute(&self.pool, sql).await.unwrap();
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
        query.fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a query returns this number.
    pub(crate) async fn until(&self, sql: &str, wanted: i64) {
        let reached = async || self.number(sql).await == wanted;
        eventually(&format!("{sql} is {wanted}"), reached).await;
    }

    pub(crate) async fn relay(&self, bus: &Bus) -> Relay {
        let (database, options) = (self.url.parse().unwrap(), RelayOptions::default());
        Relay::sqlx_mysql(bus, database, options).await.unwrap()
    }

    /// Pushes an order in a transaction of its own.
    pub(crate) async fn push(&self, orders: &Queue<Order>, number: u64) -> EventId {
        let mut tx = self.pool.begin().await.unwrap();
        let pushed = orders.push_in(&mut tx, order(number), When::Now).await;
        tx.commit().await.unwrap();
        pushed.unwrap()
    }
}

/// A bus with the counting handler.
pub(crate) async fn bus(store: &str, seen: &Seen) -> Bus {
    builder(seen).store_url(store).start().await.unwrap()
}

pub(crate) fn builder(seen: &Seen) -> duly::BusBuilder {
    let builder = Bus::builder().only_registered();
    builder.register(handle {}).state(seen.clone())
}

pub(crate) fn orders(bus: &Bus) -> Queue<Order> {
    bus.queue::<handle>()
}

/// A database, a bus on memory and a relay between them.
pub(crate) struct World {
    pub(crate) database: TestDatabase,
    pub(crate) bus: Bus,
    pub(crate) orders: Queue<Order>,
    pub(crate) seen: Seen,
}

impl World {
    pub(crate) async fn new() -> Self {
        let (database, seen) = (TestDatabase::new().await, Seen::default());
        let bus = bus("memory:", &seen).await;
        let orders = orders(&bus);
        Self {
            database,
            bus,
            orders,
            seen,
        }
    }

    pub(crate) async fn relay(&self) -> Relay {
        let pool = self.database.pool.clone();
        Relay::sqlx_0_8(&self.bus, pool, RelayOptions::default())
            .await
            .unwrap()
    }
}

/// Pushes an order in a transaction of its own.
pub(crate) async fn push(world: &World, number: u64) {
    push_to(&world.database.pool, &world.orders, number).await;
}

pub(crate) async fn push_to(pool: &PgPool, orders: &Queue<Order>, number: u64) -> EventId {
    let mut tx = pool.begin().await.unwrap();
    let id = orders
        .push_in(&mut tx, order(number), When::Now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    id
}
