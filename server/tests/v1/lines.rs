//! Events as lines, and leases as server-sent events.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{lease, push, settle};
use crate::world::{LeaseStream, World, on_every_store, reply, until};

on_every_store! {
    lines_are_pushed_in_order_and_a_broken_one_is_named
    a_stream_has_only_so_many_in_flight
    a_consumer_that_stops_is_sent_nothing_more
    what_a_stream_did_not_settle_comes_back
}

async fn lines_are_pushed_in_order_and_a_broken_one_is_named(world: World) {
    let long = format!("{{\"payload\":\"{}\"}}", "x".repeat(2 << 20));
    let body = [
        r#"{"payload":1,"id":"01KBKSY8Q3X4H1W9V0T5RZ7M2C","delay":1}"#,
        "{\"payload\":1",
        r#"{"payload":1,"idempotency_key":"a","delay_ms":60000}"#,
        "",
        r#"{"payload":1,"idempotency_key":"a","delay_ms":60000}"#,
        r#"{"payload":2,"idempotency_key":"a","delay_ms":60000}"#,
        &long,
        r#"{"payload":3}"#,
    ]
    .join("\n");
    let request = world.request(Method::POST, "/v1/ns/queues/q/events");
    let request = request.header("Content-Type", "application/x-ndjson");
    let pushed = reply(request.body(body)).await;
    assert_eq!(pushed.status, 200);
    assert_eq!(pushed.headers["content-type"], "application/x-ndjson");
    let lines = pushed
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines.len(), 7, "{lines:?}");
    assert_eq!(
        (&lines[0]["line"], &lines[0]["problem"]["status"]),
        (&json!(1), &json!(422))
    );
    let detail = super::of(&lines[0]["problem"], "detail");
    assert!(detail.contains("unknown field `delay`"), "{detail}");
    assert_eq!(lines[1]["problem"]["status"], 400);
    // Two lines of one id are pushed at the same time: one of them is the duplicate.
    let duplicates = [&lines[2], &lines[3]].map(|line| line["duplicate"] == true);
    assert_eq!(duplicates.iter().filter(|it| **it).count(), 1, "{lines:?}");
    assert_eq!(lines[2]["id"], lines[3]["id"]);
    assert_eq!(lines[5]["problem"]["status"], 413);
    let numbers: Vec<&Value> = lines.iter().map(|line| &line["line"]).collect();
    let null = &Value::Null;
    let problems = [&json!(1), &json!(2), null, null, &json!(6), &json!(7), null];
    assert_eq!(numbers, problems, "blank lines count");
    assert_eq!(lines[6]["duplicate"], false);
}

async fn open(world: &World, options: &str) -> LeaseStream {
    let path = format!("/v1/ns/queues/q/leases/stream?{options}");
    LeaseStream::open(world.request(Method::GET, &path)).await
}

async fn a_stream_has_only_so_many_in_flight(world: World) {
    for number in 0..3 {
        push(&world, json!({"payload": number, "attempts": 2})).await;
    }
    let mut stream = open(&world, "max_in_flight=2&ttr_ms=60000").await;
    let long = Duration::from_secs(20);
    let first = stream.next(long).await.unwrap();
    let second = stream.next(long).await.unwrap();
    assert_eq!(stream.next(Duration::from_millis(300)).await, None);
    settle(&world, &first, json!({"outcome": "ack"}))
        .await
        .is(204);
    let third = stream.next(long).await.unwrap();
    for leased in [second, third] {
        settle(&world, &leased, json!({"outcome": "ack"}))
            .await
            .is(204);
    }
    push(&world, json!({"payload": 4})).await;
    assert_eq!(stream.next(long).await.unwrap()["attempt"], 1);
}

async fn a_consumer_that_stops_is_sent_nothing_more(world: World) {
    for number in 0..3 {
        push(&world, json!({"payload": number, "attempts": 5})).await;
    }
    // It has room for more all the time, also for what is released.
    let mut stream = open(&world, "max_in_flight=9&ttr_ms=60000&name=w-1").await;
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(stream.next(Duration::from_secs(20)).await.unwrap());
    }
    let drain = "/v1/ns/queues/q/leases/stream/drain?name=";
    for (name, status) in [("w-2", 404), ("", 400), ("w.1", 400), ("w-1", 204)] {
        let path = format!("{drain}{name}");
        let drained = super::send(&world, Method::POST, &path, &Value::Null).await;
        assert_eq!(drained.status.as_u16(), status, "{name}");
    }
    push(&world, json!({"payload": 3})).await;
    for (leased, outcome) in sent.iter().zip(["release", "ack", "ack"]) {
        settle(&world, leased, json!({"outcome": outcome}))
            .await
            .is(204);
    }
    let rest = stream.rest().await;
    assert!(!rest.contains("event:"), "{rest}");
    let left = lease(&world, json!({"ttr_ms": 30_000, "max": 10})).await;
    let attempts: Vec<&Value> = left.iter().map(|it| &it["attempt"]).collect();
    assert_eq!(attempts, [&json!(1); 2], "no attempt counts");
    let gone = format!("{drain}w-1");
    let again = super::send(&world, Method::POST, &gone, &Value::Null).await;
    again.is(404);
}

async fn what_a_stream_did_not_settle_comes_back(world: World) {
    for number in 0..4 {
        push(&world, json!({"payload": number, "attempts": 5})).await;
    }
    let mut stream = open(&world, "max_in_flight=4&ttr_ms=3600000&name=w").await;
    let mut sent = Vec::new();
    for _ in 0..4 {
        sent.push(stream.next(Duration::from_secs(20)).await.unwrap());
    }
    assert_eq!(sent[3]["attempt"], 1);
    let extend = async |leased: &Value| {
        let path = format!("/v1/ns/leases/{}/extend", super::of(leased, "token"));
        let more = json!({"ttr_ms": 3_600_000});
        super::send(&world, Method::POST, &path, &more).await
    };
    // It is cut, which the consumer sees before the server does, and goes on with three of them.
    extend(&sent[0]).await.is(204);
    drop(stream);
    let drain = "/v1/ns/queues/q/leases/stream/drain?name=w";
    until("the server sees that it was cut", async || {
        let drained = super::send(&world, Method::POST, drain, &Value::Null).await;
        drained.status == 404
    })
    .await;
    let acked = settle(&world, &sent[1], json!({"outcome": "ack"}));
    let (acked, extended) = tokio::join!(acked, extend(&sent[2]));
    acked.is(204);
    extended.is(204);
    let again = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 20_000})).await;
    assert_eq!(
        (&again[0]["id"], &again[0]["attempt"]),
        (&sent[3]["id"], &json!(2))
    );
    until("the old lease is lost", async || {
        settle(&world, &sent[3], json!({"outcome": "ack"}))
            .await
            .status
            == 409
    })
    .await;
    let others = lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 300})).await;
    assert_eq!(others.len(), 0, "what was extended is its consumer's");
    for leased in [&sent[0], &sent[2]] {
        settle(&world, leased, json!({"outcome": "ack"}))
            .await
            .is(204);
    }
}
