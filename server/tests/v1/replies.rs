//! Calls: an event, and the reply of its consumer.

use std::time::Duration;

use duly::__server::replies;
use duly::lease::{LeaseOutcome, LeaseStatus, LeaseToken};
use duly::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use super::{lease, push, send, settle};
use crate::servers::Redis;
use crate::test_clock::advance;
use crate::world::{Place, World, on_every_store};

on_every_store! {
    a_consumer_replies_to_a_call
    a_reply_is_kept_as_it_was
    a_call_that_fails_says_why
    a_lost_lease_does_not_reply
    events_of_one_id_in_two_queues_have_a_reply_each
    a_reply_can_be_repeated
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

/// A reply is there for five minutes, and then it is said that it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_is_gone_after_five_minutes() {
    let world = World::start_manual().await;
    let late = json!({"event": {"payload": 1}, "wait_ms": 0});
    let called = send(&world, Method::POST, CALLS, &late).await.is(202);
    let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    let done = json!({"outcome": "ack", "reply": {"closed": 7}});
    settle(&world, &leased[0], done).await.is(204);
    let path = format!("/v1/ns/queues/q/events/{}/reply", super::of(&called, "id"));
    let mut said = Vec::new();
    for advanced_ms in [0, 299_000, 2_000] {
        advance(&world, json!({"by_ms": advanced_ms})).await;
        said.push(world.get(&path).await);
    }
    for reply in &said[..2] {
        let reply = reply.json();
        assert_eq!(reply["reply"], json!({"closed": 7}), "{reply}");
    }
    let gone = said[2].is(410);
    assert_eq!(gone["kind"], "gone", "{gone}");
    let detail = super::of(&gone, "detail");
    assert!(detail.contains("replies are kept for 300 s"), "{detail}");
}

async fn a_reply_is_kept_as_it_was(world: World) {
    let replies = [
        r#"{"b":1,"a":123456789012345678901234567890,"a":1e400,"f":0.10}"#,
        r#"[-0, 18446744073709551616, "\u00e9", {"z" : {}}]"#,
        "1.000000000000000000000000001",
        "null",
    ];
    for reply in replies {
        let consumer = async {
            let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
            let path = format!("/v1/ns/leases/{}/settle", super::of(&leased[0], "token"));
            let body = format!(r#"{{"outcome":"ack","reply":{reply}}}"#);
            let request = world.request(Method::POST, &path).body(body);
            let request = request.header("Content-Type", "application/json");
            crate::world::reply(request).await.is(204);
        };
        let call = call(7);
        let (found, ()) = tokio::join!(send(&world, Method::POST, CALLS, &call), consumer);
        let (_, end) = found.text.split_once("\"reply\":").unwrap();
        assert_eq!(end, format!("{reply}}}"), "{found:?}");
    }
    let wrong = [
        json!({"outcome": "ack", "delay_ms": 5}),
        json!({"outcome": "snooze"}),
        json!({"outcome": "bury", "reply": 1}),
        json!({"outcome": "release", "reason": "x"}),
        json!({"outcome": "none"}),
        json!({"reply": 1}),
    ];
    push(&world, json!({"payload": 1})).await;
    let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    for wrong in wrong {
        let refused = settle(&world, &leased[0], wrong.clone()).await;
        assert_eq!(refused.status, 422, "{wrong}: {refused:?}");
    }
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

/// Its holder has stored a reply, and was gone before it could settle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_counts_by_the_end_of_its_lease_alone() {
    let world = World::start(Place::Redis).await;
    let bus = Bus::builder().store_url(world.url()).only_registered();
    let bus = bus.publish_only().start().await.unwrap();
    let lose_a_reply = async || {
        let called = json!({"event": {"payload": 7}, "wait_ms": 0});
        let called = send(&world, Method::POST, CALLS, &called).await.is(202);
        for lost in ["lost", "lost again"] {
            let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
            let token: LeaseToken = super::of(&leased[0], "token").parse().unwrap();
            let reply = json!(lost).to_string();
            replies::store(&bus, &token, reply.as_bytes())
                .await
                .unwrap();
            let released = bus.settle_lease(&token, LeaseOutcome::Release).await;
            assert_eq!(released.unwrap(), LeaseStatus::Held);
        }
        format!("/v1/ns/queues/q/events/{}/reply", super::of(&called, "id"))
    };
    for reply in [Some("mine"), None] {
        let path = lose_a_reply().await;
        let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
        let mut done = json!({"outcome": "ack"});
        if let Some(reply) = reply {
            done["reply"] = json!(reply);
        }
        settle(&world, &leased[0], done).await.is(204);
        assert_eq!(world.get(&path).await.is(200)["reply"], json!(reply));
    }
    // Nor has a handler of another process the reply of whoever had its event before.
    let path = lose_a_reply().await;
    let handlers = Bus::builder().store_url(world.url()).start().await.unwrap();
    let waits = format!("{path}?wait_ms=20000");
    assert_eq!(world.get(&waits).await.is(200)["reply"], 8);
    handlers.shutdown(Duration::from_secs(5)).await.unwrap();
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

async fn events_of_one_id_in_two_queues_have_a_reply_each(world: World) {
    let id = "01KBKSY8Q3X4H1W9V0T5RZ7M2C";
    let post = async |path: &str, body: Value| send(&world, Method::POST, path, &body).await;
    for queue in ["price", "stock"] {
        let path = format!("/v1/ns/queues/{queue}");
        let event = json!({"events": [{"payload": 1, "id": id}]});
        post(&format!("{path}/events"), event).await.is(201);
        let wait = json!({"ttr_ms": 30_000, "wait_ms": 10_000});
        let leased = post(&format!("{path}/leases"), wait).await.is(200);
        let done = json!({"outcome": "ack", "reply": queue});
        settle(&world, &leased[0], done).await.is(204);
    }
    for queue in ["price", "stock"] {
        let path = format!("/v1/ns/queues/{queue}/events/{id}/reply");
        assert_eq!(world.get(&path).await.is(200)["reply"], queue);
    }
    // Nor has an event that is nowhere the reply of another.
    world
        .get(&format!("/v1/ns/queues/other/events/{id}/reply"))
        .await
        .is(404);
}

async fn a_reply_can_be_repeated(world: World) {
    let pushed = push(&world, json!({"payload": 1})).await;
    let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
    for reply in ["mine", "mine", "another"] {
        let done = json!({"outcome": "ack", "reply": reply});
        settle(&world, &leased[0], done).await.is(204);
    }
    let path = format!("/v1/ns/queues/q/events/{}/reply", super::of(&pushed, "id"));
    assert_eq!(world.get(&path).await.is(200)["reply"], "mine");
}

#[delay_event(queue = "ns.q")]
async fn add_one(event: Event<u64>, cx: &Context) -> Result<(), Failure> {
    match event.payload {
        14 => cx.reply(&"x".repeat(2 << 20))?,
        number => cx.reply(&(number + 1))?,
    }
    Ok(())
}

/// A handler in Rust, in another process that shares the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_in_rust_replies_to_a_call() {
    let world = World::start(Place::Redis).await;
    let bus = Bus::builder().store_url(world.url()).start().await.unwrap();
    let reply = send(&world, Method::POST, CALLS, &call(7)).await;
    assert_eq!(reply.is(200)["reply"], 8);
    let reply = send(&world, Method::POST, CALLS, &call(14)).await;
    let problem = reply.is(409);
    assert_eq!(problem["kind"], "call_failed");
    let detail = super::of(&problem, "detail");
    assert!(detail.contains("its reply cannot be stored"), "{detail}");
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A caller in Rust, and a consumer over HTTP: two processes and a server between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_over_http_replies_to_a_call_in_rust() {
    let world = World::start(Place::Redis).await;
    let bus = Bus::builder().store_url(world.url()).only_registered();
    let bus = bus.publish_only().start().await.unwrap();
    let queue = bus.queue_named::<u64>("ns.q").unwrap();
    let consumer = async |settlement: Value| {
        let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
        settle(&world, &leased[0], settlement).await.is(204);
    };
    let wait = Duration::from_secs(20);
    let done = json!({"outcome": "ack", "reply": {"closed": 7}});
    let (reply, ()) = tokio::join!(queue.call::<Value>(7, wait), consumer(done));
    assert_eq!(reply.unwrap(), json!({"closed": 7}));
    let (reply, ()) = tokio::join!(
        queue.call::<()>(7, wait),
        consumer(json!({"outcome": "ack"}))
    );
    reply.unwrap();
    let failed = json!({"outcome": "bury", "reason": "no such order"});
    let (reply, ()) = tokio::join!(queue.call::<()>(7, wait), consumer(failed));
    let error = reply.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no such order"), "{error}");
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// The store hangs in one case, and is gone in the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_store_fails_meanwhile_returns_the_id_of_its_event() {
    for hangs in [true, false] {
        let mut redis = Redis::plain();
        let folder = tempfile::tempdir().unwrap();
        let world = World::start_at(folder, redis.url(), "").await;
        let fails = async {
            let leased = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
            if hangs {
                redis.stop_process();
            } else {
                redis.kill();
            }
            leased[0]["id"].clone()
        };
        let call = call(7);
        let (called, id) = tokio::join!(send(&world, Method::POST, CALLS, &call), fails);
        assert_eq!(called.is(202), json!({"id": id}), "hangs: {hangs}");
    }
}
