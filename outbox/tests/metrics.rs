//! The metrics of a relay: they say what waits while the store is away.

use duly::prelude::*;
use duly_outbox::{CATALOGUE, PushIn, Relay, RelayOptions};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::servers::{Redis, prefix};
use crate::world::{Seen, TestDatabase, bus, eventually, order, orders};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_counted_while_the_store_is_away() {
    let metrics = PrometheusBuilder::new().install_recorder().unwrap();
    let mut redis = Redis::plain();
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let store = format!("{}?prefix={}&timeout=500ms", redis.url(), prefix());
    let bus = bus(&store, &seen).await;
    redis.kill();
    let mut tx = database.pool.begin().await.unwrap();
    let many = (0..17).map(order);
    orders(&bus)
        .push_many_in(&mut tx, many, When::Now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let options = RelayOptions::default();
    let relay = Relay::sqlx_0_8(&bus, database.pool.clone(), options)
        .await
        .unwrap();
    let says = |line: &str| metrics.render().lines().any(|it| it == line);
    let waits = async || {
        let text = metrics.render();
        let mut lines = text.lines();
        let errors = "duly_relay_errors_total{of=\"store\"} ";
        let errors = lines.find_map(|line| line.strip_prefix(errors)?.parse::<u64>().ok());
        says("duly_relay_waiting 17") && errors.is_some_and(|errors| errors > 0)
    };
    eventually("17 wait, and a push has failed", waits).await;
    redis.restart();
    seen.reach(17).await;
    let none = async || says("duly_relay_waiting 0") && says("duly_relay_oldest_seconds 0");
    eventually("none waits", none).await;
    relay.stop().await;
    for metric in CATALOGUE {
        assert!(metrics.render().contains(metric.name), "{}", metric.name);
    }
}
