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

/// How a job is ended while a respawn of it is on its way.
#[derive(Clone, Copy, Debug)]
enum End {
    Republish,
    Delete,
}

/// Ends a job once another server has found it dead, and goes on with a piece of its respawn.
async fn end_beside_a_respawn(end: End, piece: &'static [u8]) {
    let redis = Redis::plain();
    let proxy = Proxy::before(redis.address());
    let prefix = format!("?prefix={}", prefix());
    let url = format!("{}{prefix}", proxy.url());
    let world = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    let url = format!("{}{prefix}", redis.url());
    let mut other = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    other.token = world.token.clone();
    let old = other.publish("/api/ns/q?tries=1", "old").await;
    other.consume("/api/ns/q?timeout=20&ttr=0").await;
    let dead = async || other.get("/api/ns/q/deadletter").await.is(200)["deadletter_size"].clone();
    until("the job is dead", async || dead().await == 1).await;

    // The piece waits, and all behind it on its connection.
    let (is_on_its_way, waits) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(true)),
    );
    let (on_its_way, held) = (Arc::clone(&is_on_its_way), Arc::clone(&waits));
    proxy.on_request(move |it| {
        let is_it = it.windows(piece.len()).any(|it| it == piece);
        on_its_way.fetch_or(is_it, SeqCst);
        (is_it && held.load(SeqCst)).then_some(Fault::Wait)
    });
    let respawn = async {
        let put = world.put("/api/ns/q/deadletter?limit=9", "").await;
        put.is(200)["count"].clone()
    };
    let ends = async {
        until("it is on its way", async || is_on_its_way.load(SeqCst)).await;
        let path = format!("/api/ns/q/job/{old}");
        let new = match end {
            End::Republish => Some(other.put(&path, "new").await.is(201)["job_id"].clone()),
            End::Delete => {
                other.delete(&path).await.is(204);
                None
            }
        };
        waits.store(false, SeqCst);
        new
    };
    let (respawned, new) = tokio::join!(respawn, ends);
    let left = [respawned, json!(other.size("q").await), dead().await];
    assert_eq!(
        left,
        [json!(0), json!(new.iter().len()), json!(0)],
        "{end:?}"
    );
    if let Some(new) = new {
        let job = other.consume("/api/ns/q?timeout=20&ttr=60").await;
        assert_eq!(job["job_id"], new);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawn_puts_nothing_back_that_was_ended_before_its_push() {
    for end in [End::Republish, End::Delete] {
        end_beside_a_respawn(end, b"lmstfy-id").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawn_puts_nothing_back_that_was_ended_before_its_note() {
    for end in [End::Republish, End::Delete] {
        end_beside_a_respawn(end, b"HSETNX").await;
    }
}
