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

/// Returns the schema that a reference leads to, or it itself.
fn resolved<'a>(description: &'a Value, schema: &'a Value) -> &'a Value {
    let parts = schema["allOf"].as_array().or(schema["oneOf"].as_array());
    let inner = parts.and_then(|parts| parts.iter().find(|it| it["$ref"].is_string()));
    match inner.unwrap_or(schema)["$ref"].as_str() {
        Some(reference) => description.pointer(&reference[1..]).unwrap(),
        None => schema,
    }
}

/// Returns a body for each whole number that a schema describes, with `number` in its place and
/// nothing else, and the number's name.
fn bodies(description: &Value, schema: &Value, number: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let schema = resolved(description, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let kind = &property["type"];
        let kinds = kind
            .as_array()
            .map_or(std::slice::from_ref(kind), Vec::as_slice);
        if kinds.contains(&json!("integer")) {
            found.push((name.clone(), json!({name: number})));
        }
        for (inner, body) in bodies(description, &property["items"], number) {
            found.push((format!("{name}.{inner}"), json!({name: [body]})));
        }
        let resolved = resolved(description, property);
        if !std::ptr::eq(resolved, property) {
            for (inner, body) in bodies(description, resolved, number) {
                found.push((format!("{name}.{inner}"), json!({name: body})));
            }
        }
    }
    found
}

/// JSON writes a whole number with or without a fraction of zero, and some languages always write it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_numbers_of_every_body_may_have_a_fraction_of_zero() {
    let world = World::start(Place::Embedded).await;
    let description = world.get("/v1/openapi.json").await.is(200);
    let mut seen = Vec::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let id = "01KBKSY8Q3X4H1W9V0T5RZ7M2C";
            let path = path.replace("{namespace}", "ns").replace("{queue}", "q");
            let path = path.replace("{id}", id).replace("{schedule}", "s");
            let path = path.replace("{token}", &format!("{id}-9f-2a-1-64a0b1c2d3e4f-ns.q"));
            let method: Method = method.to_uppercase().parse().unwrap();
            let whole = bodies(&description, schema, &json!(7.0)).into_iter();
            for ((name, whole), (_, part)) in whole.zip(bodies(&description, schema, &json!(7.5))) {
                let case = format!("{method} {path} {name}");
                let part = send(&world, method.clone(), &path, &part).await;
                let whole = send(&world, method.clone(), &path, &whole).await;
                assert!(!whole.text.contains("floating point"), "{case}: {whole:?}");
                assert!(!whole.text.contains("no whole number"), "{case}: {whole:?}");
                assert!(
                    part.text.contains("7.5 is no whole number"),
                    "{case}: {part:?}"
                );
                seen.push(case);
            }
        }
    }
    assert!(seen.len() > 20, "{seen:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_is_refused_by_a_problem() {
    let world = World::start(Place::Embedded).await;
    let request = world.request(Method::GET, "/v1/ns/queues");
    let refused = crate::world::reply(request.header("Origin", "http://evil.example")).await;
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    assert_eq!(refused.is(403)["kind"], "forbidden");
}

/// What has another form than the description says is refused, though it would mean something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_another_form_and_an_outcome_that_is_no_end_are_refused() {
    let world = World::start(Place::Embedded).await;
    for (path, body, word) in [
        (
            "/v1/ns/events/change",
            json!({"action": "cancel", "queue": "eu.close"}),
            "a queue has 1 to",
        ),
        (
            "/v1/ns/events/erase",
            json!({"key": "customer:8", "queue": "eu.close"}),
            "a queue has 1 to",
        ),
        (
            "/v1/ns/queues/q/records/replay",
            json!({"name": "x", "outcome": "buried"}),
            "outcome is buried",
        ),
    ] {
        let refused = send(&world, Method::POST, path, &body).await.is(400);
        let detail = super::of(&refused, "detail");
        assert!(detail.contains(word), "{detail}");
    }
    let audit = world.get("/v1/ns/audit").await.is(200);
    assert_eq!(audit["items"], json!([]), "nothing was done");
}
