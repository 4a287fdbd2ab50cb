//! The metrics of relays: they say what waits while the store is away, and whether the database is.

use duly::prelude::*;
use duly_outbox::{CATALOGUE, PushIn, Relay, RelayOptions};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use sqlx_0_8::Executor;

use crate::servers::{Redis, prefix};
use crate::world::{Seen, TestDatabase, World, bus, eventually, order, orders};

/// What a recorder of its own was told by the thread of a test.
struct Page(PrometheusHandle);

impl Page {
    fn says(&self, line: &str) -> bool {
        self.0.render().lines().any(|it| it == line)
    }
}

/// Commits 17 events into the outbox of a store that is away, and starts its relay.
async fn relay_of_17(bus: &Bus, database: &TestDatabase) -> Relay {
    let mut tx = database.pool.begin().await.unwrap();
    let many = (0..17).map(order);
    let pushed = orders(bus).push_many_in(&mut tx, many, When::Now).await;
    pushed.unwrap();
    tx.commit().await.unwrap();
    Relay::sqlx_0_8(bus, database.pool.clone(), RelayOptions::default())
        .await
        .unwrap()
}

#[tokio::test]
async fn what_waits_is_counted_while_the_store_is_away() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = ::metrics::set_default_local_recorder(&recorder);
    let page = Page(recorder.handle());
    let mut redis = Redis::plain();
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let store = format!("{}?prefix={}&timeout=500ms", redis.url(), prefix());
    let bus = bus(&store, &seen).await;
    redis.kill();
    let relay = relay_of_17(&bus, &database).await;
    let waits = async || {
        let text = page.0.render();
        let mut lines = text.lines();
        let errors = "duly_relay_errors_total{of=\"store\"} ";
        let errors = lines.find_map(|line| line.strip_prefix(errors)?.parse::<u64>().ok());
        page.says("duly_relay_waiting 17") && errors.is_some_and(|errors| errors > 0)
    };
    eventually("17 wait, and a push has failed", waits).await;
    redis.restart();
    seen.reach(17).await;
    let none =
        async || page.says("duly_relay_waiting 0") && page.says("duly_relay_oldest_seconds 0");
    eventually("none waits", none).await;
    relay.stop().await;
    for metric in CATALOGUE {
        assert!(page.0.render().contains(metric.name), "{}", metric.name);
    }
}

#[tokio::test]
async fn of_two_outboxes_the_one_that_is_behind_shows_and_none_once_its_relay_has_ended() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = ::metrics::set_default_local_recorder(&recorder);
    let page = Page(recorder.handle());
    let mut redis = Redis::plain();
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let store = format!("{}?prefix={}&timeout=500ms", redis.url(), prefix());
    let bus = bus(&store, &seen).await;
    redis.kill();
    let behind = relay_of_17(&bus, &database).await;
    let waits = async || page.says("duly_relay_waiting 17");
    eventually("17 wait", waits).await;
    let calm = World::new().await.relay().await;
    assert!(page.says("duly_relay_waiting 17"), "the other has none");
    calm.stop().await;
    assert!(page.says("duly_relay_waiting 17"), "the other has ended");
    behind.stop().await;
    for name in ["waiting", "oldest_seconds", "deferred"] {
        assert!(page.says(&format!("duly_relay_{name} 0")), "{name}");
    }
}

#[tokio::test]
async fn a_database_that_a_relay_cannot_read_is_told() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = ::metrics::set_default_local_recorder(&recorder);
    let page = Page(recorder.handle());
    let world = World::new().await;
    let relay = world.relay().await;
    assert!(page.says("duly_relay_away 0"));
    for (sql, line) in [
        (
            "alter table duly_outbox_step rename to elsewhere",
            "duly_relay_away 1",
        ),
        (
            "alter table elsewhere rename to duly_outbox_step",
            "duly_relay_away 0",
        ),
    ] {
        world.database.pool.execute(sql).await.unwrap();
        eventually(line, async || page.says(line)).await;
    }
    relay.stop().await;
}
