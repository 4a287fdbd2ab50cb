//! What a look at one queue costs among many others: counted on a Redis of its own, not by a clock.

use reqwest::Method;
use serde_json::json;

use super::{push, send};
use crate::servers::Redis;
use crate::world::World;

/// The bytes of replies so far.
pub(crate) fn counted(redis: &Redis) -> u64 {
    let info = redis.cli(&["INFO", "stats"]);
    let name = "total_net_output_bytes:";
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

/// Gets queues again and again: one with events, one with a setting, one that is unknown. Returns how
/// many bytes each of them has cost.
async fn looks(world: &World, redis: &Redis) -> u64 {
    let before = counted(redis);
    for _ in 0..30 {
        for (queue, exists) in [("q", true), ("s", true), ("unknown", false)] {
            let path = format!("/v1/ns/queues/{queue}");
            let view = world.get(&path).await.is(200);
            assert_eq!(view["exists"], exists, "{view}");
            assert_eq!(view["paused"], queue == "s", "{view}");
        }
    }
    (counted(redis) - before) / 90
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_among_many_with_settings_costs_what_it_costs_alone() {
    let redis = Redis::plain();
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_at(folder, redis.url(), "").await;
    let pause = async |queue: String| {
        let path = format!("/v1/ns/queues/{queue}");
        let paused = send(&world, Method::PATCH, &path, &json!({"paused": true})).await;
        paused.is(204);
    };
    push(&world, json!({"payload": 7, "delay_ms": 600_000})).await;
    pause("s".to_owned()).await;
    looks(&world, &redis).await; // scripts are loaded
    let few = looks(&world, &redis).await;
    for number in 0..400 {
        pause(format!("other-{number}")).await;
    }
    let many = looks(&world, &redis).await;
    assert!(
        many < few + 2_000,
        "bytes: {few} with few, {many} with many"
    );
}
