//! The options of an event, its payload, its records, and the bounds of all.

use std::time::Duration;

use duly::Bus;
use reqwest::Method;
use serde_json::json;

use super::{lease, of, push, send, settle};
use crate::world::{Place, World, on_every_store};

on_every_store! {
    an_id_of_the_client_makes_a_push_repeatable
    what_is_pushed_under_a_name_is_leased
    every_option_of_an_event_is_kept
    a_payload_is_updated
    records_are_filtered_and_paged
    bounds_are_named
}

async fn an_id_of_the_client_makes_a_push_repeatable(world: World) {
    let id = push(&world, json!({"payload": 0})).await["id"].clone();
    settle_all(&world).await;
    let mut own = of(&json!({"id": id}), "id");
    own.replace_range(20.., "ABCDEF");
    let event = json!({"payload": {"a": 1}, "id": own, "delay_ms": 60_000});
    let first = push(&world, event.clone()).await;
    let again = push(&world, event).await;
    assert_eq!((&first["id"], &again["id"]), (&json!(own), &json!(own)));
    let duplicates = (&first["duplicate"], &again["duplicate"]);
    assert_eq!(duplicates, (&json!(false), &json!(true)));
    let other = json!({"events": [{"payload": {"a": 2}, "id": own, "delay_ms": 60_000}]});
    let refused = send(&world, Method::POST, "/v1/ns/queues/q/events", &other).await;
    assert_eq!(refused.is(409)["kind"], "conflict");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_a_payload_is_that_of_its_event() {
    let world = World::start(Place::Redis).await;
    let with = push(&world, json!({"payload": {"cents": 3}, "version": 2})).await;
    let largest = push(&world, json!({"payload": 1, "version": u32::MAX})).await;
    let without = push(&world, json!({"payload": {"euros": 3}})).await;
    let wrong = json!({"events": [{"payload": 1, "version": 4_294_967_296_u64}]});
    let refused = send(&world, Method::POST, "/v1/ns/queues/q/events", &wrong).await;
    refused.is(422);
    let builder = Bus::builder().store_url(world.url()).only_registered();
    let bus = builder.publish_only().start().await.unwrap();
    let queue = bus.queue_to_push::<()>("ns.q").unwrap();
    for (pushed, version) in [(with, 2), (largest, u32::MAX), (without, 0)] {
        let id = of(&pushed, "id").parse().unwrap();
        let body = queue.get(id).await.unwrap().unwrap().body.unwrap();
        assert_eq!(body.version, version);
    }
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

async fn settle_all(world: &World) {
    for leased in lease(
        world,
        json!({"max": 100, "ttr_ms": 30_000, "wait_ms": 10_000}),
    )
    .await
    {
        settle(world, &leased, json!({"outcome": "ack"}))
            .await
            .is(204);
    }
}

async fn what_is_pushed_under_a_name_is_leased(world: World) {
    for number in 0..20 {
        push(
            &world,
            json!({"payload": number, "idempotency_key": number.to_string()}),
        )
        .await;
    }
    let mut seen = 0;
    while seen < 20 {
        let leased = lease(
            &world,
            json!({"max": 100, "ttr_ms": 60_000, "wait_ms": 5_000}),
        )
        .await;
        assert!(!leased.is_empty(), "{seen} of 20");
        seen += leased.len();
    }
}

async fn every_option_of_an_event_is_kept(world: World) {
    let event = json!({
        "payload": null, "attempts": 7, "expires_ms": 600_000, "key": "k", "headers": {"a": ""},
        "unique": "only", "delay_ms": 60_000,
    });
    let pushed = push(&world, event.clone()).await;
    let path = format!("/v1/ns/queues/q/events/{}", of(&pushed, "id"));
    let found = world.get(&path).await.is(200);
    let expires = found["expires_ms"].as_u64().unwrap() - found["due_ms"].as_u64().unwrap();
    assert!((535_000..=545_000).contains(&expires), "{expires}");
    assert_eq!(
        (
            &found["attempts_left"],
            &found["key"],
            &found["headers"]["a"],
            &found["payload_base64"]
        ),
        (&json!(7), &json!("k"), &json!(""), &json!("bnVsbA=="))
    );
    let kept = push(&world, event.clone()).await;
    assert_eq!(
        (&kept["id"], &kept["duplicate"]),
        (&pushed["id"], &json!(true))
    );
    let mut other = event;
    other["replace"] = json!(true);
    let replaced = push(&world, other).await;
    assert_ne!(replaced["id"], pushed["id"]);
    world.get(&path).await.is(404);
}

async fn a_payload_is_updated(world: World) {
    let pushed = push(&world, json!({"payload": 1, "delay_ms": 60_000})).await;
    let path = format!("/v1/ns/queues/q/events/{}", of(&pushed, "id"));
    let stored = async || world.get(&path).await.is(200)["payload_base64"].clone();
    for (change, expected) in [
        (json!({"payload": {"b": [1]}}), "eyJiIjpbMV19"),
        (
            json!({"payload_base64": "/wA=", "delay_ms": 90_000}),
            "/wA=",
        ),
        (json!({"payload": null}), "bnVsbA=="),
    ] {
        send(&world, Method::PATCH, &path, &change).await.is(200);
        assert_eq!(stored().await, expected);
    }
    send(&world, Method::PATCH, &path, &json!({})).await.is(400);
    send(&world, Method::PATCH, &path, &json!({"delay_ms": 0}))
        .await
        .is(200);
    let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    assert_eq!(leased[0]["payload_base64"], "bnVsbA==");
    let late = send(&world, Method::PATCH, &path, &json!({"payload": 2})).await;
    assert_eq!(late.is(409)["kind"], "conflict");
}

async fn records_are_filtered_and_paged(world: World) {
    for number in 0..5 {
        push(&world, json!({"payload": number, "key": "k"})).await;
    }
    let leased = lease(
        &world,
        json!({"max": 5, "ttr_ms": 30_000, "wait_ms": 10_000}),
    )
    .await;
    for event in &leased[1..] {
        settle(&world, event, json!({"outcome": "ack"}))
            .await
            .is(204);
    }
    settle(
        &world,
        &leased[0],
        json!({"outcome": "bury", "reason": "bad"}),
    )
    .await
    .is(204);
    let path = "/v1/ns/queues/q/records";
    let buried = world.get(&format!("{path}?outcome=buried")).await.is(200);
    let item = &buried["items"][0];
    assert_eq!(
        (&item["id"], &item["error"]),
        (&leased[0]["id"], &json!("bad"))
    );
    let (mut seen, mut next) = (0, String::new());
    loop {
        let page = world
            .get(&format!("{path}?limit=2&key=k{next}"))
            .await
            .is(200);
        let items = page["items"].as_array().unwrap().len();
        assert!(items <= 2);
        seen += items;
        match page["next"].as_str() {
            Some(cursor) => next = format!("&after={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, 5);
    world.get(&format!("{path}?outcome=no")).await.is(400);
    world.get(&format!("{path}?after=no")).await.is(400);
}

async fn bounds_are_named(world: World) {
    let events = "/v1/ns/queues/q/events";
    let long = "x".repeat(257);
    for (event, word) in [
        (
            json!({"payload": 1, "delay_ms": 4_294_967_295_001_u64}),
            "delay_ms",
        ),
        (json!({"payload": 1, "key": long}), "key has 257 characters"),
        (json!({"payload": 1, "attempts": 0}), "attempts is 0"),
        (json!({"payload": 1, "expires_ms": 0}), "expires_ms is 0"),
        (
            json!({"payload": 1, "headers": {"": "x"}}),
            "the name of a header",
        ),
        (
            json!({"payload": 1, "payload_base64": "AA=="}),
            "either payload or payload_base64",
        ),
        (json!({"payload_base64": "!"}), "no base64"),
        (json!({}), "either payload or payload_base64"),
    ] {
        let refused = send(&world, Method::POST, events, &json!({"events": [event]})).await;
        let detail = of(&refused.is(400), "detail");
        assert!(detail.contains(word), "{detail}");
    }
    let many = vec![json!({"payload": 1}); 1_001];
    for events_of in [json!([]), json!(many)] {
        send(&world, Method::POST, events, &json!({"events": events_of}))
            .await
            .is(400);
    }
    let large = json!({"events": [{"payload": "x".repeat(9 << 20)}]});
    send(&world, Method::POST, events, &large).await.is(413);
    let request = world.request(Method::POST, events).body("{}");
    crate::world::reply(request).await.is(415);
    let not_allowed = world.put("/v1/ns/queues/q", "").await;
    assert_eq!(not_allowed.status, 405);
    let allowed = not_allowed.headers["allow"].to_str().unwrap();
    assert!(
        allowed.contains("GET") && allowed.contains("PATCH"),
        "{allowed}"
    );
}
