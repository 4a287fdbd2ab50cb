//! Deliveries: on time, signed, retried by policy, and what a response means.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::receiver::{Answer, Receiver, now_ms};
use super::{LOCAL, push, push_one, set_to, view, wait_for_empty};
use crate::world::{Place, World, until};

/// A secret of some bytes.
fn secret(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 32]))
}

async fn start(place: Place) -> (World, Receiver) {
    let world = World::start_with(place, LOCAL).await;
    (world, Receiver::start().await)
}

async fn an_event_is_delivered_on_time_and_signed(place: Place) {
    let (world, receiver) = start(place).await;
    let set = set_to(&world, &receiver, json!({"headers": {"x-shop": "a"}})).await;
    let secret = set["created_secret"].as_str().expect("a secret").to_owned();
    let due_ms = now_ms() + 400;
    let events = json!([
        {"payload": {"order": 7}, "due_ms": due_ms, "headers": {"traceparent":
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
        {"payload_base64": "/wA=", "due_ms": due_ms},
        {"payload_base64": "PGEvPg==", "headers": {"Content-Type": "text/xml"}},
    ]);
    let ids = push(&world, events).await;
    let received = receiver.wait_for(3).await;
    let of = |id: &str| received.iter().find(|request| request.id() == id).unwrap();
    let (json, raw, xml) = (of(&ids[0]), of(&ids[1]), of(&ids[2]));
    assert_eq!(json.body, r#"{"order":7}"#);
    assert_eq!(json.header("content-type"), "application/json");
    assert_eq!(json.header("duly-queue"), "q");
    assert_eq!(json.header("duly-namespace"), "ns");
    assert_eq!(json.header("duly-due-ms"), due_ms.to_string());
    assert_eq!(json.header("x-shop"), "a");
    assert!(json.header("traceparent").contains("0af7651916cd43dd"));
    assert!(json.header("user-agent").starts_with("duly/"));
    assert_eq!(raw.body, &[0xff, 0][..]);
    assert_eq!(raw.header("content-type"), "application/octet-stream");
    assert_eq!(xml.header("content-type"), "text/xml");
    for request in &received {
        assert!(request.is_signed_by(&secret), "{request:?}");
        assert_eq!(request.attempt(), 1);
        let sent_ms = request.header("webhook-timestamp").parse::<u64>().unwrap() * 1_000;
        assert!(sent_ms <= request.at_ms, "signed when it was sent");
    }
    assert!(json.at_ms >= due_ms && raw.at_ms >= due_ms, "never early");
    wait_for_empty(&world).await;
    assert_eq!(receiver.received().len(), 3, "each once");
    assert_eq!(view(&world).await["state"], "closed");
}

crate::webhooks::on_both! { an_event_is_delivered_on_time_and_signed }

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_secrets_are_rotated() {
    let (world, receiver) = start(Place::Embedded).await;
    let (old, new) = (secret(1), secret(2));
    for (secrets, signed_by, not_by) in [
        (json!([old]), vec![&old], Some(&new)),
        (json!([new, old]), vec![&old, &new], None),
        (json!([new]), vec![&new], Some(&old)),
    ] {
        set_to(&world, &receiver, json!({"secrets": secrets})).await;
        let id = push_one(&world).await;
        until("it has come", async || {
            receiver.received().iter().any(|request| request.id() == id)
        })
        .await;
        let received = receiver.received().pop().unwrap();
        assert!(signed_by.iter().all(|secret| received.is_signed_by(secret)));
        assert!(not_by.is_none_or(|secret| !received.is_signed_by(secret)));
    }
    let kept = set_to(&world, &receiver, json!({"concurrency": 2})).await;
    assert!(kept["created_secret"].is_null(), "it has one already");
    push_one(&world).await;
    assert!(receiver.wait_for(4).await[3].is_signed_by(&new));
}

async fn a_failed_webhook_is_retried_and_becomes_a_dead_letter(place: Place) {
    let (world, receiver) = start(place).await;
    set_to(&world, &receiver, json!({})).await;
    let text = format!("no such order{}", "!".repeat(10_000));
    receiver.always(Answer::Full(500, Vec::new(), text));
    let id = push(&world, json!([{"payload": 1, "attempts": 2}]))
        .await
        .remove(0);
    world.wait_for_dead("q", 1).await;
    let received = receiver.received();
    let attempts: Vec<_> = received.iter().map(|request| request.attempt()).collect();
    assert_eq!(attempts, [1, 2]);
    assert!(received.iter().all(|request| request.id() == id), "one id");
    let pause = received[1].at - received[0].at;
    assert!(
        pause.as_millis() >= 900,
        "the backoff of the queue: {pause:?}"
    );
    let dead = world.get("/v1/ns/queues/q/dead-letters").await.is(200);
    let error = dead["items"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("HTTP 500: no such order"), "{error}");
    assert!(error.len() < 600, "the begin of the response only");
    let view = view(&world).await;
    assert_eq!(view["failures"], 2);
    assert!(view["last_error"]["at_ms"].as_u64().is_some());
}

crate::webhooks::on_both! { a_failed_webhook_is_retried_and_becomes_a_dead_letter }

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_of_a_webhook_overrides_the_policy() {
    let (world, receiver) = start(Place::Embedded).await;
    set_to(&world, &receiver, json!({})).await;
    let after = |value: String| Answer::Full(503, vec![("retry-after", value)], String::new());
    // The policy would wait for 1, 2, 4 and 8 seconds.
    receiver.next((0..4).map(|_| after("0".to_owned())));
    push_one(&world).await;
    let received = receiver.wait_for(5).await;
    let pause = received[4].at - received[0].at;
    assert!(pause.as_secs() < 12, "at once: {pause:?}");
    wait_for_empty(&world).await;

    for (value, delay_s) in [("3600", 3_600), ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400)] {
        let before = receiver.received().len();
        receiver.next([after(value.to_owned())]);
        let id = push_one(&world).await;
        receiver.wait_for(before + 1).await;
        let path = format!("/v1/ns/queues/q/events/{id}");
        until("it waits", async || {
            world.get(&path).await.is(200)["state"] == "scheduled"
        })
        .await;
        let explained = world
            .get(&path.replace("events", "explanations"))
            .await
            .is(200);
        let due_ms = explained["due_ms"].as_u64().unwrap();
        let delay_ms = due_ms - receiver.received()[before].at_ms;
        // An hour, or a day at most; the settlement takes a while.
        assert!(
            (delay_s * 1_000..=delay_s * 1_000 + 60_000).contains(&delay_ms),
            "{delay_ms}"
        );
        world.delete(&path).await.is(204);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_of_a_webhook_is_a_failure() {
    let (world, receiver) = start(Place::Embedded).await;
    let other = Receiver::start().await;
    set_to(&world, &receiver, json!({})).await;
    receiver.always(Answer::Full(
        307,
        vec![("location", other.url())],
        String::new(),
    ));
    push(&world, json!([{"payload": 1, "attempts": 1}])).await;
    world.wait_for_dead("q", 1).await;
    let dead = world.get("/v1/ns/queues/q/dead-letters").await.is(200);
    let error = dead["items"][0]["error"].as_str().unwrap();
    assert!(error.contains("redirects (HTTP 307)"), "{error}");
    assert!(error.contains("final url"), "{error}");
    assert!(other.received().is_empty(), "it is not followed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_without_a_response_times_out() {
    let (world, receiver) = start(Place::Embedded).await;
    set_to(&world, &receiver, json!({"timeout_ms": 200})).await;
    receiver.always(Answer::Held(200));
    push(&world, json!([{"payload": 1, "attempts": 1}])).await;
    world.wait_for_dead("q", 1).await;
    let dead = world.get("/v1/ns/queues/q/dead-letters").await.is(200);
    let error = dead["items"][0]["error"].as_str().unwrap();
    assert_eq!(error, "no response within 200ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_webhook_lasts_as_long_as_its_request() {
    let settings = format!("{LOCAL}ttr_ms = 300");
    let world = World::start_with(Place::Embedded, &settings).await;
    let receiver = Receiver::start().await;
    set_to(&world, &receiver, json!({})).await;
    receiver.next([Answer::Held(200)]);
    push_one(&world).await;
    receiver.wait_for(1).await;
    // Many times the lease: a lost one would be delivered again, as there is room.
    let began = tokio::time::Instant::now();
    until("it is leased for many times the lease", async || {
        let stats = world.get("/v1/ns/queues/q").await.is(200);
        assert_eq!((&stats["leased"], &stats["ready"]), (&json!(1), &json!(0)));
        began.elapsed().as_millis() >= 2_000
    })
    .await;
    receiver.release(1);
    wait_for_empty(&world).await;
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_bodies_of_webhooks_are_bounded() {
    let (world, receiver) = start(Place::Embedded).await;
    set_to(&world, &receiver, json!({})).await;
    receiver.next([Answer::Endless(200), Answer::Endless(500)]);
    push(
        &world,
        json!([{"payload": 1, "attempts": 1}, {"payload": 2, "attempts": 1}]),
    )
    .await;
    world.wait_for_dead("q", 1).await;
    wait_for_empty(&world).await;
    let dead = world.get("/v1/ns/queues/q/dead-letters").await.is(200);
    let error = dead["items"][0]["error"].as_str().unwrap();
    assert_eq!(error, format!("HTTP 500: {}", "x".repeat(512)));
}
