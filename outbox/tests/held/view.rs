//! The same in MariaDB, where a view that is held keeps deleted rows in the table.

use std::time::Duration;

use duly::prelude::*;
use duly_outbox::{Database, PushIn, Relay, RelayOptions, schema};
use sqlx::{Connection, Executor, MySqlConnection};
use tokio::time::Instant;

use super::{HELD, Pusher, Pushes, conclude, steady, steady_bus};
use crate::load::number;
use crate::servers::MariaDb;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_view_of_mysql_passes_nothing_over_and_slows_nothing_down() {
    let seconds = number("DULY_OUTBOX_HELD_SECONDS", 3);
    let rate = number("DULY_OUTBOX_RATE", 300);
    let server = MariaDb::start();
    server.sql("create database shop");
    server.sql(&format!("use shop; {}", schema(Database::Mysql)));
    let url = server.url("shop");
    let (bus, handled) = steady_bus().await;
    let queue = bus.queue::<steady>();
    let options = RelayOptions::default();
    let relay = Relay::sqlx_mysql(&bus, url.parse().unwrap(), options).await;
    let relay = relay.unwrap();
    let pusher = Pusher::Mysql(MySqlConnection::connect(&url).await.unwrap());
    let pushes = Pushes::start(pusher, queue.clone(), rate);

    // The pace of the phases; nothing is concluded from it.
    let around = Duration::from_secs(seconds.min(30));
    tokio::time::sleep(around).await;
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    queue.push_in(&mut tx, HELD, When::Now).await.unwrap();
    // Its view, which is that of now, until its end.
    tx.execute("select count(*) from duly_done").await.unwrap();
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let is_early = handled.0.lock().contains_key(&HELD);
    assert!(!is_early, "handled before its commit");
    tx.commit().await.unwrap();
    let held = (began, Instant::now());
    tokio::time::sleep(around).await;
    conclude(held, pushes.end().await, &handled).await;
    relay.stop().await;
    bus.shutdown(Duration::from_secs(10)).await.unwrap();
}
