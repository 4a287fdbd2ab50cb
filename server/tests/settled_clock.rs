//! The clock of a test server that waits, at each stop, for consumers with a stream.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::test_clock::{MINUTE_MS, QUEUE, advance, post, push};
use crate::world::{World, reply};

/// How long a clock may wait at one stop: longer than any of these tests.
const SETTLE_MS: u64 = 600_000;
/// How long a test waits for a clock that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(60);

async fn stream(world: &World, queue: &str) -> Response {
    let path = format!("/v1/ns/queues/{queue}/leases/stream?max_in_flight=1&ttr_ms=30000");
    let stream = world.request(Method::GET, &path);
    stream.send().await.expect("a response")
}

/// Acks so many events of a stream; returns the times of the clock at which they came.
async fn consume(world: &World, response: &mut Response, many: usize) -> Vec<u64> {
    let (mut text, mut times) = (String::new(), Vec::new());
    while times.len() < many {
        let part = response.chunk().await.expect("bytes").expect("a part");
        text += std::str::from_utf8(&part).expect("text");
        while let Some((message, rest)) = text.split_once("\n\n") {
            let data = message
                .split_once("data: ")
                .map(|(_, data)| data.to_owned());
            text = rest.to_owned();
            let Some(data) = data else { continue };
            let event: Value = serde_json::from_str(&data).expect("JSON");
            let clock = world.admin(Method::GET, "/clock").await.is(200);
            times.push(clock["now_ms"].as_u64().expect("a time"));
            let path = format!("/v1/ns/leases/{}/settle", event["token"].as_str().unwrap());
            post(world, &path, json!({"outcome": "ack"})).await;
        }
    }
    times
}

async fn set(world: &World, setting: Value) {
    let request = world.request(Method::PATCH, QUEUE);
    let request = request.header("Content-Type", "application/json");
    let set = reply(request.body(setting.to_string())).await;
    assert!(set.status.is_success(), "{set:?}");
}

async fn advance_by(world: &World, by_ms: u64) -> u64 {
    let moved = advance(world, json!({"by_ms": by_ms, "settle_ms": SETTLE_MS}));
    let moved = tokio::time::timeout(PATIENCE, moved).await;
    moved.expect("it waits for no event that cannot be leased")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_given_what_is_due_on_the_way_and_the_clock_waits_for_it_if_told() {
    let world = World::start_manual().await;
    let mut response = stream(&world, "q").await;
    for minute in 1..=5 {
        let delay_ms = minute * MINUTE_MS;
        push(&world, json!({"payload": minute, "delay_ms": delay_ms})).await;
    }
    let consumed = consume(&world, &mut response, 5);
    let (times, end) = tokio::join!(consumed, advance_by(&world, 60 * MINUTE_MS));
    let begin = end - 60 * MINUTE_MS;
    let expected: Vec<u64> = (1..=5).map(|minute| begin + minute * MINUTE_MS).collect();
    assert_eq!(times, expected, "each was handled at its time");
}

/// Of another queue it does, and of this one once it is paused no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_waits_for_no_event_of_a_paused_queue() {
    let world = World::start_manual().await;
    let mut paused = stream(&world, "q").await;
    let mut other = stream(&world, "other").await;
    set(&world, json!({"paused": true})).await;
    push(&world, json!({"payload": 1})).await;
    push(&world, json!({"payload": 2, "delay_ms": 90 * MINUTE_MS})).await;
    let schedule = json!({"queue": "other", "when": "0 * * * *", "payload": 1, "missed": "all(3)",
        "overlap": "allow"});
    let request = world.request(Method::PUT, "/v1/ns/schedules/hourly");
    let request = request.header("Content-Type", "application/json");
    reply(request.body(schedule.to_string())).await.is(201);
    let consumed = consume(&world, &mut other, 24);
    let (times, end) = tokio::join!(consumed, advance_by(&world, 24 * 60 * MINUTE_MS));
    assert!(times.iter().all(|at| *at <= end), "{times:?}");
    set(&world, json!({"paused": false})).await;
    let consumed = consume(&world, &mut paused, 2);
    let (times, now) = tokio::join!(consumed, advance_by(&world, MINUTE_MS));
    assert_eq!((times, now), (vec![end; 2], end + MINUTE_MS));
}

/// Ten events are due at once; of those that may not start yet the clock has to bring the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_waits_for_no_event_that_the_rate_holds_back() {
    for (rate, every_ms) in [(1.0, 1_000), (0.1, 10_000), (50.0, 20)] {
        let world = World::start_manual().await;
        let mut response = stream(&world, "q").await;
        set(&world, json!({"rate": rate})).await;
        for number in 0..10 {
            push(&world, json!({"payload": number})).await;
        }
        let consumed = consume(&world, &mut response, 10);
        let (times, end) = tokio::join!(consumed, advance_by(&world, 10 * every_ms));
        let begin = end - 10 * every_ms;
        for (number, at) in (0..).zip(&times) {
            // A rate may begin with a burst.
            let early = u64::saturating_sub(number, 1) * every_ms * 9 / 10;
            let late = (number + 1) * every_ms;
            let span = at - begin;
            assert!(early <= span && span <= late, "{rate}: {times:?}");
        }
    }
}
