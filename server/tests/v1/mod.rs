//! `/v1`, resource by resource.

pub(crate) mod cost;
mod described;
mod lines;
mod openapi;
mod operator;
mod options;
mod purge;
mod replies;
mod schedules;
mod settings;
mod taken_over;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{Reply, World, on_every_store};

on_every_store! {
    an_event_is_pushed_leased_and_settled
    a_push_is_repeated_by_its_idempotency_key
    an_event_is_cancelled_rescheduled_and_explained
    a_settled_lease_is_lost
    dead_letters_are_listed_revived_and_dropped
    queues_are_paused_and_forecast
    errors_are_problems
    php_publishes_what_v1_leases
}

async fn send(world: &World, method: Method, path: &str, body: &Value) -> Reply {
    let request = world
        .request(method, path)
        .header("Content-Type", "application/json");
    crate::world::reply(request.body(body.to_string())).await
}

async fn push(world: &World, event: Value) -> Value {
    let body = json!({"events": [event]});
    let pushed = send(world, Method::POST, "/v1/ns/queues/q/events", &body).await;
    pushed.is(201)[0].clone()
}

async fn lease(world: &World, body: Value) -> Vec<Value> {
    let leased = send(world, Method::POST, "/v1/ns/queues/q/leases", &body).await;
    leased.is(200).as_array().expect("an array").clone()
}

fn of(event: &Value, field: &str) -> String {
    event[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {event}"))
        .to_owned()
}

async fn settle(world: &World, event: &Value, settlement: Value) -> Reply {
    let path = format!("/v1/ns/leases/{}/settle", of(event, "token"));
    send(world, Method::POST, &path, &settlement).await
}

async fn an_event_is_pushed_leased_and_settled(world: World) {
    let pushed = push(
        &world,
        json!({
            "payload": {"order": 7}, "key": "customer:8", "attempts": 3, "headers": {"shop": "a"},
        }),
    )
    .await;
    let leased = lease(
        &world,
        json!({"max": 5, "ttr_ms": 30_000, "wait_ms": 10_000}),
    )
    .await;
    assert_eq!(leased.len(), 1);
    let event = &leased[0];
    assert_eq!(event["id"], pushed["id"]);
    assert_eq!(
        (&event["attempt"], &event["attempts_left"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        (&event["key"], &event["headers"]["shop"]),
        (&json!("customer:8"), &json!("a"))
    );
    assert_eq!(
        STANDARD.decode(of(event, "payload_base64")).unwrap(),
        br#"{"order":7}"#
    );
    let path = format!("/v1/ns/leases/{}/extend", of(event, "token"));
    send(&world, Method::POST, &path, &json!({"ttr_ms": 60_000}))
        .await
        .is(204);
    settle(&world, event, json!({"outcome": "ack"}))
        .await
        .is(204);
    world
        .get(&format!("/v1/ns/queues/q/events/{}", of(event, "id")))
        .await
        .is(404);
    assert!(lease(&world, json!({"ttr_ms": 1_000})).await.is_empty());
}

async fn a_push_is_repeated_by_its_idempotency_key(world: World) {
    let event = json!({"payload": 7, "idempotency_key": "close:7", "delay_ms": 60_000});
    let first = push(&world, event.clone()).await;
    let again = push(&world, event).await;
    assert_eq!(
        (&first["duplicate"], &again["duplicate"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(first["id"], again["id"]);
}

async fn an_event_is_cancelled_rescheduled_and_explained(world: World) {
    let pushed = push(
        &world,
        json!({"payload_base64": "/wA=", "delay_ms": 60_000}),
    )
    .await;
    let path = format!("/v1/ns/queues/q/events/{}", of(&pushed, "id"));
    let found = world.get(&path).await.is(200);
    assert_eq!(
        (&found["state"], &found["payload_base64"]),
        (&json!("scheduled"), &json!("/wA="))
    );
    let moved = send(&world, Method::PATCH, &path, &json!({"delay_ms": 120_000}))
        .await
        .is(200);
    assert!(moved["due_ms"].as_u64() > pushed["due_ms"].as_u64());
    let explained = world
        .get(&path.replace("events", "explanations"))
        .await
        .is(200);
    assert_eq!(explained["state"], "scheduled");
    let other = path.replace("/q/", "/other/");
    world
        .get(&other.replace("events", "explanations"))
        .await
        .is(404);
    world.delete(&path).await.is(204);
    world.get(&path).await.is(404);
}

async fn a_settled_lease_is_lost(world: World) {
    push(&world, json!({"payload": 1, "attempts": 5})).await;
    let leased = lease(&world, json!({"ttr_ms": 30_000})).await;
    settle(&world, &leased[0], json!({"outcome": "release"}))
        .await
        .is(204);
    let again = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    assert_eq!(again[0]["attempt"], 1, "a release counts no attempt");
    let late = settle(&world, &leased[0], json!({"outcome": "ack"})).await;
    assert_eq!(late.is(409)["kind"], "lease_lost");
    settle(
        &world,
        &again[0],
        json!({"outcome": "retry", "delay_ms": 0}),
    )
    .await
    .is(204);
    let third = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    assert_eq!(third[0]["attempt"], 2);
}

async fn dead_letters_are_listed_revived_and_dropped(world: World) {
    let pushed = push(&world, json!({"payload": 1})).await;
    let ids = json!({"ids": [of(&pushed, "id")]});
    let bury = json!({"outcome": "bury", "reason": "no such order"});
    let leased = lease(&world, json!({"ttr_ms": 30_000})).await;
    settle(&world, &leased[0], bury.clone()).await.is(204);
    let dead = world.get("/v1/ns/queues/q/dead-letters").await.is(200);
    assert_eq!(
        (&dead["items"][0]["id"], &dead["items"][0]["error"]),
        (&pushed["id"], &json!("no such order"))
    );
    let revive = "/v1/ns/queues/q/dead-letters/revive";
    assert_eq!(
        send(&world, Method::POST, revive, &ids).await.is(200)["done"],
        1
    );
    let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    settle(&world, &leased[0], bury).await.is(204);
    let dropped = send(
        &world,
        Method::POST,
        &revive.replace("revive", "drop"),
        &ids,
    )
    .await;
    assert_eq!(dropped.is(200)["done"], 1);
    assert_eq!(world.dead_size("q").await, 0);
}

async fn queues_are_paused_and_forecast(world: World) {
    push(&world, json!({"payload": 1, "delay_ms": 50_000})).await;
    let path = "/v1/ns/queues/q";
    let change = json!({"paused": true, "rate": 10.0});
    send(&world, Method::PATCH, path, &change).await.is(204);
    let stats = world.get(path).await.is(200);
    assert_eq!(
        (&stats["paused"], &stats["rate"], &stats["scheduled"]),
        (&json!(true), &json!(10.0), &json!(1))
    );
    send(
        &world,
        Method::PATCH,
        path,
        &json!({"paused": false, "rate": 0}),
    )
    .await
    .is(204);
    let forecast = world
        .get(&format!("{path}/forecast?horizon_ms=60000&step_ms=60000"))
        .await;
    assert_eq!(forecast.is(200)[0]["events"], 1);
}

async fn errors_are_problems(world: World) {
    let reply = world.get("/v1/ns/queues/q/events/nonsense").await;
    assert_eq!(reply.headers["content-type"], "application/problem+json");
    let problem = reply.is(400);
    assert_eq!(
        (&problem["status"], &problem["title"]),
        (&json!(400), &json!("Bad Request"))
    );
    world.get("/v1/nothing").await.is(404);
    world.put("/v1/ns/queues/q", "").await.is(405);
    world.get("/v1/other/queues/q").await.is(401);
    let unknown = json!({"events": [{"payload": 1, "delay": 5}]});
    let refused = send(&world, Method::POST, "/v1/ns/queues/q/events", &unknown).await;
    assert!(
        refused.text.contains("unknown field `delay`"),
        "{}",
        refused.text
    );
    let description = world.get("/v1/openapi.json").await.is(200);
    assert!(description["paths"]["/v1/{namespace}/queues/{queue}/events"]["post"].is_object());
}

async fn php_publishes_what_v1_leases(world: World) {
    let id = world.publish("/api/ns/q", "hello").await;
    let leased = lease(&world, json!({"ttr_ms": 30_000})).await;
    assert_eq!(leased[0]["id"], id);
    assert_eq!(
        STANDARD.decode(of(&leased[0], "payload_base64")).unwrap(),
        b"hello"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_paths_are_problems_and_a_byte_order_mark_is_ignored() {
    let world = World::start(crate::world::Place::Embedded).await;
    for path in ["/v1/", "/v1", "/v1/x", "/v1/ns/queues/q/none", "/v1//"] {
        let unknown = world.get(path).await;
        assert_eq!(unknown.is(404)["status"], 404, "{path}: {unknown:?}");
        let media = unknown.headers["content-type"].to_str().unwrap();
        assert_eq!(media, "application/problem+json", "{path}");
    }
    let body = "\u{feff}{\"events\":[{\"payload\":1}]}";
    let request = world
        .request(Method::POST, "/v1/ns/queues/q/events")
        .body(body);
    let request = request.header("Content-Type", "application/json");
    crate::world::reply(request).await.is(201);
}
