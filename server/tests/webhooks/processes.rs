//! Webhooks of many servers, and of servers that end.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::receiver::{Answer, Receiver};
use super::{LOCAL, path, push, push_one, send, set_to, view, wait_for_empty, wait_for_state};
use crate::kills::Program;
use crate::world::{Place, World, client, reply, until};

fn events(many: usize) -> Value {
    let event = |number| json!({"payload": number, "attempts": 100});
    (0..many).map(event).collect()
}

fn ids(receiver: &Receiver) -> BTreeSet<String> {
    let received = receiver.received();
    received
        .iter()
        .map(|request| request.id().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_a_webhook() {
    let world = World::start_with(Place::Redis, LOCAL).await;
    let other = world.another_with(LOCAL).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Held(200));
    set_to(&world, &receiver, json!({"concurrency": 1})).await;
    let pushed = push(&world, events(10)).await;
    until("both deliver", async || receiver.in_flight().0 == 2).await;
    receiver.release(10);
    wait_for_empty(&world).await;
    assert_eq!(ids(&receiver), pushed.into_iter().collect());
    assert_eq!(receiver.received().len(), 10, "each once");
    assert_eq!(receiver.in_flight().1, 2);
    assert_eq!(view(&other).await["url"], view(&world).await["url"]);

    // What one of them is told to stop, both stop.
    world.delete(&path("q")).await.is(204);
    other.get(&path("q")).await.is(404);
    // A server that delivers a later webhook has followed the removal, too.
    let later = json!({"url": receiver.url(), "concurrency": 1});
    send(&world, Method::PUT, &path("later"), &later)
        .await
        .is(201);
    let body = json!({"events": events(2)});
    send(&world, Method::POST, "/v1/ns/queues/later/events", &body)
        .await
        .is(201);
    until("both have followed", async || receiver.in_flight().0 == 2).await;
    push(&world, events(5)).await;
    receiver.release(2);
    until("events stay in the queue", async || {
        let ready = async |queue: &str| {
            let path = format!("/v1/ns/queues/{queue}");
            world.get(&path).await.is(200)["ready"].as_u64()
        };
        (ready("q").await, ready("later").await) == (Some(5), Some(0))
    })
    .await;
    assert_eq!(receiver.received().len(), 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gone_webhook_target_is_disabled_on_every_server() {
    let world = World::start_with(Place::Redis, LOCAL).await;
    let other = world.another_with(LOCAL).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(410));
    set_to(&world, &receiver, json!({})).await;
    push_one(&world).await;
    for server in [&world, &other] {
        wait_for_state(server, "disabled").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_webhook_delivers_nothing_more() {
    let world = World::start_with(Place::Embedded, LOCAL).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Held(200));
    set_to(&world, &receiver, json!({"concurrency": 1})).await;
    push(&world, events(3)).await;
    receiver.wait_for(1).await;
    world.delete(&path("q")).await.is(204);
    receiver.release(3);
    until("the request in flight ends, the others stay", async || {
        let stats = world.get("/v1/ns/queues/q").await.is(200);
        (&stats["ready"], &stats["leased"]) == (&json!(2), &json!(0))
    })
    .await;
    assert_eq!(receiver.received().len(), 1);
    world.delete(&path("q")).await.is(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let start = async || {
        let own = tempfile::tempdir().unwrap();
        World::start_at(own, url.clone(), LOCAL).await
    };
    let receiver = Receiver::start().await;
    let world = start().await;
    let set = set_to(&world, &receiver, json!({})).await;
    let secret = set["created_secret"].as_str().unwrap().to_owned();
    push(&world, json!([{"payload": 1, "delay_ms": 300}])).await;
    world.server.stop().await;
    let world = start().await;
    let received = receiver.wait_for(1).await;
    assert!(received[0].is_signed_by(&secret));
    wait_for_empty(&world).await;
}

/// A URL of Redis with a prefix of its own.
fn redis_url() -> String {
    let url = crate::servers::shared().url();
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}prefix={}", crate::servers::prefix())
}

/// Stops a server while a request runs; returns the attempt of an event that was handed back.
async fn a_stop_waits_for_requests(url: String) -> u16 {
    let start = async |grace_s: u32| {
        let own = tempfile::tempdir().unwrap();
        let settings = format!("{LOCAL}[limits]\ngrace_s = {grace_s}");
        World::start_at(own, url.clone(), &settings).await
    };
    let receiver = Receiver::start().await;
    receiver.always(Answer::Held(200));
    let world = start(60).await;
    set_to(&world, &receiver, json!({"concurrency": 1})).await;
    let events = json!([{"payload": 1, "attempts": 1}, {"payload": 2, "attempts": 9}]);
    let pushed = push(&world, events).await;
    receiver.wait_for(1).await;
    let address = world.server.api_address();
    let stopping = tokio::spawn(world.server.stop());
    until("it stops", async || {
        tokio::net::TcpStream::connect(address).await.is_err()
    })
    .await;
    assert!(!stopping.is_finished(), "it waits");
    receiver.release(1);
    stopping.await.unwrap();
    assert_eq!(receiver.received().len(), 1, "no more begins");

    // What does not end in time is handed back at once.
    let world = start(0).await;
    let received = receiver.wait_for(2).await;
    assert_eq!(received[1].id(), pushed[1], "the first is done");
    world.server.stop().await;
    receiver.always(Answer::Status(200));
    let world = start(0).await;
    let received = receiver.wait_for(3).await;
    assert_eq!(received[2].id(), pushed[1]);
    wait_for_empty(&world).await;
    received[2].attempt()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_requests_of_webhooks_on_redis() {
    let attempt = a_stop_waits_for_requests(redis_url()).await;
    assert_eq!(attempt, 1, "it has lost no attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_requests_of_webhooks_on_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    // The store counts the start of an attempt that was handed back when it is opened again.
    assert!(a_stop_waits_for_requests(url).await <= 2);
}

const TOKEN: &str = "a-token-that-survives-kills";

/// Kills a server that delivers, again and again: each event is delivered.
async fn killed_servers_lose_no_event(store: &str) {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("DULY_SERVER__WEBHOOKS__ALLOW_HTTP", "true"),
        ("DULY_SERVER__WEBHOOKS__ALLOW_NETWORKS", "127.0.0.0/8"),
        ("DULY_SERVER__WEBHOOKS__TTR_MS", "1000"),
    ];
    let start = || Program::start_with(folder.path(), store, &variables);
    let (client, receiver) = (client(), Receiver::start().await);
    receiver.always(Answer::Held(200));
    let mut program = start();
    let admin = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
    reply(client.post(admin)).await.is(201);
    let send = async |program: &Program, method, path: &str, body: Value| {
        let request = client.request(method, format!("{}{path}", program.api));
        let request = request
            .header("X-Token", TOKEN)
            .header("Content-Type", "application/json");
        reply(request.body(body.to_string())).await
    };
    let body = json!({"url": receiver.url(), "concurrency": 16});
    send(&program, Method::PUT, &path("q"), body).await.is(201);
    let pushed = json!({"events": events(150)});
    let pushed = send(&program, Method::POST, "/v1/ns/queues/q/events", pushed).await;
    let pushed = pushed.is(201);
    let all: BTreeSet<_> = pushed
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["id"].as_str().unwrap().to_owned())
        .collect();
    let mut before = 0;
    for _ in 0..3 {
        receiver.release(20);
        let enough = before + 25;
        until("requests run", async || receiver.received().len() >= enough).await;
        program.kill();
        until("no request runs", async || receiver.in_flight().0 == 0).await;
        before = receiver.received().len();
        assert!(ids(&receiver).len() < all.len(), "it is killed at work");
        program = start();
    }
    receiver.release(10_000);
    let size = format!("{}/v1/ns/queues/q", program.api);
    until("every event is over", async || {
        let stats = reply(client.get(&size).header("X-Token", TOKEN))
            .await
            .is(200);
        ["scheduled", "ready", "leased"]
            .iter()
            .all(|state| stats[state] == 0)
    })
    .await;
    assert_eq!(ids(&receiver), all);
    let dead = format!("{}/api/ns/q/deadletter/size", program.api);
    let dead = reply(client.get(dead).header("X-Token", TOKEN)).await;
    assert_eq!(dead.is(200)["size"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_servers_lose_no_event_of_a_webhook_on_the_embedded_store() {
    killed_servers_lose_no_event("sqlite:jobs.db").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_servers_lose_no_event_of_a_webhook_on_redis() {
    killed_servers_lose_no_event(&redis_url()).await;
}
