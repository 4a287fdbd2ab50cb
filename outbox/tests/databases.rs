//! The databases that an outbox can be in, by the same tests.

use std::path::PathBuf;
use std::time::Duration;

use duly::EventBuilder;
use duly::prelude::*;
use duly_outbox::{Database, PushEventIn, PushIn, Relay, RelayOptions, schema};
use rusqlite::Connection;
use sqlx::{Connection as _, MySqlConnection};
use sqlx_0_8::{Connection as _, PgConnection};

use crate::drivers::Driver;
use crate::world::{Order, TestDatabase, TestMysql, eventually, order};

pub(crate) const DEFERRED: &str = "select count(*) from duly_outbox_deferred";
pub(crate) const REFUSED: &str = "select count(*) from duly_outbox_refused";

/// Returns the query that counts the rows that were put aside for a reason with these words.
pub(crate) fn refused(words: &str) -> String {
    format!("{REFUSED} where reason like '%{words}%'")
}

fn in_runtime(work: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(work);
}

/// Where the outbox is.
pub(crate) enum Outbox {
    Postgres(TestDatabase),
    Sqlite(tempfile::TempDir),
    Mysql(TestMysql),
}

/// Holds up the writes of a relay.
pub(crate) struct Slow {
    held: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Slow {
    /// Lets the writes go on once so much time is over; blocks its thread.
    pub(crate) fn end_after(self, lasts: Duration) {
        std::thread::sleep(lasts);
        drop(self.held);
        self.thread.join().unwrap();
    }
}

impl Outbox {
    pub(crate) async fn all() -> [Self; 3] {
        [
            Self::new(Database::Postgres).await,
            Self::new(Database::Sqlite).await,
            Self::new(Database::Mysql).await,
        ]
    }

    pub(crate) async fn new(database: Database) -> Self {
        match database {
            Database::Mysql => Self::Mysql(TestMysql::new().await),
            Database::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let file = Self::open(&folder);
                file.pragma_update(None, "journal_mode", "wal").unwrap();
                file.execute_batch(schema(database)).unwrap();
                Self::Sqlite(folder)
            }
            _ => Self::Postgres(TestDatabase::new().await),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "PostgreSQL",
            Self::Sqlite(_) => "SQLite",
            Self::Mysql(_) => "MariaDB",
        }
    }

    /// The SQL of its tables.
    pub(crate) fn schema(&self) -> &'static str {
        schema(match self {
            Self::Postgres(_) => Database::Postgres,
            Self::Sqlite(_) => Database::Sqlite,
            Self::Mysql(_) => Database::Mysql,
        })
    }

    fn file(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().join("shop.db")
    }

    fn open(folder: &tempfile::TempDir) -> Connection {
        let file = Connection::open(Self::file(folder)).unwrap();
        file.busy_timeout(Duration::from_secs(30)).unwrap();
        file
    }

    pub(crate) async fn relay(&self, bus: &Bus) -> Relay {
        self.start(bus).await.unwrap()
    }

    pub(crate) async fn start(&self, bus: &Bus) -> duly::Result<Relay> {
        match self {
            Self::Postgres(database) => Driver::Sqlx09.relay(bus, &database.url).await,
            Self::Sqlite(folder) => {
                Relay::rusqlite(bus, Self::file(folder), RelayOptions::default()).await
            }
            Self::Mysql(database) => {
                let url = database.url.parse().unwrap();
                Relay::sqlx_mysql(bus, url, RelayOptions::default()).await
            }
        }
    }

    pub(crate) async fn push(
        &self,
        queue: &Queue<Order>,
        numbers: std::ops::Range<u64>,
        when: When,
    ) {
        let many = numbers.map(order);
        match self {
            Self::Postgres(database) => {
                let mut tx = database.pool.begin().await.unwrap();
                queue.push_many_in(&mut tx, many, when).await.unwrap();
                tx.commit().await.unwrap();
            }
            Self::Sqlite(folder) => {
                let mut file = Self::open(folder);
                let mut tx = file.transaction().unwrap();
                queue.push_many_in(&mut tx, many, when).await.unwrap();
                tx.commit().unwrap();
            }
            Self::Mysql(database) => {
                let mut tx = database.pool.begin().await.unwrap();
                queue.push_many_in(&mut tx, many, when).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
    }

    /// Pushes an order under an id that was chosen for it.
    pub(crate) async fn push_given(&self, queue: &Queue<Order>, number: u64, id: EventId) {
        let event = queue.event(order(number)).id(id);
        self.push_events(vec![event]).await;
    }

    /// Pushes events in a transaction.
    pub(crate) async fn push_events(&self, events: Vec<EventBuilder<Order>>) {
        match self {
            Self::Postgres(database) => {
                let mut tx = database.pool.begin().await.unwrap();
                for event in events {
                    event.push_in(&mut tx).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
            Self::Sqlite(folder) => {
                let mut file = Self::open(folder);
                let mut tx = file.transaction().unwrap();
                for event in events {
                    event.push_in(&mut tx).await.unwrap();
                }
                tx.commit().unwrap();
            }
            Self::Mysql(database) => {
                let mut tx = database.pool.begin().await.unwrap();
                for event in events {
                    event.push_in(&mut tx).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
        }
    }

    /// Pushes an order by plain SQL.
    pub(crate) async fn push_plain(&self, number: u64) {
        self.push_plain_with(number, "{}").await;
    }

    /// Pushes an order by plain SQL with options.
    pub(crate) async fn push_plain_with(&self, number: u64, options: &str) {
        self.execute(&self.plain(number, options)).await;
    }

    /// Returns the SQL that pushes an order with options.
    pub(crate) fn plain(&self, number: u64, options: &str) -> String {
        let payload = format!("{{\"number\": {number}}}");
        match self {
            Self::Postgres(_) => {
                format!("select duly_push('orders', '{payload}', '0', '{options}')")
            }
            Self::Mysql(_) => format!("call duly_push('orders', '{payload}', null, '{options}')"),
            Self::Sqlite(_) => format!(
                "insert into duly_outbox (queue, payload, options) \
                 values ('orders', '{payload}', '{options}')"
            ),
        }
    }

    /// The same with an id, where an insert gives it: in its column, or among the options.
    pub(crate) async fn push_plain_under(&self, number: u64, id: EventId, options: &str) {
        let options = match self {
            Self::Postgres(_) if options == "{}" => format!("{{\"id\": \"{id}\"}}"),
            Self::Postgres(_) => options.replacen('{', &format!("{{\"id\": \"{id}\", "), 1),
            Self::Sqlite(_) | Self::Mysql(_) => {
                let payload = format!("{{\"number\": {number}}}");
                let sql = format!(
                    "insert into duly_outbox (queue, payload, id, options) \
                     values ('orders', '{payload}', '{id}', '{options}')"
                );
                return self.execute(&sql).await;
            }
        };
        self.push_plain_with(number, &options).await;
    }

    /// Puts the refused rows back, as the guide says; or under new ids.
    pub(crate) async fn retry(&self, is_anew: bool) {
        let sql = match (self, is_anew) {
            (Self::Postgres(_), false) => {
                "select duly_outbox_retry(n) from duly_outbox_refused".to_owned()
            }
            (Self::Postgres(_), true) => {
                "select duly_outbox_retry(n, true) from duly_outbox_refused".to_owned()
            }
            _ => {
                let flags = if is_anew { "0, 1" } else { "repeated, 0" };
                format!(
                    "insert into duly_outbox \
                     (at, repeated, anew, event, queue, payload, due, id, options) \
                     select at, {flags}, event, queue, payload, due, id, options \
                     from duly_outbox_refused; delete from duly_outbox_refused"
                )
            }
        };
        self.execute(&sql).await;
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        match self {
            Self::Postgres(database) => database.number(sql).await,
            Self::Sqlite(folder) => {
                let file = Self::open(folder);
                file.query_row(sql, [], |row| row.get(0)).unwrap()
            }
            Self::Mysql(database) => database.number(sql).await,
        }
    }

    pub(crate) async fn execute(&self, sql: &str) {
        match self {
            Self::Postgres(database) => {
                sqlx_0_8::Executor::execute(&database.pool, sql)
                    .await
                    .unwrap();
            }
            Self::Sqlite(folder) => Self::open(folder).execute_batch(sql).unwrap(),
            Self::Mysql(database) => database.execute(sql).await,
        }
    }

    /// Runs a statement from within a call that blocks its thread, and by it the connections of others.
    pub(crate) fn execute_blocking(&self, sql: &'static str) {
        let execute = async {
            match self {
                Self::Postgres(database) => {
                    let mut connection = PgConnection::connect(&database.url).await.unwrap();
                    let executed = sqlx_0_8::Executor::execute(&mut connection, sql);
                    executed.await.unwrap();
                }
                Self::Sqlite(_) => self.execute(sql).await,
                Self::Mysql(database) => {
                    let mut connection = MySqlConnection::connect(&database.url).await.unwrap();
                    sqlx::Executor::execute(&mut connection, sql).await.unwrap();
                }
            }
        };
        std::thread::scope(|scope| scope.spawn(|| in_runtime(execute)).join().unwrap());
    }

    /// Makes every write of a relay wait, from now on; what it has begun goes on. To be called from
    /// within a call that blocks its thread.
    pub(crate) fn slow(&self) -> Slow {
        let (locked, is_locked) = std::sync::mpsc::channel();
        let (held, is_held) = std::sync::mpsc::channel::<()>();
        let lock: Box<dyn FnOnce() + Send> = match self {
            Self::Postgres(database) => {
                let url = database.url.clone();
                Box::new(move || {
                    in_runtime(async {
                        let mut connection = PgConnection::connect(&url).await.unwrap();
                        let lock = "begin; lock table duly_outbox_deferred, duly_outbox_step, \
                                    duly_outbox in exclusive mode";
                        sqlx_0_8::Executor::execute(&mut connection, lock)
                            .await
                            .unwrap();
                        locked.send(()).unwrap();
                        is_held.recv().ok();
                    });
                })
            }
            Self::Sqlite(folder) => {
                let file = Self::open(folder);
                Box::new(move || {
                    file.execute_batch("begin immediate").unwrap();
                    locked.send(()).unwrap();
                    is_held.recv().ok();
                    file.execute_batch("rollback").unwrap();
                })
            }
            Self::Mysql(database) => {
                let url = database.url.clone();
                Box::new(move || {
                    in_runtime(async {
                        let mut connection = MySqlConnection::connect(&url).await.unwrap();
                        let lock = "lock tables duly_outbox_deferred read, duly_outbox read";
                        sqlx::Executor::execute(&mut connection, lock)
                            .await
                            .unwrap();
                        locked.send(()).unwrap();
                        is_held.recv().ok();
                    });
                })
            }
        };
        let thread = std::thread::spawn(lock);
        is_locked.recv().unwrap();
        Slow { held, thread }
    }

    /// Returns the query that counts the relays which wait for what [`slow`](Self::slow) does.
    pub(crate) fn waits(&self) -> &'static str {
        match self {
            Self::Postgres(_) => {
                "select count(*) from pg_locks where not granted and database = \
                 (select oid from pg_database where datname = current_database())"
            }
            Self::Sqlite(_) => unreachable!("a file does not tell"),
            Self::Mysql(_) => {
                "select count(*) from information_schema.processlist \
                 where db = database() and state like 'Waiting for table%'"
            }
        }
    }

    /// Waits until the store has every row.
    pub(crate) async fn settled(&self) {
        self.settled_but(0).await;
    }

    /// Waits until the store has every row but so many deferred ones.
    pub(crate) async fn settled_but(&self, deferred: i64) {
        let open = match self {
            // Also before the first step.
            Self::Postgres(_) => {
                "select count(*) from duly_outbox o left join (select done, reading \
                 from duly_outbox_step order by n desc limit 1) as s on true where s.done is null \
                 or s.reading is not null or not pg_visible_in_snapshot(o.xid, s.done)"
            }
            Self::Sqlite(_) | Self::Mysql(_) => "select count(*) from duly_outbox",
        };
        self.until(open, 0).await;
        self.until(DEFERRED, deferred).await;
        self.until(open, 0).await;
    }

    pub(crate) async fn until(&self, sql: &str, wanted: i64) {
        let reached = async || self.number(sql).await == wanted;
        eventually(&format!("{sql} is {wanted}"), reached).await;
    }
}
