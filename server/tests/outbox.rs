//! A server that relays the outbox of a program's database.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly_outbox::{Database, schema};
use duly_server::{Server, Settings};
use serde_json::{Value, json};

use crate::servers::{Postgres, PostgresOptions};
use crate::world::{Place, World};

fn outbox(url: &str) -> String {
    format!("[outbox]\nurl = '{url}'")
}

/// By a program in any language: its transaction, plain SQL, and a consumer over HTTP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_transaction_pushes_is_consumed_over_http_once_it_has_committed() {
    let mut database = Postgres::start(PostgresOptions::default());
    database.sql(schema(Database::Postgres));
    let world = World::start_with(Place::Redis, &outbox(&database.url())).await;
    database.sql("begin; select duly_push('ns.mail', '{\"to\": 0}'); rollback");
    database.sql("begin; select duly_push('ns.mail', '{\"to\": 1}'); commit");
    let lease = async || -> Value {
        let job = world.consume("/api/ns/mail?timeout=20").await;
        let body = STANDARD.decode(job["data"].as_str().unwrap()).unwrap();
        serde_json::from_slice(&body).unwrap()
    };
    assert_eq!(lease().await, json!({"to": 1}));
    database.restart();
    database.sql("select duly_push('ns.mail', '{\"to\": 2}')");
    assert_eq!(
        lease().await,
        json!({"to": 2}),
        "after a restart of the database"
    );
    let stopped = tokio::time::timeout(Duration::from_secs(60), world.server.stop());
    stopped.await.expect("it stops in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_are_missing_are_told_at_the_start() {
    let database = Postgres::start(PostgresOptions::default());
    let listen =
        "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\nstate = 'memory:'";
    let pools = "[pools.default]\nurl = 'memory:'";
    let text = format!("{listen}\n{pools}\n{}", outbox(&database.url()));
    let settings = Settings::from_toml(&text).unwrap();
    let error = Server::start(settings).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.to_string().contains("outbox"), "{error}");
    assert!(source.contains("duly outbox schema"), "{source}");
}

#[test]
fn a_pool_that_is_none_is_named() {
    let error = Settings::from_toml("[outbox]\npool = 'b'").unwrap_err();
    assert!(error.to_string().contains("outbox.pool"), "{error}");
    let settings = Settings::from_toml("[outbox]\nurl = 'postgres://u:secret@host/db'").unwrap();
    assert!(!format!("{settings:?}").contains("secret"), "{settings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_ends_are_kept_can_be_set() {
    let database = Postgres::start(PostgresOptions::default());
    database.sql(schema(Database::Postgres));
    let listen =
        "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\nstate = 'memory:'";
    let pools = "[pools.default]\nurl = 'memory:'";
    let text = |seconds: u32| {
        let outbox = outbox(&database.url());
        format!("{listen}\n{pools}\n{outbox}\ndone_kept_s = {seconds}")
    };
    let error = Settings::from_toml(&text(59)).unwrap_err().to_string();
    assert!(error.contains("outbox.done_kept_s is 59"), "{error}");
    let settings = Settings::from_toml(&text(5_184_000)).unwrap();
    Server::start(settings).await.unwrap().stop().await;
}
