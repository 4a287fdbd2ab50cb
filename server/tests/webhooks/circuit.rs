//! The circuit of a target, and one that says that it is gone.

use serde_json::json;

use super::receiver::{Answer, Receiver};
use super::{LOCAL, push, push_one, set_to, view, wait_for_empty, wait_for_state};
use crate::world::{Place, World, until};

/// Waits until so many events of the queue `q` wait, and none is leased.
async fn wait_for_waiting(world: &World, many: u64) {
    until("events wait", async || {
        let stats = world.get("/v1/ns/queues/q").await.is(200);
        let [ready, scheduled, leased] =
            ["ready", "scheduled", "leased"].map(|state| stats[state].as_u64().unwrap());
        ready + scheduled == many && leased == 0
    })
    .await;
}

/// Returns an address that nobody listens at.
fn free_address() -> std::net::SocketAddr {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap()
}

async fn a_webhook_circuit_opens_and_closes_without_lost_attempts(place: Place) {
    let settings = format!("{LOCAL}circuit_failures = 3\ncircuit_rest_ms = 20");
    let world = World::start_with(place, &settings).await;
    let address = free_address();
    let body = json!({"url": format!("http://{address}/hook"), "concurrency": 1});
    super::set(&world, body).await.is(201);
    // Each has an attempt left when the circuit opens.
    let event = json!({"payload": 1, "attempts": 2});
    push(&world, json!([event, event, event])).await;
    // Probes of the second attempts: each would be the last one, if it counted.
    until("probes have failed", async || {
        view(&world).await["failures"].as_u64() >= Some(8)
    })
    .await;
    assert_ne!(view(&world).await["state"], "closed");
    assert_eq!(world.dead_size("q").await, 0);
    let receiver = Receiver::start_at(address).await;
    wait_for_empty(&world).await;
    let seen = view(&world).await;
    assert_eq!(
        (&seen["state"], &seen["failures"]),
        (&json!("closed"), &json!(0))
    );
    assert_eq!(world.dead_size("q").await, 0);
    assert_eq!(receiver.received().last().unwrap().attempt(), 2);
}

super::on_both! { a_webhook_circuit_opens_and_closes_without_lost_attempts }

async fn a_webhook_target_that_never_responds_ends_its_events(place: Place) {
    let settings =
        format!("{LOCAL}circuit_failures = 1\ncircuit_rest_ms = 20\ncircuit_free_probes = 2");
    let world = World::start_with(place, &settings).await;
    let body = json!({"url": format!("http://{}/hook", free_address()), "concurrency": 1});
    super::set(&world, body).await.is(201);
    push(&world, json!([{"payload": 1, "attempts": 3}])).await;
    world.wait_for_dead("q", 1).await;
    until("three that count, and two free probes", async || {
        view(&world).await["failures"] == 5
    })
    .await;
    let records = world.get("/v1/ns/queues/q/records").await.is(200);
    let outcomes = records["items"].as_array().unwrap().iter();
    let outcomes: Vec<_> = outcomes.map(|it| it["outcome"].as_str().unwrap()).collect();
    assert_eq!(
        outcomes,
        ["retried", "snoozed", "snoozed", "retried", "buried"]
    );
}

super::on_both! { a_webhook_target_that_never_responds_ends_its_events }

async fn a_webhook_probe_that_has_a_response_counts(place: Place) {
    let settings = format!("{LOCAL}circuit_failures = 1\ncircuit_rest_ms = 20");
    let world = World::start_with(place, &settings).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(503));
    set_to(&world, &receiver, json!({})).await;
    push(&world, json!([{"payload": 1, "attempts": 3}])).await;
    world.wait_for_dead("q", 1).await;
    let attempts: Vec<_> = receiver.received().iter().map(|it| it.attempt()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let seen = view(&world).await;
    assert_ne!(seen["state"], "closed", "{seen}");
    let text = seen["last_error"]["text"].as_str().unwrap();
    assert!(text.starts_with("HTTP 503"), "{text}");
}

super::on_both! { a_webhook_probe_that_has_a_response_counts }

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_webhook_circuit_makes_no_request() {
    let settings = format!("{LOCAL}circuit_failures = 1\ncircuit_rest_ms = 300000");
    let world = World::start_with(Place::Embedded, &settings).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(500));
    set_to(&world, &receiver, json!({"concurrency": 1})).await;
    push_one(&world).await;
    wait_for_state(&world, "open").await;
    let seen = view(&world).await;
    let rest = seen["next_probe_ms"].as_u64().unwrap() - seen["since_ms"].as_u64().unwrap();
    assert!((240_000..=300_000).contains(&rest), "{rest}");
    push(&world, json!([{"payload": 1}, {"payload": 2}])).await;
    wait_for_waiting(&world, 3).await; // two, and the one that failed
    assert_eq!(receiver.received().len(), 1);
    let page = world.admin(reqwest::Method::GET, "/metrics").await.text;
    for line in [
        "duly_webhook_circuits_open{",
        "duly_webhook_seconds_bucket{",
        "outcome=\"status_5xx\"",
    ] {
        assert!(page.contains(line), "no {line} in {page}");
    }
    // Another revision starts anew.
    receiver.always(Answer::Status(200));
    set_to(&world, &receiver, json!({})).await;
    wait_for_empty(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_target_that_nobody_listens_at_comes_back() {
    let settings = format!("{LOCAL}circuit_failures = 1\ncircuit_rest_ms = 20");
    let world = World::start_with(Place::Embedded, &settings).await;
    let address = free_address();
    let body = json!({"url": format!("http://{address}/hook?key=hidden")});
    super::set(&world, body).await.is(201);
    push(&world, json!([{"payload": 1, "attempts": 2}])).await;
    until("the circuit opens", async || {
        view(&world).await["state"] != "closed"
    })
    .await;
    let error = view(&world).await["last_error"]["text"].to_string();
    assert!(error.contains("refused"), "{error}");
    assert!(!error.contains("hidden"), "{error}");
    let receiver = Receiver::start_at(address).await;
    receiver.wait_for(1).await;
    wait_for_empty(&world).await;
    assert_eq!(view(&world).await["state"], "closed");
    assert_eq!(world.dead_size("q").await, 0);
}

async fn a_webhook_target_that_is_gone_is_disabled(place: Place) {
    let world = World::start_with(place, LOCAL).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Full(410, Vec::new(), "moved away".to_owned()));
    set_to(&world, &receiver, json!({"concurrency": 1})).await;
    push(&world, json!([{"payload": 1, "attempts": 1}])).await;
    wait_for_state(&world, "disabled").await;
    let seen = view(&world).await;
    assert_eq!(seen["last_error"]["text"], "HTTP 410: moved away");
    wait_for_waiting(&world, 1).await;
    push(&world, json!([{"payload": 2, "attempts": 1}])).await;
    wait_for_waiting(&world, 2).await;
    assert_eq!(receiver.received().len(), 1, "its events stay in the queue");
    receiver.always(Answer::Status(200));
    let again = set_to(&world, &receiver, json!({})).await;
    assert_eq!(again["state"], "closed");
    wait_for_empty(&world).await;
    let received = receiver.received();
    assert!(received.iter().all(|request| request.attempt() == 1));
    assert_eq!(received.len(), 3);
}

super::on_both! { a_webhook_target_that_is_gone_is_disabled }
