//! How many queues of a namespace have settings.

use std::ops::Range;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::send;
use crate::world::{World, on_every_store, reply};

on_every_store! {
    only_so_many_queues_of_a_namespace_have_settings
}

async fn only_so_many_queues_of_a_namespace_have_settings(world: World) {
    let change = async |queue: &str, change: Value| {
        let path = format!("/v1/ns/queues/{queue}");
        send(&world, Method::PATCH, &path, &change).await
    };
    let change = &change;
    let pause = async |numbers: Range<u32>| {
        let paused = numbers.map(|number| async move {
            let paused = change(&format!("q{number}"), json!({"paused": true})).await;
            paused.status.as_u16()
        });
        join_all(paused).await
    };
    for from in (0..960).step_by(60) {
        assert_eq!(pause(from..from + 60).await, [204; 60]);
    }
    // As many as there may be, however many come at once.
    let at_once = pause(960..1_060).await;
    let of = |status| at_once.iter().filter(|it| **it == status).count();
    assert_eq!((of(204), of(507)), (40, 60));
    for more in [
        json!({"paused": true}),
        json!({"rate": 10}),
        json!({"workers": 1}),
        json!({"buckets": 1}),
    ] {
        let refused = change("more", more).await.is(507);
        assert_eq!(refused["kind"], "full", "{refused}");
    }
    change("more", json!({"paused": false, "rate": 0, "workers": 0}))
        .await
        .is(204);
    change("q7", json!({"rate": 10})).await.is(204);
    let token = world.new_token("other", "").await;
    let url = world.api_url("/v1/other/queues/q");
    let other = world.client.patch(url).header("X-Token", token);
    let other = other.header("Content-Type", "application/json");
    let other = other.body(json!({"paused": true}).to_string());
    reply(other).await.is(204);
    change("q8", json!({"paused": false})).await.is(204);
    change("more", json!({"paused": true})).await.is(204);
}
