//! Section 3: limits of tokens.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::world::{World, on_every_store};

on_every_store! {
    a_limit_is_made_read_changed_and_removed
    a_limit_is_checked
    publishes_are_limited
    a_changed_window_begins_anew
    consumes_that_find_a_job_are_limited
    each_token_has_its_own_limit
    a_window_ends
    a_batch_is_one_call
    a_limit_ends_with_its_token
    a_handle_of_no_token_has_no_limit
    a_limit_of_no_token_is_removed_by_what_is_shown_of_it
    a_token_may_look_like_a_handle
}

async fn a_limit_is_made_read_changed_and_removed(world: World) {
    let path = format!("/token/ns/{}/limit", world.token);
    let none = world.admin(Method::GET, &path).await;
    assert_eq!((none.status.as_u16(), none.text.as_str()), (404, "null"));
    let limit = r#"{"read":10,"write":20,"interval":30}"#;
    let made = world.admin_with(Method::POST, &path, limit).await;
    assert_eq!(
        made.is(201),
        json!({"limiter": {"read": 10, "write": 20, "interval": 30}})
    );
    let again = world.admin_with(Method::POST, &path, limit).await;
    again.fails(
        500,
        &format!("throttler token({}) has already exists", world.token),
    );
    let read = world.admin(Method::GET, &path).await;
    assert_eq!(
        read.is(200),
        json!({"read": 10, "write": 20, "interval": 30})
    );
    let other = r#"{"read":1,"interval":3}"#;
    world.admin_with(Method::PUT, &path, other).await.is(200);
    let all = world
        .admin(Method::GET, "/limits?force_update=1")
        .await
        .is(200);
    let ours = json!({
        "namespace": "ns", "token": world.token,
        "limiter": {"read": 1, "write": 0, "interval": 3},
    });
    assert!(all.as_array().unwrap().contains(&ours), "{all}");
    for _ in 0..2 {
        let removed = world.admin(Method::DELETE, &path).await;
        assert_eq!(removed.is(200), json!({"msg": "success"}));
    }
    world.admin(Method::GET, &path).await.is(404);
}

async fn a_limit_is_checked(world: World) {
    let path = format!("/token/ns/{}/limit", world.token);
    let put = async |body: &str| world.admin_with(Method::PUT, &path, body).await;
    put("{").await.is(400);
    let empty = put(r#"{"interval":1}"#).await;
    assert_eq!(empty.is(400)["limiter"]["interval"], 1);
    put(r#"{"read":1}"#)
        .await
        .fails(400, "interval should be > 0");
    put(r#"{"read":-1,"interval":1}"#).await.is(500);
}

async fn limit(world: &World, token: &str, body: &str) {
    let path = format!("/token/ns/{token}/limit");
    world.admin_with(Method::PUT, &path, body).await.is(200);
}

async fn publishes_are_limited(world: World) {
    limit(&world, &world.token, r#"{"write":2,"interval":3600}"#).await;
    world
        .put("/api/ns/q?delay=x", "x")
        .await
        .fails(400, "invalid delay");
    world.put("/api/ns/q", "x").await.is(201);
    world.put("/api/ns/q/bulk", "[1,2,3]").await.is(201);
    let text = format!(
        "token({}) produce reach the limit rate, please retry later",
        world.token
    );
    let refused = world.put("/api/ns/q?delay=x", "x").await;
    assert_eq!(refused.is(429), json!({"msg": text}));
    assert_eq!(world.put("/api/ns/q/bulk", "[1]").await.status, 429);
    // A consume is not limited, and neither is a republish that replaces a job.
    let job = world.consume("/api/ns/q").await;
    let id = job["job_id"].as_str().unwrap();
    let path = format!("/api/ns/q/job/{id}");
    let new = world.put(&path, "x").await.is(201);
    // One that replaces none is a publish.
    let never = "/api/ns/q/job/01KBKSY8Q3X4H1W9V0T5RZ7M2C";
    for path in [&path, never, "/api/ns/q/job/anything"] {
        assert_eq!(world.put(path, "x").await.is(429), json!({"msg": text}));
    }
    // However many replace the same job, one of them does.
    let path = format!("/api/ns/q/job/{}", new["job_id"].as_str().unwrap());
    let all = join_all((0..8).map(|_| world.put(&path, "x"))).await;
    let done = all.iter().filter(|it| it.status == 201).count();
    assert_eq!((done, world.size("q").await), (1, 4), "{all:?}");
    // A window that is open counts it.
    limit(&world, &world.token, r#"{"write":1,"interval":1800}"#).await;
    world.put(&path, "x").await.is(201);
    assert_eq!(world.put("/api/ns/q", "x").await.status, 429);
}

async fn a_changed_window_begins_anew(world: World) {
    let write = async |limit_of: &str| {
        limit(&world, &world.token, limit_of).await;
        let publish = world.put("/api/ns/q", "x").await;
        publish.status.as_u16()
    };
    assert_eq!(write(r#"{"write":1,"interval":3600}"#).await, 201);
    assert_eq!(write(r#"{"write":1,"interval":3600}"#).await, 429);
    assert_eq!(write(r#"{"write":1,"interval":1800}"#).await, 201);
    // What was used of a window stays used.
    assert_eq!(write(r#"{"write":2,"interval":1800}"#).await, 201);
    assert_eq!(write(r#"{"write":2,"interval":1800}"#).await, 429);
    assert_eq!(write(r#"{"write":1,"interval":3600}"#).await, 429);
}

async fn consumes_that_find_a_job_are_limited(world: World) {
    limit(&world, &world.token, r#"{"read":1,"interval":3600}"#).await;
    for _ in 0..3 {
        world.get("/api/ns/q").await.is(404);
    }
    world.publish("/api/ns/q", "x").await;
    world.publish("/api/ns/q", "x").await;
    world.consume("/api/ns/q").await;
    let text = format!(
        "token({}) consume reach the limit rate, please retry later",
        world.token
    );
    assert_eq!(world.get("/api/ns/q").await.is(429), json!({"msg": text}));
}

async fn each_token_has_its_own_limit(world: World) {
    let other = world.new_token("ns", "").await;
    limit(&world, &world.token, r#"{"write":1,"interval":3600}"#).await;
    limit(&world, &other, r#"{"write":3,"interval":3600}"#).await;
    let put = async |token: &str| {
        let put = world
            .client
            .put(world.api_url("/api/ns/q"))
            .header("X-Token", token);
        crate::world::reply(put).await.status.as_u16()
    };
    assert_eq!(
        [put(&world.token).await, put(&world.token).await],
        [201, 429]
    );
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(put(&other).await);
    }
    assert_eq!(statuses, [201, 201, 201, 429]);
}

async fn a_window_ends(world: World) {
    limit(&world, &world.token, r#"{"write":1,"interval":1}"#).await;
    world.put("/api/ns/q", "x").await.is(201);
    crate::world::until("a window begins", async || {
        world.put("/api/ns/q", "x").await.status == 201
    })
    .await;
    assert_eq!(world.size("q").await, 2);
}

async fn a_batch_is_one_call(world: World) {
    world.put("/api/ns/q/bulk", "[1,2,3,4]").await.is(201);
    limit(&world, &world.token, r#"{"read":2,"interval":3600}"#).await;
    world.get("/api/ns/q?count=2").await.is(200);
    world.get("/api/ns/q?count=1").await.is(200);
    assert_eq!(world.get("/api/ns/q?count=1").await.status, 429);
}

async fn a_limit_ends_with_its_token(world: World) {
    let token = "a-token-of-somebodys-choice";
    let more = format!("&token={token}");
    world.new_token("ns", &more).await;
    limit(&world, token, r#"{"write":1,"interval":3600}"#).await;
    world
        .admin(Method::DELETE, &format!("/token/ns/{token}"))
        .await
        .is(204);
    world.new_token("ns", &more).await;
    let path = format!("/token/ns/{token}/limit");
    world.admin(Method::GET, &path).await.is(404);
    for _ in 0..2 {
        let put = world.client.put(world.api_url("/api/ns/q"));
        crate::world::reply(put.header("X-Token", token))
            .await
            .is(201);
    }
}

/// Returns how a list shows a token that another process has made.
fn handle(token: &str) -> String {
    let hash = Sha256::digest(token);
    let begin = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
    format!("sha256~{}", begin.collect::<String>())
}

async fn limits(world: &World) -> Vec<Value> {
    let all = world.admin(Method::GET, "/limits").await.is(200);
    all.as_array().unwrap().clone()
}

async fn a_handle_of_no_token_has_no_limit(world: World) {
    let revoked = world.new_token("ns", "").await;
    let path = format!("/token/ns/{revoked}");
    world.admin(Method::DELETE, &path).await.is(204);
    let expired = world.new_token("ns", "&expires_in=0").await;
    let other = world.new_token("another", "").await;
    let unknown = "sha256~0123456789abcdef".to_owned();
    let body = r#"{"write":1,"interval":3600}"#;
    for handle in [unknown, handle(&revoked), handle(&expired), handle(&other)] {
        let path = format!("/token/ns/{handle}/limit");
        for method in [Method::POST, Method::PUT, Method::GET, Method::DELETE] {
            let response = world.admin_with(method.clone(), &path, body).await;
            assert_eq!(response.status, 404, "{method} {path}: {response:?}");
        }
    }
    assert_eq!(limits(&world).await, Vec::<Value>::new());
    let audit = world.admin(Method::GET, "/audit").await.text;
    assert!(!audit.contains("limit"), "{audit}");
    // Nor where one is left that has expired.
    let expired = world.new_token("ns", "&expires_in=0").await;
    limit(&world, &expired, body).await;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let path = format!("/token/ns/{}/limit", handle(&expired));
        let response = world.admin_with(method.clone(), &path, body).await;
        assert_eq!(response.status, 404, "{method} {path}: {response:?}");
    }
    // Of a token it is as its text.
    let path = |token: &str| format!("/token/ns/{token}/limit");
    limit(&world, &handle(&world.token), body).await;
    world.admin(Method::GET, &path(&world.token)).await.is(200);
    world.put("/api/ns/q", "x").await.is(201);
    assert_eq!(world.put("/api/ns/q", "x").await.status, 429);
    for _ in 0..2 {
        let path = path(&handle(&world.token));
        let removed = world.admin(Method::DELETE, &path).await;
        assert_eq!(removed.is(200), json!({"msg": "success"}));
    }
    world.admin(Method::GET, &path(&world.token)).await.is(404);
}

/// By its text a token may have a limit before it is made.
async fn a_limit_of_no_token_is_removed_by_what_is_shown_of_it(world: World) {
    let token = "a-token-that-nobody-has-made";
    for is_of_limit in [true, false] {
        limit(&world, token, r#"{"write":1,"interval":3600}"#).await;
        let shown = limits(&world).await;
        assert_eq!(shown.len(), 1, "{shown:?}");
        let mut path = format!("/token/ns/{}", shown[0]["token"].as_str().unwrap());
        if is_of_limit {
            path += "/limit";
            world.admin(Method::GET, &path).await.is(200);
        }
        let removed = world.admin(Method::DELETE, &path).await;
        assert!(removed.status.is_success(), "{removed:?}");
        assert_eq!(limits(&world).await, Vec::<Value>::new(), "{path}");
    }
}

async fn a_token_may_look_like_a_handle(world: World) {
    let token = "sha256~0123456789abcdef";
    let path = format!("/token/ns/{token}/limit");
    for _ in 0..2 {
        world.new_token("ns", &format!("&token={token}")).await;
        limit(&world, token, r#"{"write":1,"interval":3600}"#).await;
        world.admin(Method::GET, &path).await.is(200);
        let path = format!("/token/ns/{token}");
        world.admin(Method::DELETE, &path).await.is(204);
        assert_eq!(limits(&world).await, Vec::<Value>::new());
    }
}
