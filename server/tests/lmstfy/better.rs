//! Section 5: where the original has a hole.

use std::time::Duration;

use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{Place, World, on_every_store, reply};

on_every_store! {
    a_client_that_hangs_up_gets_no_job
    deleted_jobs_are_not_counted_nor_met
    expired_jobs_are_not_counted_nor_met
    a_failed_poll_does_not_hang
}

/// Begins a poll on a connection of its own.
async fn park(world: &World, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.server.api_address())
        .await
        .unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\n\r\n",
        world.token
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn a_client_that_hangs_up_gets_no_job(world: World) {
    for _ in 0..20 {
        drop(park(&world, "/api/ns/q?timeout=60&ttr=60").await);
    }
    let id = world.publish("/api/ns/q", "x").await;
    let job = world.consume("/api/ns/q?timeout=20").await;
    assert_eq!(
        (&job["job_id"], &job["remain_tries"]),
        (&id.into(), &0.into())
    );
}

async fn deleted_jobs_are_not_counted_nor_met(world: World) {
    for _ in 0..5 {
        let id = world.publish("/api/ns/q", "x").await;
        world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    }
    let last = world.publish("/api/ns/q", "x").await;
    assert_eq!(world.size("q").await, 1);
    let jobs = world.consume("/api/ns/q?count=5").await;
    assert_eq!(
        (jobs.as_array().map(Vec::len), &jobs[0]["job_id"]),
        (Some(1), &last.into())
    );
}

async fn expired_jobs_are_not_counted_nor_met(world: World) {
    let mut expiring = String::new();
    for _ in 0..5 {
        expiring = world.publish("/api/ns/q?ttl=1", "x").await;
    }
    let last = world.publish("/api/ns/q?tries=3", "x").await;
    let path = format!("/api/ns/q/job/{expiring}");
    crate::world::until("they have expired", async || {
        world.get(&path).await.status == 404
    })
    .await;
    let head = world.get("/api/ns/q/peek").await.is(200);
    assert_eq!(
        (&head["job_id"], &head["remain_tries"]),
        (&last.clone().into(), &3.into())
    );
    world.wait_for_size("q", 1).await;
    let jobs = world.consume("/api/ns/q?count=5").await;
    assert_eq!(
        (jobs.as_array().map(Vec::len), &jobs[0]["job_id"]),
        (Some(1), &last.into())
    );
}

async fn a_failed_poll_does_not_hang(world: World) {
    world.publish("/api/ns/q?ttl=1&tries=60000", "x").await;
    // Polls go on across the second in which it expires; one that hangs fails the wait.
    let expired = crate::world::until("it has expired", async || {
        world.get("/api/ns/q?ttr=0").await.status == 404 && world.size("q").await == 0
    });
    let ended = tokio::time::timeout(Duration::from_secs(30), expired).await;
    assert!(ended.is_ok(), "a poll hangs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_token_ends_on_every_node_at_once() {
    for place in [Place::Redis, Place::Cluster] {
        revoke(place).await;
    }
}

async fn revoke(place: Place) {
    let world = World::start(place).await;
    let other = world.another().await;
    for _ in 0..20 {
        let token = world.new_token("ns", "").await;
        let put = || {
            other
                .client
                .put(other.api_url("/api/ns/q"))
                .header("X-Token", &token)
        };
        reply(put()).await.is(201);
        world
            .admin(Method::DELETE, &format!("/token/ns/{token}"))
            .await
            .is(204);
        reply(put()).await.fails(401, "invalid token");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_acked_on_another_node() {
    let world = World::start(Place::Redis).await;
    let other = world.another().await;
    let id = world.publish("/api/ns/q", "x").await;
    assert_eq!(other.consume("/api/ns/q?timeout=10").await["job_id"], id);
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    other.get(&format!("/api/ns/q/job/{id}")).await.is(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_polls_cost_no_connection_to_the_store() {
    let world = World::start(Place::Redis).await;
    let connections = || {
        let info = crate::servers::shared().cli(&["CLIENT", "LIST"]);
        info.lines().count()
    };
    let before = connections();
    let mut parked = Vec::new();
    for _ in 0..200 {
        parked.push(park(&world, "/api/ns/parked?timeout=60").await);
    }
    world.publish("/api/ns/q", "x").await;
    world.consume("/api/ns/q?timeout=5").await;
    assert!(connections() <= before + 20, "{before} before");
    let id = world.publish("/api/ns/parked", "x").await;
    let mut text = [0; 1_024];
    let mut answered = 0;
    for stream in &mut parked {
        let read = stream.read(&mut text);
        if let Ok(Ok(len)) = tokio::time::timeout(Duration::from_millis(20), read).await {
            assert!(String::from_utf8_lossy(&text[..len]).contains(&id));
            answered += 1;
        }
    }
    assert_eq!(answered, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_parked_polls() {
    let world = World::start(Place::Embedded).await;
    let mut stream = park(&world, "/api/ns/q?timeout=600").await;
    world.publish("/api/ns/other", "x").await;
    let stopped = tokio::time::timeout(Duration::from_secs(20), world.server.stop()).await;
    assert!(stopped.is_ok(), "the server stops");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(text.starts_with("HTTP/1.1 404"), "{text}");
}
