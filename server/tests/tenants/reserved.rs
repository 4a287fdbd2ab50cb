//! The queues that duly keeps for itself are nobody's, whatever a namespace is called.

use duly::Bus;
use duly::schedule::ScheduleOptions;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, on_every_store, reply};

on_every_store! {
    no_token_reaches_a_queue_of_duly_itself
}

/// Returns a request of every endpoint that names a queue or lists what a namespace has.
fn requests() -> Vec<(Method, String, Value)> {
    let mut requests = Vec::new();
    let mut add = |method: Method, path: String, body: Value| requests.push((method, path, body));
    let hook = json!({"url": "https://example.com/"});
    for queue in ["schedules", "replies"] {
        let api = format!("/api/duly/{queue}");
        for end in ["", "/peek", "/size", "/deadletter", "/deadletter/size"] {
            add(Method::GET, format!("{api}{end}"), json!(null));
        }
        add(Method::PUT, api.clone(), json!("x"));
        add(Method::PUT, format!("{api}/bulk"), json!(["x"]));
        add(Method::DELETE, api, json!(null));
        let queue = format!("/v1/duly/queues/{queue}");
        let event = json!({"events": [{"payload": 1}]});
        add(Method::POST, format!("{queue}/events"), event);
        add(
            Method::POST,
            format!("{queue}/leases"),
            json!({"ttr_ms": 60_000}),
        );
        add(Method::POST, format!("{queue}/purge"), json!({}));
        add(Method::PUT, format!("{queue}/webhook"), hook.clone());
        add(Method::PATCH, queue.clone(), json!({"paused": true}));
        for end in ["", "/records", "/dead-letters"] {
            add(Method::GET, format!("{queue}{end}"), json!(null));
        }
    }
    for end in ["queues", "overview", "schedules", "webhooks"] {
        add(Method::GET, format!("/v1/duly/{end}"), json!(null));
    }
    requests
}

async fn no_token_reaches_a_queue_of_duly_itself(world: World) {
    let created = world.admin(Method::POST, "/token/duly?description=x").await;
    let said = created.text.clone();
    // As if it had been made by an earlier version.
    let token = match created.status.as_u16() {
        201 => created.json()["token"].as_str().unwrap().to_owned(),
        _ => world.token.clone(),
    };
    let bus = if world.url().starts_with("sqlite:") {
        None // one process has the file
    } else {
        let bus = Bus::builder().store_url(world.url()).only_registered();
        Some(bus.publish_only().start().await.unwrap())
    };
    if let Some(bus) = &bus {
        let options = ScheduleOptions::new("ns.secret", "every 1h").unwrap();
        bus.schedules().set("ns.quetzal", options).await.unwrap();
    }
    let mut wrong = Vec::new();
    for (method, path, body) in requests() {
        let request = world.client.request(method.clone(), world.api_url(&path));
        let request = request.header("X-Token", &token);
        let request = request.header("Content-Type", "application/json");
        let reply = reply(request.body(body.to_string())).await;
        let is_refused = reply.status == 403 && reply.text.contains("`duly`");
        if !is_refused || reply.text.contains("quetzal") {
            wrong.push(format!("{method} {path}: {reply:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        said.contains("the namespace `duly` is duly's own"),
        "{said}"
    );
    if let Some(bus) = bus {
        let kept = bus.schedules().get("ns.quetzal").await.unwrap();
        assert!(kept.is_some());
        bus.shutdown(std::time::Duration::from_secs(5))
            .await
            .unwrap();
    }
}
