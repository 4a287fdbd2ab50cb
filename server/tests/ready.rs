//! Readiness, and what works again after a store's trouble: tokens, limits, webhooks.

use reqwest::Method;
use serde_json::Value;

use crate::servers::{Aof, Redis, RedisOptions};
use crate::world::{World, until};

/// What `/readyz` says of each part.
async fn parts(world: &World) -> (u16, Value) {
    let ready = world.get("/readyz").await;
    (ready.status.as_u16(), ready.json()["parts"].clone())
}

/// Waits until both the pool and the shared state say that something is wrong.
async fn says(world: &World, status: u16, why: &str) {
    until(why, async || {
        let (said, parts) = parts(world).await;
        let fails = |part: &str| parts[part] != "ok";
        said == status && fails("pool default") && fails("shared state")
    })
    .await;
    let alive = world.get("/healthz").await;
    assert_eq!(alive.status, 200, "{why}");
}

/// Waits until the server is ready, and all that lasts works.
async fn works_again(world: &World, round: usize) {
    until("it is ready again", async || parts(world).await.0 == 200).await;
    let queue = format!("q{round}");
    let id = world.publish(&format!("/api/ns/{queue}"), "x").await;
    let job = world
        .consume(&format!("/api/ns/{queue}?timeout=10&ttr=60"))
        .await;
    assert_eq!(job["job_id"], id);
    let token = world.new_token("ns", "").await;
    let limit = format!("/token/ns/{token}/limit");
    let one = r#"{"read":0,"write":1,"interval":3600}"#;
    world.admin_with(Method::PUT, &limit, one).await.is(200);
    let publish = async || {
        let path = world.api_url(&format!("/api/ns/{queue}"));
        let put = world.client.put(path).header("X-Token", &token);
        crate::world::reply(put.body("x")).await.status
    };
    assert_eq!(publish().await, 201);
    assert_eq!(publish().await, 429, "the limit counts");
    let path = format!("/token/ns/{token}");
    world.admin(Method::DELETE, &path).await.is(204);
    assert_eq!(publish().await, 401, "it is revoked");
    let hook = format!("/v1/ns/queues/{queue}/webhook");
    let target = serde_json::json!({"url": "https://example.com/"});
    let request = world.request(Method::PUT, &hook).body(target.to_string());
    let request = request.header("Content-Type", "application/json");
    let put = crate::world::reply(request).await;
    assert!(put.status.is_success(), "{put:?}");
    world.delete(&hook).await.is(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_work_is_told_and_works_again() {
    let mut redis = Redis::start(RedisOptions {
        aof: Aof::Always,
        ..RedisOptions::default()
    });
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_at(folder, redis.url(), "").await;
    works_again(&world, 0).await;

    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    says(&world, 200, "it takes no pushes, and drains").await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    works_again(&world, 1).await;

    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    says(&world, 503, "it is a replica").await;
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    works_again(&world, 2).await;

    redis.kill();
    says(&world, 503, "it is dead").await;
    redis.restart();
    works_again(&world, 3).await;

    redis.stop_process();
    says(&world, 503, "it hangs").await;
    redis.cont();
    works_again(&world, 4).await;
    world.server.stop().await;
}
