//! The one server of a cluster that has the registry is away, and the others are not.

use std::time::Duration;

use duly::ErrorKind;
use duly::handler::Annotation;
use duly::prelude::*;
use tokio::time::Instant;

use crate::kit::{Read, builder, fresh, push_to, pusher_to, stop, until};
use crate::servers::Cluster;

/// What the settings say.
const BUCKETS: u16 = 24;
const WIDE: Annotation = Annotation::new("letters").buckets(BUCKETS);

/// Buckets of those below `end` that are not on the server of the registry.
fn living(cluster: &Cluster, prefix: &str, range: std::ops::Range<u16>) -> Vec<u16> {
    let hub = cluster.slot_of(&format!("{prefix}:{{hub}}:members"));
    let hub = cluster.master_of(hub);
    let lives = |bucket: &u16| {
        let slot = cluster.slot_of(&format!("{prefix}:{{letters:{bucket}}}:meta"));
        cluster.master_of(slot) != hub
    };
    range.filter(lives).collect()
}

async fn consumer(url: &str) -> (Read, Bus) {
    let read = Read::default();
    let builder = builder(url).register_as(WIDE, read.clone());
    (read, builder.start().await.expect("a start"))
}

/// Pushes to each of these buckets, and waits until all of it is handled.
async fn goes_on(queue: &Queue<String>, read: &Read, buckets: &[u16]) {
    for bucket in buckets {
        let id = push_to(queue, *bucket).await;
        let id = id.unwrap_or_else(|error| panic!("bucket {bucket}: {error}"));
        until("it is handled", async || read.seen().contains_key(&id)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_starts_and_nodes_go_on_while_the_registry_is_away() {
    let mut cluster = Cluster::masters(3);
    let (url, prefix) = fresh(&cluster.url());
    let buckets = living(&cluster, &prefix, 0..BUCKETS);
    let beyond = living(&cluster, &prefix, BUCKETS..1_024)[0];
    let (known, new) = buckets.split_at(buckets.len() / 2);
    let (old, old_bus) = consumer(&url).await;
    let (old_pusher, old_queue) = pusher_to(&url, BUCKETS).await;
    goes_on(&old_queue, &old, known).await;

    let slot = cluster.slot_of(&format!("{prefix}:{{hub}}:members"));
    let killed = cluster.kill_master_of(slot);
    let began = Instant::now();
    goes_on(&old_queue, &old, known).await;
    goes_on(&old_queue, &old, new).await;
    // For longer than nodes take until they know nothing of each other.
    while began.elapsed() < Duration::from_secs(4) {
        goes_on(&old_queue, &old, &buckets).await;
    }
    let refused = push_to(&old_queue, beyond)
        .await
        .expect_err("nobody might serve it");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(refused.to_string().contains("registry"), "{refused}");

    let (fresh_one, fresh_bus) = consumer(&url).await;
    let (new_pusher, new_queue) = pusher_to(&url, BUCKETS).await;
    // What was asked of the server that is away has no answer yet.
    let _ = old_bus.shutdown(Duration::from_secs(2)).await;
    goes_on(&new_queue, &fresh_one, &buckets).await;
    goes_on(&old_queue, &fresh_one, &buckets).await;

    cluster.restart(killed);
    cluster.wait_until_served();
    let pushed = async || push_to(&old_queue, beyond).await.is_ok();
    until("it is registered", pushed).await;
    goes_on(&old_queue, &fresh_one, &[beyond]).await;
    // What was pushed meanwhile is registered, and settings reach every node.
    let listed = async || {
        let store = duly::store::RedisStore::open(&url).await.unwrap();
        let listed = duly::store::Store::buckets(&store).await.unwrap();
        buckets
            .iter()
            .all(|bucket| listed.iter().any(|key| key.bucket.0 == *bucket))
    };
    until("all are registered", listed).await;
    new_pusher.pause("letters").await.unwrap();
    until("it is paused", async || {
        fresh_bus
            .controls()
            .await
            .is_ok_and(|it| it["letters"].paused)
    })
    .await;
    new_pusher.resume("letters").await.unwrap();
    goes_on(&new_queue, &fresh_one, &(0..BUCKETS).collect::<Vec<_>>()).await;
    for bus in [&new_pusher, &old_pusher, &fresh_bus] {
        stop(bus).await;
    }
}
