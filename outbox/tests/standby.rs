//! A relay whose URL leads to a standby, for a while.

use std::fs;
use std::sync::Arc;

use duly::prelude::*;
use duly::store::MemoryStore;
use duly_outbox::{Database, PushIn, Relay, RelayOptions, schema};
use sqlx::{Executor, MySqlPool};

use crate::drivers::{Driver, push_by};
use crate::servers::{MariaDb, Postgres, PostgresOptions};
use crate::world::{Seen, builder, bus, client, eventually, order, orders};

fn is_away(bus: &Bus) -> bool {
    bus.outbox_backlog().is_some_and(|it| it.is_away)
}

/// Nothing is written at rest, and a standby replies to all else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_at_a_standby_is_away_until_that_is_promoted() {
    let mut primary = Postgres::start(PostgresOptions::default());
    primary.sql(schema(Database::Postgres));
    let (store, seen) = (Arc::new(MemoryStore::new()), Seen::default());
    let builder = || builder(&seen).shared_store(store.clone());
    let bus = builder().start().await.unwrap();
    // As a relay has left it that was at rest.
    let before = Driver::Sqlx09.relay(&bus, &primary.url()).await.unwrap();
    push_by(&mut client(&primary.url()).await, &orders(&bus), 0).await;
    let passed = "select count(*) from (select * from duly_outbox_step order by n desc limit 1) as s \
                  where reading is null and holder = '' and done::text <> '1:1:'";
    let is_passed = async || seen.numbers() == [0] && primary.sql(passed) == "1";
    eventually("its row is passed", is_passed).await;
    before.stop().await;
    let standby = primary.standby();
    let mut relays = Vec::new();
    for driver in Driver::ALL.map(Some).into_iter().chain([None]) {
        let bus = builder().start().await.unwrap();
        let relay = match driver {
            Some(driver) => driver.relay(&bus, &standby.url()).await,
            None => Relay::connect(&bus, &standby.url(), RelayOptions::default()).await,
        };
        relays.push((relay.unwrap(), bus));
    }
    for (_, bus) in &relays {
        eventually("it is away", async || is_away(bus)).await;
    }
    let log = standby.folder().join("postgres.log");
    let tried = || {
        let log = fs::read_to_string(&log).unwrap();
        log.matches("in a read-only transaction").count()
    };
    let (before, tries) = (tried(), 4 * relays.len());
    let has_tried = async || {
        assert!(relays.iter().all(|(_, bus)| is_away(bus)), "it is not back");
        tried() >= before + tries
    };
    eventually("they try again and again", has_tried).await;
    push_by(&mut client(&primary.url()).await, &orders(&bus), 1).await;
    let has_row = async || standby.sql("select count(*) from duly_outbox") == "2";
    eventually("the standby has the row", has_row).await;
    assert_eq!(seen.numbers(), [0]);
    drop(primary);
    assert_eq!(standby.sql("select pg_promote()"), "t");
    seen.reach(2).await;
    for (relay, bus) in relays {
        eventually("it is back", async || !is_away(&bus)).await;
        relay.stop().await;
    }
    assert!(seen.counts().values().all(|count| *count == 1));
}

/// It lets this relay write nevertheless, as the user may do everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_at_a_server_of_mysql_that_is_only_read_from_is_away_until_it_is_not() {
    let server = MariaDb::start();
    server.sql("create database shop");
    server.sql(&format!("use shop; {}", schema(Database::Mysql)));
    let url = server.url("shop");
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    // Of one connection, so that no other is opened but by relays.
    let pool = MySqlPool::connect(&url).await.unwrap();
    let start = async || {
        let options = RelayOptions::default();
        Relay::sqlx_mysql(&bus, url.parse().unwrap(), options).await
    };
    let mut is_first = true;
    for relay in [Some(start().await.unwrap()), None] {
        pool.execute("set global read_only = 1").await.unwrap();
        let relay = match relay {
            Some(relay) => relay,
            None => {
                is_first = false;
                let error = start().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(error.to_string().contains("needs the primary"), "{error}");
                let connected = Relay::connect(&bus, &url, RelayOptions::default());
                connected.await.unwrap()
            }
        };
        eventually("it is away", async || is_away(&bus)).await;
        let mut tx = pool.begin().await.unwrap();
        let number = u64::from(!is_first);
        let pushed = queue.push_in(&mut tx, order(number), When::Now);
        pushed.await.unwrap();
        tx.commit().await.unwrap();
        let sql = "select cast(variable_value as integer) from information_schema.global_status \
                   where variable_name = 'connections'";
        let opened = async || {
            let opened: i64 = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
            opened
        };
        let before = opened().await;
        let has_tried = async || {
            assert!(is_away(&bus), "it is not back");
            opened().await >= before + 4
        };
        eventually("it tries again and again", has_tried).await;
        assert!(!seen.numbers().contains(&number));
        pool.execute("set global read_only = 0").await.unwrap();
        eventually("it is back", async || !is_away(&bus)).await;
        let is_handled = async || seen.numbers().contains(&number);
        eventually("it is handled", is_handled).await;
        relay.stop().await;
    }
    assert!(seen.counts().values().all(|count| *count == 1));
}
