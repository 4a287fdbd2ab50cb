//! Purges over `/v1`: in steps, beside who pushes.

use reqwest::Method;
use serde_json::{Value, json};

use super::operator::lines_of;
use super::send;
use crate::world::{World, on_every_store};

on_every_store! {
    a_queue_is_purged_in_steps
    a_purge_cancels_what_waited_and_nothing_that_came_later
}

async fn a_queue_is_purged_in_steps(world: World) {
    for _ in 0..3 {
        let events: Value = (0..500)
            .map(|it| json!({"payload": it, "delay_ms": 60_000}))
            .collect();
        let body = json!({"events": events});
        send(&world, Method::POST, "/v1/ns/queues/q/events", &body)
            .await
            .is(201);
    }
    let purge = async |query: &str| {
        let path = format!("/v1/ns/queues/q/purge{query}");
        send(&world, Method::POST, &path, &json!({})).await
    };
    let first = purge("").await.is(200);
    // A page of a store may have a few more than its limit.
    let cancelled = first["cancelled"].as_u64().unwrap();
    assert!((1_000..1_100).contains(&cancelled), "{first}");
    let after = format!("?after={}", first["next"].as_str().unwrap());
    for cancelled in [1_500 - cancelled, 0] {
        let step = purge(&after).await.is(200);
        assert_eq!(step, json!({"cancelled": cancelled, "next": null}));
    }
    purge("?after=x").await.is(400);
    assert_eq!(lines_of(&world, "queue purged").await, 1);
    let stats = world.get("/v1/ns/queues/q").await.is(200);
    assert_eq!(stats["scheduled"], 0);
}

async fn a_purge_cancels_what_waited_and_nothing_that_came_later(world: World) {
    let queue = "/v1/ns/queues/q";
    let buckets = json!({"buckets": 4});
    send(&world, Method::PATCH, queue, &buckets).await.is(204);
    // The ids of every other one are in no order of time.
    let push = async |time: &str| {
        let event = |number| match number % 2 {
            0 => json!({"payload": number, "delay_ms": 600_000}),
            _ => json!({"payload": number, "delay_ms": 600_000,
                "idempotency_key": format!("{time} {number}")}),
        };
        for first in [0, 500, 1_000] {
            let events: Value = (first..first + 500).map(event).collect();
            let path = format!("{queue}/events");
            let body = json!({"events": events});
            send(&world, Method::POST, &path, &body).await.is(201);
        }
    };
    push("before").await;
    let (mut cancelled, mut query) = (0, String::new());
    loop {
        let path = format!("{queue}/purge{query}");
        let step = send(&world, Method::POST, &path, &json!({})).await.is(200);
        cancelled += step["cancelled"].as_u64().unwrap();
        if query.is_empty() {
            push("meanwhile").await;
        }
        match step["next"].as_str() {
            Some(next) => query = format!("?after={next}"),
            None => break,
        }
    }
    assert_eq!(cancelled, 1_500);
    assert_eq!(world.get(queue).await.is(200)["scheduled"], 1_500);
}
