//! Webhooks: queues that are delivered by POST to a receiver of the test.

mod circuit;
mod delivery;
mod limits;
mod processes;
pub(crate) mod receiver;
mod refusals;
mod targets;
mod turns;
mod vault;

use reqwest::Method;
use serde_json::{Value, json};

use self::receiver::Receiver;
use crate::world::{Reply, World, until};

/// Settings with which the receiver of a test may be called.
pub(crate) const LOCAL: &str = "[webhooks]\nallow_http = true\nallow_private = true\n";

/// The path of the webhook of a queue.
fn path(queue: &str) -> String {
    format!("/v1/ns/queues/{queue}/webhook")
}

async fn send(world: &World, method: Method, path: &str, body: &Value) -> Reply {
    let request = world
        .request(method, path)
        .header("Content-Type", "application/json");
    crate::world::reply(request.body(body.to_string())).await
}

/// Sets the webhook of the queue `q`.
async fn set(world: &World, body: Value) -> Reply {
    send(world, Method::PUT, &path("q"), &body).await
}

/// Sets a webhook of the queue `q` that calls a receiver, with more fields.
async fn set_to(world: &World, receiver: &Receiver, more: Value) -> Value {
    let mut body = json!({"url": receiver.url()});
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    let reply = set(world, body).await;
    assert!(reply.status.is_success(), "{reply:?}");
    reply.json()
}

/// Returns the webhook of the queue `q`.
async fn view(world: &World) -> Value {
    world.get(&path("q")).await.is(200)
}

/// Pushes events to the queue `q`; returns their ids.
async fn push(world: &World, events: Value) -> Vec<String> {
    let body = json!({"events": events});
    let pushed = send(world, Method::POST, "/v1/ns/queues/q/events", &body).await;
    let pushed = pushed.is(201);
    let pushed = pushed.as_array().expect("an array").iter();
    let id = |event: &Value| event["id"].as_str().expect("an id").to_owned();
    pushed.map(id).collect()
}

/// Pushes an event of many attempts.
async fn push_one(world: &World) -> String {
    push(world, json!([{"payload": {"order": 7}, "attempts": 100}]))
        .await
        .remove(0)
}

/// Waits until no event of the queue `q` waits or runs.
async fn wait_for_empty(world: &World) {
    until("every event is over", async || {
        let stats = world.get("/v1/ns/queues/q").await.is(200);
        [&stats["scheduled"], &stats["ready"], &stats["leased"]]
            .iter()
            .all(|count| **count == json!(0))
    })
    .await;
}

/// Waits until the webhook of the queue `q` is in a state.
async fn wait_for_state(world: &World, state: &str) {
    until("the webhook has its state", async || {
        view(world).await["state"] == state
    })
    .await;
}

/// Makes a test of each case, on the embedded store and on Redis.
macro_rules! on_both {
    ($($case:ident)*) => {$(
        mod $case {
            use crate::world::Place;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn embedded() {
                super::$case(Place::Embedded).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                super::$case(Place::Redis).await;
            }
        }
    )*};
}

use on_both;
