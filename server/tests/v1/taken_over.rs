//! Schedules that change hands between the steps of a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use duly::Bus;
use duly::schedule::ScheduleOptions;
use serde_json::json;

use crate::servers::{Fault, Proxy, Redis};
use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_another_takes_over_at_once_is_not_shown() {
    let redis = Redis::plain();
    let proxy = Proxy::before(redis.address());
    let prefix = format!("?prefix={}", crate::servers::prefix());
    let url = format!("{}{prefix}", proxy.url());
    let world = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    let token = world.new_token("ns", "&queues=a").await;
    let bus = Bus::builder().only_registered().publish_only();
    let bus = bus.store_url(format!("{}{prefix}", redis.url()));
    let bus = bus.start().await.unwrap();
    let set = async || {
        let put = world.client.put(world.api_url("/v1/ns/schedules/nightly"));
        let put = put.header("Content-Type", "application/json");
        let body = json!({"queue": "a", "when": "@yearly"}).to_string();
        crate::world::reply(put.header("X-Token", &token).body(body)).await
    };
    // What follows the change waits, from its line in the audit on.
    let (is_set, waits) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(true)),
    );
    let (set_is_seen, held) = (Arc::clone(&is_set), Arc::clone(&waits));
    proxy.on_request(move |piece| {
        let is_line = piece.windows(12).any(|it| it == b"schedule set");
        let is_set = set_is_seen.fetch_or(is_line, SeqCst) || is_line;
        (is_set && held.load(SeqCst)).then_some(Fault::Wait)
    });
    let take_over = async {
        until("it is set", async || is_set.load(SeqCst)).await;
        let options = ScheduleOptions::new("ns.payroll", "@yearly").unwrap();
        bus.schedules().set("ns.nightly", options).await.unwrap();
        waits.store(false, SeqCst);
    };
    let (shown, ()) = tokio::join!(set(), take_over);
    assert_eq!(shown.status, 404, "{shown:?}");
    assert!(!shown.text.contains("payroll"), "{shown:?}");
    // From then on its name is taken, of whatever.
    let taken = set().await;
    assert_eq!(taken.status, 403, "{taken:?}");
    assert!(!taken.text.contains("payroll"), "{taken:?}");
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}
