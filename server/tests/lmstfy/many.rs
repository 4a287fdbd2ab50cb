//! Queues with many jobs, and servers that share them.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::world::{Place, World, on_every_store, reply};

on_every_store! {
    a_ready_job_is_seen_behind_many_delayed_ones
    many_dead_jobs_are_respawned_with_their_ids
    names_that_no_publish_takes_are_empty_queues
    a_list_of_queues_is_not_cut_silently
}

/// Pushes events of a payload, in steps.
async fn push_many(world: &World, queue: &str, many: usize, delay_ms: u64) {
    let events: Vec<Value> = (0..1_000)
        .map(|_| json!({"payload": 1, "delay_ms": delay_ms}))
        .collect();
    let body = json!({ "events": events }).to_string();
    for _ in 0..many / 1_000 {
        let path = format!("/v1/ns/queues/{queue}/events");
        let request = world.request(Method::POST, &path).body(body.clone());
        let request = request.header("Content-Type", "application/json");
        reply(request).await.is(201);
    }
}

async fn a_ready_job_is_seen_behind_many_delayed_ones(world: World) {
    push_many(&world, "q", 11_000, 3_600_000).await;
    world.get("/api/ns/q/peek").await.is(404);
    let id = world.publish("/api/ns/q", "x").await;
    let job = world.get("/api/ns/q/peek").await.is(200);
    assert_eq!(job["job_id"], id);
}

/// What is refused has done nothing, and says when to come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawn_that_is_one_too_many_is_refused_whole() {
    const DEAD: u64 = 600;
    let world = World::start(Place::Embedded).await;
    let bodies = json!((0..60).collect::<Vec<u32>>()).to_string();
    for _ in 0..DEAD / 60 {
        world.put("/api/ns/q/bulk?tries=1", &bodies).await.is(201);
    }
    while world.get("/api/ns/q?ttr=0&count=100").await.status == 200 {}
    world.wait_for_dead("q", DEAD).await;
    let mut asked = JoinSet::new();
    for _ in 0..300 {
        let respawn = world.request(Method::PUT, "/api/ns/q/deadletter?limit=2");
        asked.spawn(reply(respawn));
    }
    let (mut respawned, mut refused) = (0, 0);
    while let Some(answer) = asked.join_next().await {
        let answer = answer.unwrap();
        if answer.status == 429 {
            assert_eq!(answer.headers["retry-after"], "1", "{answer:?}");
            assert!(answer.text.contains("too many changes of many events"));
            refused += 1;
        } else {
            respawned += answer.is(200)["count"].as_u64().unwrap();
        }
    }
    assert!(refused > 0 && respawned > 0, "{refused} {respawned}");
    assert_eq!(respawned, 2 * (300 - refused));
    assert_eq!(world.dead_size("q").await, DEAD - respawned);
    assert_eq!(world.size("q").await, respawned);
}

async fn many_dead_jobs_are_respawned_with_their_ids(world: World) {
    let bodies: Vec<Value> = (0..60).map(|n| json!(n)).collect();
    let mut ids = Vec::new();
    for _ in 0..4 {
        let bulk = world
            .put("/api/ns/q/bulk", &json!(bodies).to_string())
            .await;
        let made = bulk.is(201)["job_ids"].as_array().unwrap().clone();
        ids.extend(made.iter().map(|id| id.as_str().unwrap().to_owned()));
        world.consume("/api/ns/q?ttr=0&count=100&timeout=5").await;
    }
    world.wait_for_dead("q", 240).await;
    for (limit, count) in [(130, 130), (1_000, 110), (1_000, 0)] {
        let path = format!("/api/ns/q/deadletter?limit={limit}");
        let respawned = world.put(&path, "").await.is(200);
        assert_eq!(respawned["count"], count);
    }
    assert_eq!(
        (world.dead_size("q").await, world.size("q").await),
        (0, 240)
    );
    for id in &ids {
        let job = world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
        assert_eq!(job["job_id"], *id);
    }
    // Each is there once, and dies again under its id.
    let jobs = world.consume("/api/ns/q?ttr=0&count=100&timeout=5").await;
    assert_eq!(jobs.as_array().unwrap().len(), 100);
    world.wait_for_dead("q", 100).await;
    let respawned = world.put("/api/ns/q/deadletter?limit=1000", "").await;
    assert_eq!(respawned.is(200)["count"], 100);
    assert_eq!(world.size("q").await, 240);
}

async fn names_that_no_publish_takes_are_empty_queues(world: World) {
    let long = "x".repeat(600);
    for path in [
        format!("/api/ns/{long}"),
        format!("/api/ns/{long}?timeout=1"),
        format!("/api/ns/{long},{long}?count=9"),
    ] {
        let none = world.get(&path).await;
        assert_eq!(none.is(404), json!({"msg": "no job available"}));
    }
    let id = world.publish("/api/ns/q", "x").await;
    let job = world.consume(&format!("/api/ns/{long},q")).await;
    assert_eq!(job["job_id"], id);
}

async fn a_list_of_queues_is_not_cut_silently(world: World) {
    let id = world.publish("/api/ns/last", "x").await;
    let names = |many: usize| -> String {
        let names = (1..many).map(|n| format!("q{n}"));
        names
            .chain(["last".to_owned()])
            .collect::<Vec<_>>()
            .join(",")
    };
    let max = duly::lease::LEASE_QUEUES_MAX;
    let text = format!("too many queues, cannot exceed {max}");
    let many = world.get(&format!("/api/ns/{}", names(max + 1))).await;
    many.fails(400, &text);
    let job = world.consume(&format!("/api/ns/{}", names(max))).await;
    assert_eq!(job["job_id"], id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_listed_again_after_another_server_destroyed_it() {
    let world = World::start(Place::Redis).await;
    let other = world.another().await;
    let listed = async || {
        let info = world.admin(Method::GET, "/info").await;
        info.is(200) == json!({"ns": ["q"]})
    };
    for _ in 0..3 {
        world.publish("/api/ns/q", "x").await;
        assert!(listed().await);
        other.delete("/api/ns/q").await.is(204);
        assert!(!listed().await);
        let noted = async || {
            world.publish("/api/ns/q", "x").await;
            listed().await
        };
        crate::world::until("it is listed again", noted).await;
    }
    other.server.stop().await;
}
