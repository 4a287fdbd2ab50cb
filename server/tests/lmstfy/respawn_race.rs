//! A respawn by one server while another one ends the same job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use serde_json::json;

use crate::servers::{Fault, Proxy, Redis, prefix};
use crate::world::{World, until};

/// The job dies, and another server puts it back, after the look at it and before its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_republish_ends_what_a_respawn_puts_back_meanwhile() {
    let redis = Redis::plain();
    let proxy = Proxy::before(redis.address());
    let end = format!("?prefix={}", prefix());
    let url = format!("{}{end}", proxy.url());
    let world = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    let url = format!("{}{end}", redis.url());
    let mut other = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    other.token = world.token.clone();
    let path = "/api/ns/q?tries=1";
    let old = world.publish(path, "old").await;
    world.consume("/api/ns/q?timeout=20&ttr=0").await;
    let dead = async || other.get("/api/ns/q/deadletter").await.is(200)["deadletter_size"].clone();
    until("the job is dead", async || dead().await == 1).await;

    // What follows the push of the new job waits.
    let (is_pushed, waits) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(true)),
    );
    let (pushed, held) = (Arc::clone(&is_pushed), Arc::clone(&waits));
    proxy.on_request(move |piece| {
        if pushed.load(SeqCst) {
            return held.load(SeqCst).then_some(Fault::Wait);
        }
        let is_push = piece.windows(12).any(|it| it == b"in place of ");
        pushed.fetch_or(is_push, SeqCst);
        None
    });
    let republish = async {
        let new = world.put(&format!("/api/ns/q/job/{old}"), "new").await;
        new.is(201)["job_id"].clone()
    };
    let respawn = async {
        until("the new job is there", async || other.size("q").await == 1).await;
        let respawned = other.put("/api/ns/q/deadletter?limit=9", "").await.is(200);
        assert_eq!(respawned["count"], 1);
        assert_eq!(other.size("q").await, 2);
        waits.store(false, SeqCst);
    };
    let (new, ()) = tokio::join!(republish, respawn);
    assert!(is_pushed.load(SeqCst));
    assert_eq!((other.size("q").await, dead().await), (1, json!(0)));
    let job = other.consume("/api/ns/q?timeout=20&ttr=60").await;
    assert_eq!(job["job_id"], new);
}

/// The job is ended while another server is about to put it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawn_puts_nothing_back_that_a_republish_has_ended_meanwhile() {
    let redis = Redis::plain();
    let proxy = Proxy::before(redis.address());
    let end = format!("?prefix={}", prefix());
    let url = format!("{}{end}", proxy.url());
    let world = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    let url = format!("{}{end}", redis.url());
    let mut other = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    other.token = world.token.clone();
    let old = other.publish("/api/ns/q?tries=1", "old").await;
    other.consume("/api/ns/q?timeout=20&ttr=0").await;
    let dead = async || other.get("/api/ns/q/deadletter").await.is(200)["deadletter_size"].clone();
    until("the job is dead", async || dead().await == 1).await;

    // The push waits, and all behind it on its connection.
    let (is_pushing, waits) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(true)),
    );
    let (pushing, held) = (Arc::clone(&is_pushing), Arc::clone(&waits));
    proxy.on_request(move |piece| {
        let is_push = piece.windows(9).any(|it| it == b"lmstfy-id");
        pushing.fetch_or(is_push, SeqCst);
        (is_push && held.load(SeqCst)).then_some(Fault::Wait)
    });
    let respawn = async {
        let put = world.put("/api/ns/q/deadletter?limit=9", "").await;
        put.is(200)["count"].clone()
    };
    let republish = async {
        until("it is on its way", async || is_pushing.load(SeqCst)).await;
        let new = other.put(&format!("/api/ns/q/job/{old}"), "new").await;
        let new = new.is(201)["job_id"].clone();
        waits.store(false, SeqCst);
        new
    };
    let (respawned, new) = tokio::join!(respawn, republish);
    assert_eq!(
        (respawned, other.size("q").await, dead().await),
        (json!(0), 1, json!(0))
    );
    let job = other.consume("/api/ns/q?timeout=20&ttr=60").await;
    assert_eq!(job["job_id"], new);
}
