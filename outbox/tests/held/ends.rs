//! What a relay reads of the ends of events beside a snapshot that keeps those that were deleted.

use std::time::Duration;

use duly_outbox::{Database, Relay, RelayOptions, schema};
use tokio_postgres::{Client, NoTls};

use super::steady_bus;
use crate::servers::{Postgres, PostgresOptions};
use crate::world::{client, eventually};

/// Ends that are too old.
const OLD: i64 = 30_000;
/// Sweeps that are looked at.
const SWEEPS: usize = 3;

/// Entries that the server has read of the indexes of ends, and rows that it has walked.
async fn reads(client: &Client) -> i64 {
    let sql = "select (select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'duly_done')::bigint \
               + (select seq_tup_read from pg_stat_user_tables where relname = 'duly_done')";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_that_were_deleted_are_not_read_again_beside_a_held_snapshot() {
    let more = vec!["log_statement=all".to_owned()];
    let server = Postgres::start(PostgresOptions { tls: false, more });
    server.sql(schema(Database::Postgres));
    let client = client(&server.url()).await;
    let old = format!(
        "insert into duly_done select n, 1, '', now() - interval '2 months' + n * interval '1 ms' \
         from generate_series(1, {OLD}) as n; analyze duly_done"
    );
    client.batch_execute(&old).await.unwrap();
    let holder = crate::world::client(&server.url()).await;
    let hold = "begin isolation level repeatable read; select count(*) from duly_done";
    holder.batch_execute(hold).await.unwrap();

    let (bus, _) = steady_bus().await;
    let config = server.url().parse().unwrap();
    let relay = Relay::tokio_postgres(&bus, config, NoTls, RelayOptions::default());
    let relay = relay.await.unwrap();
    eventually("all of them are deleted", async || {
        let row = client.query_one("select count(*) from duly_done", &[]);
        row.await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    let sweeps = || {
        let log = std::fs::read_to_string(server.folder().join("postgres.log")).unwrap();
        log.matches("delete from duly_done").count()
    };
    let more_sweeps = async |more: usize| {
        let swept = sweeps();
        eventually("it sweeps", async || sweeps() >= swept + more).await;
    };
    reads(&client).await; // by the second sweep the server has told of what was read so far
    more_sweeps(2).await;
    let before = reads(&client).await;
    more_sweeps(SWEEPS).await;
    let after = reads(&client).await;
    assert!(after - before < OLD / 10, "{before} {after}");
    holder.batch_execute("commit").await.unwrap();
    relay.stop().await;
    bus.shutdown(Duration::from_secs(10)).await.unwrap();
}
