//! A server of PostgreSQL whose end takes what it has committed and not written to its disk.

use crate::drivers::Driver;
use crate::servers::{Postgres, PostgresOptions};
use crate::world::{Seen, bus};

/// The log is written so seldom that a commit which does not wait for it is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_handled_was_on_the_disk_although_commits_do_not_wait_for_it() {
    let more = ["synchronous_commit=off", "wal_writer_delay=10s"];
    let mut server = Postgres::start(PostgresOptions {
        more: more.map(str::to_owned).to_vec(),
        ..PostgresOptions::default()
    });
    server.sql(duly_outbox::schema(duly_outbox::Database::Postgres));
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let relay = Driver::Sqlx09.relay(&bus, &server.url()).await.unwrap();
    // Full pages of the log are written at once: what follows is on the first of another file.
    server.sql("select pg_switch_wal()");
    server.sql("select duly_push('orders', '{\"number\": 1}')");
    seen.reach(1).await;
    server.stop_immediately();
    server.restart();
    let rows = server.sql("select count(*) > 0 from duly_outbox");
    assert_eq!(rows.trim(), "t", "handled, and never committed");
    relay.stop().await;
}
