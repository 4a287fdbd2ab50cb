//! What many jobs cost: counted on a Redis of its own, not by a clock.

use serde_json::json;

use crate::servers::Redis;
use crate::world::World;

/// Commands, those inside of scripts too, and bytes of replies.
fn counted(redis: &Redis) -> [f64; 2] {
    let info = redis.cli(&["INFO", "stats"]);
    ["total_commands_processed:", "total_net_output_bytes:"].map(|name| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    })
}

/// Lets jobs die, and puts them back by one request; returns what each of them has cost.
async fn respawn(world: &World, redis: &Redis, jobs: u64) -> [f64; 2] {
    let bulk: Vec<u64> = (0..50).collect();
    let bulk = json!(bulk).to_string();
    for _ in 0..jobs / 50 {
        world.put("/api/ns/q/bulk?tries=1", &bulk).await.is(201);
    }
    while world.get("/api/ns/q?count=100&ttr=0").await.status == 200 {}
    world.wait_for_dead("q", jobs).await;
    let before = counted(redis);
    let all = "/api/ns/q/deadletter?limit=1000000";
    let respawned = world.put(all, "").await.is(200);
    let after = counted(redis);
    assert_eq!(respawned["count"], jobs);
    world.delete("/api/ns/q").await.is(204);
    [0, 1].map(|at| (after[at] - before[at]) / jobs as f64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_respawned_jobs_costs_no_more_than_each_of_few() {
    let redis = Redis::plain();
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_at(folder, redis.url(), "").await;
    respawn(&world, &redis, 500).await; // scripts are loaded, the queue is known
    let few = respawn(&world, &redis, 500).await;
    let many = respawn(&world, &redis, 4_000).await;
    let case = format!("commands and bytes: {few:?} of each of few, {many:?} of many");
    // Each page of a list reads the records of its queue, so the bytes grow a little.
    for (few, many) in few.into_iter().zip(many) {
        assert!(many < few * 2.0, "{case}");
    }
    assert!(many[0] < COMMANDS_MAX, "{case}");
}

/// The most commands of a respawned job.
const COMMANDS_MAX: f64 = 44.0;
