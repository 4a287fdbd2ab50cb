//! What a relay reads beside a transaction that keeps a partition from being truncated: as much when
//! it holds many rows that were passed as when it holds none.

use std::time::Duration;

use duly::prelude::*;
use duly_outbox::{Database, PushIn, Relay, RelayOptions, schema};
use tokio_postgres::{Client, NoTls};

use super::{HELD, steady, steady_bus};
use crate::servers::{Postgres, PostgresOptions};
use crate::world::{client, eventually};

/// Rows of the partition that were passed.
const PASSED: u64 = 30_000;
/// Pages of one row that are pushed beside them.
const PAGES: u64 = 100;
/// Rows of the held transaction, beside one.
const HELD_MORE: u64 = 20_000;
/// Looks for counts that stand still.
const SETTLES_MAX: u32 = 20;

/// What the server has counted of the index of a partition, and of tables that were walked.
#[derive(Clone, Copy, Debug)]
struct Reads {
    scans: i64,
    entries: i64,
    blocks: i64,
    walked: i64,
}

impl Reads {
    async fn of(client: &Client, part: i32) -> Self {
        let sql = format!(
            "select s.idx_scan, s.idx_tup_read, io.idx_blks_hit + io.idx_blks_read, \
             (select sum(seq_tup_read) from pg_stat_user_tables where relname like 'duly%')::bigint \
             from pg_stat_user_indexes s join pg_statio_user_indexes io using (indexrelid) \
             where s.relname = 'duly_outbox_{part}'"
        );
        let row = client.query_one(&sql, &[]).await.unwrap();
        let [scans, entries, blocks, walked] = [0, 1, 2, 3].map(|at| row.get(at));
        Self {
            scans,
            entries,
            blocks,
            walked,
        }
    }

    /// Once all is counted that has been read: a session tells of it once a second at most.
    async fn settled(client: &Client, part: i32) -> Self {
        let mut before = Self::of(client, part).await;
        for _ in 0..SETTLES_MAX {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            let after = Self::of(client, part).await;
            if after.is_little_since(&before) {
                return after;
            }
            before = after;
        }
        panic!("it reads on and on: {before:?}");
    }

    /// Whether each scan since then was a look at a place of the index.
    fn is_little_since(&self, before: &Self) -> bool {
        let most = 10 * (self.scans - before.scans);
        self.entries - before.entries <= most && self.blocks - before.blocks <= most
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_reads_no_more_the_more_rows_a_held_partition_has() {
    let more = vec!["log_statement=all".to_owned()];
    let server = Postgres::start(PostgresOptions { tls: false, more });
    server.sql(schema(Database::Postgres));
    let (bus, handled) = steady_bus().await;
    let queue = bus.queue::<steady>();
    let config = server.url().parse().unwrap();
    let relay = Relay::tokio_postgres(&bus, config, NoTls, RelayOptions::default());
    let relay = relay.await.unwrap();
    let mut client = client(&server.url()).await;
    let mut held = crate::world::client(&server.url()).await;
    let mut held = held.transaction().await.unwrap();
    queue.push_in(&mut held, HELD, When::Now).await.unwrap();
    for first in (0..HELD_MORE).step_by(1_000) {
        let events = HELD - 1_000 - first..HELD - first;
        queue
            .push_many_in(&mut held, events, When::Now)
            .await
            .unwrap();
    }
    let part = held
        .query_one("select part::int from duly_outbox limit 1", &[])
        .await;
    let part: i32 = part.unwrap().get(0);
    let moved = format!("update duly_outbox set part = {part} where part <> {part}");
    for first in (0..PASSED).step_by(1_000) {
        let mut tx = client.transaction().await.unwrap();
        let events = first..first + 1_000;
        queue
            .push_many_in(&mut tx, events, When::Now)
            .await
            .unwrap();
        tx.batch_execute(&moved).await.unwrap();
        tx.commit().await.unwrap();
    }
    let are_handled = async |many: u64| handled.0.lock().len() as u64 == many;
    eventually("all are handled", async || are_handled(PASSED).await).await;
    client.batch_execute("analyze").await.unwrap(); // as a server does now and then

    let before = Reads::settled(&client, part).await;
    for page in 0..PAGES {
        let mut tx = client.transaction().await.unwrap();
        queue
            .push_in(&mut tx, PASSED + page, When::Now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        eventually("it is handled", async || {
            are_handled(PASSED + page + 1).await
        })
        .await;
    }
    let log = || std::fs::read_to_string(server.folder().join("postgres.log")).unwrap();
    let sweeps = || {
        log()
            .matches(&format!("truncate duly_outbox_{part}"))
            .count()
    };
    let swept = sweeps();
    eventually("two sweeps look at it", async || sweeps() > swept + 1).await;
    let after = Reads::settled(&client, part).await;
    assert!(after.scans - before.scans >= i64::try_from(PAGES).unwrap());
    assert!(after.is_little_since(&before), "{before:?} {after:?}");
    let walked = after.walked - before.walked;
    assert!(
        walked < 2 * i64::try_from(PAGES).unwrap(),
        "{before:?} {after:?}"
    );

    // And those of the held transaction itself, page after page of them, are read once.
    held.commit().await.unwrap();
    let many = PASSED + PAGES + 1 + HELD_MORE;
    eventually("all are handled", async || are_handled(many).await).await;
    let last = Reads::settled(&client, part).await;
    let entries = last.entries - after.entries;
    assert!(
        entries < 20 * i64::try_from(HELD_MORE).unwrap(),
        "{after:?} {last:?}"
    );
    relay.stop().await;
    bus.shutdown(Duration::from_secs(10)).await.unwrap();
}
