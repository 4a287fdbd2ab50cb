//! What a relay at rest costs, and how late an event of another process comes that it has not heard of:
//! one by plain SQL, a second or more after the last.
//!
//! `cargo bench -p duly-outbox --all-features --bench rest`; `DULY_BENCH_EVENTS` sets how many events.

#![allow(clippy::print_stdout)]

mod common;
#[path = "../../tests/servers/mod.rs"]
mod servers;

use std::fs;
use std::time::Duration;

use common::{Failed, Handled, client, late, percentiles, since};
use duly::prelude::*;
use duly_outbox::{Database, Relay, RelayOptions, schema};
use servers::{MariaDb, Postgres, PostgresOptions};
use sqlx::{Connection, Executor, MySqlConnection};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, NoTls};

/// For so long the processors' time is measured.
const SPAN: Duration = Duration::from_secs(10);

/// A connection of another program.
enum Other {
    Postgres(Client),
    Mysql(Box<MySqlConnection>),
    Sqlite(rusqlite::Connection),
}

impl Other {
    async fn push(&mut self, number: u64) -> Result<(), Failed> {
        let insert =
            format!("insert into duly_outbox (queue, payload) values ('late', '{number}')");
        match self {
            Self::Postgres(client) => {
                let tx = client.transaction().await?;
                let push = format!("select duly_push('late', '{number}')");
                tx.batch_execute(&push).await?;
                tx.commit().await?;
            }
            Self::Mysql(connection) => {
                let mut tx = connection.begin().await?;
                tx.execute(sqlx::AssertSqlSafe(insert)).await?;
                tx.commit().await?;
            }
            Self::Sqlite(file) => file.execute_batch(&insert)?,
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let events = std::env::var("DULY_BENCH_EVENTS").map_or(Ok(100), |text| text.parse())?;
    let postgres = Postgres::start(PostgresOptions::default());
    postgres.sql(schema(Database::Postgres));
    let client = client(&postgres.url()).await?;
    let maria = MariaDb::start();
    let tables = format!(
        "create database shop; use shop; {}",
        schema(Database::Mysql)
    );
    maria.sql(&tables);
    let mysql = Box::new(MySqlConnection::connect(&maria.url("shop")).await?);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");
    let file = rusqlite::Connection::open(&path)?;
    file.pragma_update(None, "journal_mode", "wal")?;
    file.execute_batch(schema(Database::Sqlite))?;

    let others = [
        Other::Postgres(client),
        Other::Mysql(mysql),
        Other::Sqlite(file),
    ];
    for (name, other) in ["PostgreSQL", "MariaDB", "SQLite"].into_iter().zip(others) {
        let (handled, handled_at) = mpsc::unbounded_channel();
        let builder = Bus::builder().only_registered().store_url("memory:");
        let bus = builder.register(late {}).state(handled).start().await?;
        let folder = match other {
            Other::Postgres(_) => postgres.folder().join("data"),
            Other::Mysql(_) => maria.folder().join("data"),
            Other::Sqlite(_) => path.clone(), // no server
        };
        let without = cost(&folder).await;
        for poll_ms in [50, 10] {
            let mut options = RelayOptions::default();
            options.idle_poll = Duration::from_millis(poll_ms);
            let relay = match other {
                Other::Postgres(_) => {
                    let config = postgres.url().parse()?;
                    Relay::tokio_postgres(&bus, config, NoTls, options).await?
                }
                Other::Mysql(_) => {
                    Relay::sqlx_mysql(&bus, maria.url("shop").parse()?, options).await?
                }
                Other::Sqlite(_) => Relay::rusqlite(&bus, path.clone(), options).await?,
            };
            let [server, own] = cost(&folder).await;
            println!(
                "{name}, read every {poll_ms} ms at rest: of a processor the server takes {:.1} %, the \
                 relay {:.1} %",
                server - without[0],
                own - without[1]
            );
            relay.stop().await;
        }
        let options = RelayOptions::default();
        let relay = match other {
            Other::Postgres(_) => {
                Relay::tokio_postgres(&bus, postgres.url().parse()?, NoTls, options).await?
            }
            Other::Mysql(_) => Relay::sqlx_mysql(&bus, maria.url("shop").parse()?, options).await?,
            Other::Sqlite(_) => Relay::rusqlite(&bus, path.clone(), options).await?,
        };
        let [p50, p99] = percentiles(lateness(other, events, handled_at).await?);
        println!(
            "{name}, from the commit of another program to the handler: p50 {p50:.1} ms, p99 {p99:.1} ms"
        );
        relay.stop().await;
        bus.shutdown(Duration::from_secs(10)).await?;
    }
    Ok(())
}

/// Returns how long each event took, of which each finds the relay at rest.
async fn lateness(
    mut other: Other,
    events: u64,
    mut handled: Handled,
) -> Result<Vec<Duration>, Failed> {
    let mut late = Vec::new();
    for number in 0..events {
        sleep(Duration::from_micros(fastrand::u64(1_050_000..1_100_000))).await;
        other.push(number).await?;
        late.push(since(Instant::now(), &mut handled).await?);
    }
    Ok(late)
}

/// Returns which part of a processor, of a hundred, the processes in a folder take and this one.
async fn cost(folder: &std::path::Path) -> [f64; 2] {
    let is_server = |process: &fs::DirEntry| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder)
    };
    let processes = || fs::read_dir("/proc").into_iter().flatten().flatten();
    let servers: Vec<_> = processes().filter(is_server).collect();
    let servers: Vec<_> = servers.into_iter().map(|it| it.path()).collect();
    let own = [std::path::PathBuf::from("/proc/self")];
    let before = [of(&servers), of(&own)];
    sleep(SPAN).await;
    let after = [of(&servers), of(&own)];
    [0, 1].map(|at| 100.0 * (after[at] - before[at]) / SPAN.as_secs_f64())
}

/// Returns for how many seconds the threads of processes have run.
fn of(processes: &[std::path::PathBuf]) -> f64 {
    let threads = processes.iter().map(|process| process.join("task"));
    let threads = threads.flat_map(|tasks| fs::read_dir(tasks).into_iter().flatten().flatten());
    let run = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<f64>().ok()
    });
    run.sum::<f64>() / 1e9
}
