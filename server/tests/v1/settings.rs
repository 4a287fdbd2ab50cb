//! How many queues of a namespace have settings.

use reqwest::Method;
use serde_json::{Value, json};

use super::send;
use crate::world::{Place, World, reply};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_so_many_queues_of_a_namespace_have_settings() {
    let world = World::start(Place::Embedded).await;
    let change = async |queue: &str, change: Value| {
        let path = format!("/v1/ns/queues/{queue}");
        send(&world, Method::PATCH, &path, &change).await
    };
    for number in 0..1_000 {
        change(&format!("q{number}"), json!({"paused": true}))
            .await
            .is(204);
    }
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
