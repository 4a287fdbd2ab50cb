//! Calls: an event, and the reply of its consumer.

use std::sync::OnceLock;
use std::time::Duration;

use duly::Queue;
use duly::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use super::{lease, push, send, settle};
use crate::world::{Place, World, on_every_store};

on_every_store! {
    a_consumer_replies_to_a_call
    a_call_that_fails_says_why
    a_lost_lease_does_not_reply
}

const CALLS: &str = "/v1/ns/queues/q/calls";

fn call(payload: u64) -> Value {
    json!({"event": {"payload": payload}, "wait_ms": 20_000})
}

async fn a_consumer_replies_to_a_call(world: World) {
    let consumer = async {
        let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
        let done = json!({"outcome": "ack", "reply": {"closed": 7}});
        settle(&world, &leased[0], done).await.is(204);
        leased[0]["id"].clone()
    };
    let call = call(7);
    let (reply, id) = tokio::join!(send(&world, Method::POST, CALLS, &call), consumer);
    let reply = reply.is(200);
    assert_eq!(
        (&reply["id"], &reply["reply"]),
        (&id, &json!({"closed": 7}))
    );
    let path = format!("/v1/ns/queues/q/events/{}/reply", super::of(&reply, "id"));
    assert_eq!(
        world.get(&path).await.is(200),
        reply,
        "it can be fetched again"
    );
}

async fn a_call_that_fails_says_why(world: World) {
    let consumer = async {
        let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
        let bury = json!({"outcome": "bury", "reason": "no such order"});
        settle(&world, &leased[0], bury).await.is(204);
    };
    let call = call(7);
    let (reply, ()) = tokio::join!(send(&world, Method::POST, CALLS, &call), consumer);
    let problem = reply.is(409);
    let detail = super::of(&problem, "detail");
    assert!(detail.contains("no such order"), "{detail}");
    let late = json!({"event": {"payload": 1}, "wait_ms": 20});
    let late = send(&world, Method::POST, CALLS, &late).await;
    assert!(late.is(202)["id"].is_string());
}

async fn a_lost_lease_does_not_reply(world: World) {
    let pushed = push(&world, json!({"payload": 1, "attempts": 5})).await;
    let first = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    settle(&world, &first[0], json!({"outcome": "release"}))
        .await
        .is(204);
    let second = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    let reply = |text: &str| json!({"outcome": "ack", "reply": text});
    settle(&world, &first[0], reply("late")).await.is(409);
    settle(&world, &second[0], reply("mine")).await.is(204);
    let path = format!("/v1/ns/queues/q/events/{}/reply", super::of(&pushed, "id"));
    assert_eq!(world.get(&path).await.is(200)["reply"], "mine");
}

/// Where the handler in Rust pushes its replies.
static REPLIES: OnceLock<Queue<Value>> = OnceLock::new();

#[delay_event(queue = "ns.q")]
async fn add_one(event: Event<u64>) -> Result<(), Failure> {
    let replies = REPLIES.get().expect("a queue");
    let name = replies.id_for_name(&event.id().to_string());
    let reply = replies.event(json!(event.payload + 1)).id(name);
    let kept = Duration::from_secs(300);
    reply.after(kept).expires_after(kept).send().await?;
    Ok(())
}

/// A handler in Rust, in another process that shares the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_in_rust_replies_to_a_call() {
    let world = World::start(Place::Redis).await;
    let bus = Bus::builder().store_url(world.url()).start().await.unwrap();

    let replies = bus.queue_named("ns.duly.replies").unwrap();
    REPLIES.set(replies).unwrap();
    let reply = send(&world, Method::POST, CALLS, &call(7)).await;
    assert_eq!(reply.is(200)["reply"], 8);
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}
