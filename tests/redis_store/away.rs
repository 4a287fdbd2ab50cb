//! The one server of a cluster that has the registry is away, and the others are not.

use std::time::Duration;

use duly::event::{BucketId, BucketKey};
use duly::prelude::*;
use duly::{Annotation, ErrorKind, EventId};
use tokio::time::Instant;

use crate::redis_store::kit::{Bare, Read, builder, fresh, push_to, pusher_to, stop, until};
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

/// Pushes to the buckets that lie on the server that is away.
async fn push_in_vain(queue: Queue<String>, living: Vec<u16>) {
    loop {
        let others = (0..BUCKETS).filter(|bucket| !living.contains(bucket));
        let pushes = others.map(|bucket| push_to(&queue, bucket));
        futures_util::future::join_all(pushes).await;
        tokio::time::sleep(Duration::from_millis(100)).await; // a pace, which spares the processor
    }
}

/// Pushes to each of these buckets, and waits until all of it is handled.
async fn goes_on(queue: &Queue<String>, read: &Read, buckets: &[u16]) {
    for bucket in buckets {
        let id = push_to(queue, *bucket).await;
        let id = id.unwrap_or_else(|error| panic!("bucket {bucket}: {error}"));
        until("it is handled", async || read.seen().contains_key(&id)).await;
    }
}

/// How the server goes away.
#[derive(Clone, Copy, Debug)]
enum Away {
    /// Nobody listens at its place any more.
    Dead,
    /// It takes connections, and answers nothing.
    Hung,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_starts_and_nodes_go_on_while_the_server_of_the_registry_is_dead() {
    goes_on_without_the_registry(Away::Dead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_starts_and_nodes_go_on_while_the_server_of_the_registry_hangs() {
    goes_on_without_the_registry(Away::Hung).await;
}

async fn goes_on_without_the_registry(how: Away) {
    let mut cluster = Cluster::masters(3);
    let (url, prefix) = fresh(&cluster.url());
    let buckets = living(&cluster, &prefix, 0..BUCKETS);
    let beyond = living(&cluster, &prefix, BUCKETS..1_024)[0];
    let (known, new) = buckets.split_at(buckets.len() / 2);
    let (old, old_bus) = consumer(&url).await;
    let (old_pusher, old_queue) = pusher_to(&url, BUCKETS).await;
    goes_on(&old_queue, &old, known).await;

    // No id names a bucket that its queue does not have: another program has more of them.
    let bare = Bare {
        bucket: BucketKey::new("letters".parse().unwrap(), BucketId(beyond)),
        ..Bare::open(&url).await
    };
    let push_beyond = async || {
        let id = bare.new_id();
        let id = EventId::from_parts(id.created(), BucketId(beyond), id.entropy());
        bare.push(id, Duration::ZERO).await.map(|_| id)
    };
    let slot = cluster.slot_of(&format!("{prefix}:{{hub}}:members"));
    let gone = match how {
        Away::Dead => cluster.kill_master_of(slot),
        Away::Hung => cluster.stop_master_of(slot),
    };
    // Others push to the buckets that lie there, on the same connections.
    let pushed_there = tokio::spawn(push_in_vain(old_queue.clone(), buckets.clone()));
    let began = Instant::now();
    goes_on(&old_queue, &old, known).await;
    goes_on(&old_queue, &old, new).await;
    // For longer than nodes take until they know nothing of each other.
    while began.elapsed() < Duration::from_secs(8) {
        goes_on(&old_queue, &old, &buckets).await;
        tokio::time::sleep(Duration::from_millis(100)).await; // a pace, which spares the processor
    }
    let refused = push_beyond().await.expect_err("it might have no consumer");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(refused.to_string().contains("registry"), "{refused}");

    let (fresh_one, fresh_bus) = consumer(&url).await;
    let (new_pusher, new_queue) = pusher_to(&url, BUCKETS).await;
    // What was asked of the server that is away has no answer yet.
    let _ = old_bus.shutdown(Duration::from_secs(2)).await;
    goes_on(&new_queue, &fresh_one, &buckets).await;
    goes_on(&old_queue, &fresh_one, &buckets).await;

    pushed_there.abort();
    match how {
        Away::Dead => cluster.restart(gone),
        Away::Hung => cluster.cont(gone),
    }
    cluster.wait_until_served();
    until("it is registered", async || push_beyond().await.is_ok()).await;
    let id = push_beyond().await.expect("a push");
    until("it is handled", async || fresh_one.seen().contains_key(&id)).await;
    // What was pushed meanwhile is registered, and settings reach every node.
    let listed = async || {
        // The server has just come back, and may not take a connection yet.
        let Ok(store) = duly::store::RedisStore::open(&url).await else {
            return false;
        };
        let Ok(listed) = duly::store::Store::buckets(&store).await else {
            return false;
        };
        buckets
            .iter()
            .all(|bucket| listed.iter().any(|key| key.bucket.0 == *bucket))
    };
    until("all are registered", listed).await;
    until("it can be paused", async || {
        new_pusher.pause("letters").await.is_ok()
    })
    .await;
    until("it is paused", async || {
        fresh_bus
            .controls()
            .await
            .is_ok_and(|it| it["letters"].paused)
    })
    .await;
    until("it can be resumed", async || {
        new_pusher.resume("letters").await.is_ok()
    })
    .await;
    goes_on(&new_queue, &fresh_one, &(0..BUCKETS).collect::<Vec<_>>()).await;
    for bus in [&new_pusher, &old_pusher, &fresh_bus] {
        stop(bus).await;
    }
}

/// A bus whose letters all become dead letters.
struct Refuse;

impl Handler for Refuse {
    type Payload = String;

    async fn handle(&self, _event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        Err(Failure::permanent("no letters today"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_are_answered_while_the_server_of_the_registry_is_dead() {
    operators_are_answered_without_the_registry(Away::Dead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_are_answered_while_the_server_of_the_registry_hangs() {
    operators_are_answered_without_the_registry(Away::Hung).await;
}

async fn operators_are_answered_without_the_registry(how: Away) {
    let mut cluster = Cluster::masters(3);
    let (url, prefix) = fresh(&cluster.url());
    let refusing = async || {
        let builder = builder(&url).register_as(WIDE, Refuse);
        builder.start().await.expect("a start")
    };
    let bus = refusing().await;
    let queue: Queue<String> = bus.queue_named("letters").unwrap();
    let buckets = living(&cluster, &prefix, 0..BUCKETS);
    let mut dead = Vec::new();
    for bucket in 0..BUCKETS {
        let id = push_to(&queue, bucket).await.expect("a push");
        if buckets.contains(&bucket) {
            dead.push(id);
        }
    }
    until("all are dead letters", async || {
        bus.stats("letters").await.unwrap().dead == usize::from(BUCKETS)
    })
    .await;
    let slot = cluster.slot_of(&format!("{prefix}:{{hub}}:members"));
    match how {
        Away::Dead => cluster.kill_master_of(slot),
        Away::Hung => cluster.stop_master_of(slot),
    };
    // One that knows the buckets, and one that knows what its settings say.
    for bus in [bus, refusing().await] {
        let letters = bus.dead_letters().queue("letters");
        let page = letters.clone().page().await.expect("what is known");
        let listed: Vec<_> = page.items.iter().map(|letter| letter.id).collect();
        assert_eq!(listed, dead, "what does not lie on the server that is away");
        let revived = bus.dead_letters().revive([dead[0]]).await.unwrap();
        assert_eq!(revived.done, 1, "{revived:?}");
        let all = letters.dry_run().revive_all().await.unwrap();
        assert!(all.matched >= dead.len() as u64 - 1, "{all:?}");
        let left_out = all.stopped.expect("some do not answer").to_string();
        assert!(
            left_out.contains("registry of buckets is unavailable"),
            "{left_out}"
        );
        let found = bus.event(dead[1]).await.expect("its bucket answers");
        assert_eq!(found.expect("it is there").id, dead[1]);
        let explained = bus.explain(dead[1]).await.unwrap();
        assert_eq!(explained.queue.as_ref().unwrap().as_str(), "letters");
        let words = explained.to_string();
        assert!(words.contains("no letters today"), "{words}");
        assert!(
            words.contains("registry of buckets is unavailable"),
            "{words}"
        );
        until("it is dead again", async || {
            let found = bus.event(dead[0]).await.ok().flatten();
            found.is_some_and(|event| event.state == duly::event::State::Dead)
        })
        .await;
        let _ = bus.shutdown(Duration::from_secs(2)).await;
    }
    let nothing_known = builder(&url).publish_only().start().await.expect("a start");
    let letters = nothing_known.dead_letters().page().await;
    let error = letters.expect_err("nothing is known");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        error
            .to_string()
            .contains("registry of buckets is unavailable"),
        "{error}"
    );
}
