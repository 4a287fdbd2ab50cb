//! What the description allows is accepted, and what it does not is refused.

use reqwest::Method;
use serde_json::{Value, json};

use super::send;
use crate::world::{Place, World};

const WEBHOOK: &str = "/v1/ns/queues/q/webhook";

async fn schema(world: &World, name: &str) -> Value {
    let description = world.get("/v1/openapi.json").await.is(200);
    description["components"]["schemas"][name].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_numbers_of_a_webhook_may_have_a_fraction_of_zero() {
    let world = World::start(Place::Embedded).await;
    let body = json!({"url": "https://shop.test/", "concurrency": 236.0, "timeout_ms": 451.0});
    send(&world, Method::PUT, WEBHOOK, &body).await.is(201);
    let seen = world.get(WEBHOOK).await.is(200);
    let numbers = (&seen["concurrency"], &seen["timeout_ms"]);
    assert_eq!(numbers, (&json!(236), &json!(451)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_of_a_webhook_are_as_described() {
    let world = World::start(Place::Embedded).await;
    let set = async |name: &str, value: &str| {
        let body = json!({"url": "https://shop.test/", "headers": {name: value}});
        send(&world, Method::PUT, WEBHOOK, &body).await
    };
    assert!(
        set(&"x".repeat(256), &"é".repeat(1_024))
            .await
            .status
            .is_success()
    );
    set(&"x".repeat(257), "").await.is(400);
    set("x-a", &"é".repeat(1_025)).await.is(400);
    set("DULY-x", "").await.is(400);
    let both = json!({"url": "https://shop.test/", "headers": {"X-A": "1", "x-a": "2"}});
    send(&world, Method::PUT, WEBHOOK, &both).await.is(200);
    let schema = schema(&world, "WebhookBody").await;
    let headers = &schema["properties"]["headers"];
    assert_eq!(headers["maxProperties"], 16);
    let names = headers["propertyNames"]["pattern"].as_str().unwrap();
    assert!(
        names.contains("[Hh][Oo][Ss][Tt]$") && names.contains("{1,256}"),
        "{names}"
    );
    assert_eq!(headers["additionalProperties"]["maxLength"], 1_024);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_and_secrets_of_a_webhook_have_patterns() {
    let world = World::start(Place::Embedded).await;
    let schema = schema(&world, "WebhookBody").await;
    let url = schema["properties"]["url"]["pattern"].as_str().unwrap();
    assert!(url.starts_with("^https?://"), "{url}");
    let secret = &schema["properties"]["secrets"]["items"]["pattern"];
    assert!(secret.as_str().unwrap().starts_with("^whsec_"), "{secret}");
    // An address that the settings do not allow fits the pattern, so it is no wrong form.
    let body = json!({"url": "https://10.0.0.1/"});
    let problem = send(&world, Method::PUT, WEBHOOK, &body).await.is(403);
    assert_eq!(problem["kind"], "forbidden");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_event_is_gone_and_its_explanation_stays_elsewhere() {
    let world = World::start(Place::Embedded).await;
    let event = super::push(&world, json!({"payload": 1, "delay_ms": 60_000})).await;
    let path = format!("/v1/ns/queues/q/events/{}", super::of(&event, "id"));
    world.delete(&path).await.is(204);
    for part in ["", "/explanation", "/reply"] {
        let reply = world.get(&format!("{path}{part}")).await;
        assert!(reply.status.is_client_error(), "{reply:?}");
    }
    let explanation = path.replace("events", "explanations");
    assert_eq!(world.get(&explanation).await.is(200)["state"], "cancelled");
}
