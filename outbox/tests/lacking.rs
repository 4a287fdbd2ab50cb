//! Tables that lack something without which events would be lost, doubled or late: a start names it.

use duly::prelude::*;
use duly_outbox::Database;

use crate::databases::Outbox;
use crate::world::{Seen, bus, eventually, orders};

/// What is done to tables that are complete, and the name of what they lack then.
type Case = (&'static str, &'static str);

const POSTGRES: &[Case] = &[
    (
        "alter table duly_done drop constraint duly_done_pkey",
        "primary key of duly_done",
    ),
    (
        "alter table duly_outbox_step drop constraint duly_outbox_step_pkey",
        "primary key of duly_outbox_step",
    ),
    (
        "alter table duly_outbox_deferred drop constraint duly_outbox_deferred_pkey",
        "primary key of duly_outbox_deferred",
    ),
    (
        "alter table duly_done_limit drop constraint duly_done_limit_pkey",
        "primary key of duly_done_limit",
    ),
    ("drop index duly_outbox_by_xid", "index duly_outbox_by_xid"),
    (
        "drop index duly_outbox_deferred_by_bucket",
        "index duly_outbox_deferred_by_bucket",
    ),
    (
        "drop index duly_outbox_refused_by_n",
        "index duly_outbox_refused_by_n",
    ),
    ("drop index duly_done_by_at", "index duly_done_by_at"),
    ("drop table duly_outbox_1", "partition duly_outbox_1"),
    (
        "alter table duly_outbox_step detach partition duly_outbox_step_0",
        "partition duly_outbox_step_0",
    ),
    ("drop function duly_push", "function duly_push"),
    ("drop function duly_push_at", "function duly_push_at"),
    ("drop function duly_new_id", "function duly_new_id"),
    (
        "drop function duly_outbox_retry",
        "function duly_outbox_retry",
    ),
    (
        "drop function duly_outbox_is_utf8",
        "function duly_outbox_is_utf8",
    ),
    ("delete from duly_outbox_version", "version 0"),
];

const MYSQL: &[Case] = &[
    (
        "alter table duly_done drop primary key",
        "primary key of duly_done",
    ),
    (
        "alter table duly_outbox_server drop primary key",
        "primary key of duly_outbox_server",
    ),
    (
        "alter table duly_done_limit drop primary key",
        "primary key of duly_done_limit",
    ),
    (
        "alter table duly_outbox modify n bigint not null, drop primary key",
        "primary key of duly_outbox",
    ),
    (
        "drop index duly_outbox_deferred_by_bucket on duly_outbox_deferred",
        "index duly_outbox_deferred_by_bucket",
    ),
    (
        "drop index duly_done_by_at on duly_done",
        "index duly_done_by_at",
    ),
    ("delete from duly_outbox_salt", "row of duly_outbox_salt"),
    ("delete from duly_outbox_version", "version 0"),
];

const SQLITE: &[Case] = &[
    (
        "alter table duly_done rename to done; \
         create table duly_done (event text, attempt integer, lease text, at integer); \
         create index done_by_at on duly_done (at)",
        "primary key of duly_done",
    ),
    (
        "drop index duly_outbox_deferred_by_bucket",
        "index duly_outbox_deferred_by_bucket",
    ),
    ("drop index duly_done_by_at", "index duly_done_by_at"),
    ("delete from duly_outbox_step", "row of duly_outbox_step"),
    ("delete from duly_outbox_salt", "row of duly_outbox_salt"),
    ("delete from duly_outbox_version", "version 0"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_names_what_postgresql_lacks() {
    each_is_named(POSTGRES, Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_names_what_a_file_of_sqlite_lacks() {
    each_is_named(SQLITE, Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_names_what_mariadb_lacks() {
    each_is_named(MYSQL, Database::Mysql).await;
}

async fn each_is_named(cases: &[Case], database: Database) {
    let bus = bus("memory:", &Seen::default()).await;
    for (drops, name) in cases {
        let outbox = Outbox::new(database).await;
        outbox.start(&bus).await.unwrap().stop().await;
        outbox.execute(drops).await;
        let error = outbox.start(&bus).await.expect_err(drops);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{drops}: {error}");
        let text = error.to_string();
        assert!(
            text.contains(name) && text.contains("duly outbox schema"),
            "{drops}: {text}"
        );
    }
}

/// As a test harness does that empties all tables: the log says more than that no row was found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_rows_are_deleted_meanwhile_is_relayed_once_they_are_back() {
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let outbox = Outbox::new(Database::Sqlite).await;
    let relay = outbox.relay(&bus).await;
    outbox.execute("delete from duly_outbox_step").await;
    outbox.push(&orders(&bus), 1..2, When::Now).await;
    let is_away = async || bus.outbox_backlog().is_some_and(|backlog| backlog.is_away);
    eventually("the relay cannot go on", is_away).await;
    outbox.execute(outbox.schema()).await;
    seen.reach(1).await;
    relay.stop().await;
}
