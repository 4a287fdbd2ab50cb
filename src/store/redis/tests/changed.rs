//! Tests of a store whose servers are set otherwise while it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::super::RedisStore;
use super::servers::{Aof, Cluster, Fault, Proxy, Redis, RedisOptions};
use super::subscription::until;
use crate::core::op::{NewEvent, StoreOp, Unique};
use crate::error::{ErrorKind, Result};
use crate::event::{BucketId, BucketKey, Envelope, EventId, Payload};
use crate::store::contract::Store;
use crate::store::durability::Durability;
use crate::time::{Timestamp, When};

fn server(aof: Aof) -> Redis {
    Redis::start(RedisOptions {
        aof,
        tcp: true,
        ..RedisOptions::default()
    })
}

fn event(store: &RedisStore, bucket: &BucketKey, number: u64) -> NewEvent {
    let now = Timestamp::from_micros_up(store.now_us());
    let id = EventId::from_parts(now, bucket.bucket, number);
    let payload = Payload::from(&b"a letter"[..]);
    NewEvent {
        envelope: Arc::new(Envelope::new(id, bucket.queue.clone(), payload)),
        when: When::Now,
        on_taken: Unique::Keep,
    }
}

async fn push(store: &RedisStore, number: u64) -> Result<()> {
    let bucket = BucketKey::new("orders".parse().expect("a name"), BucketId(0));
    let events = vec![event(store, &bucket, number)];
    store.apply(&bucket, StoreOp::Push(events)).await.map(drop)
}

#[tokio::test]
async fn the_durability_is_that_of_the_server_that_is_there() {
    let server = server(Aof::Always);
    let proxy = Proxy::before(server.address());
    let store = RedisStore::open(&proxy.url()).await.expect("a store");
    assert_eq!(store.durability(), Durability::Disk);
    let set = ["CONFIG", "SET", "appendfsync", "everysec"];
    assert_eq!(server.cli(&set), "OK");
    proxy.cut_all();
    for number in 0..2_000 {
        let _ = push(&store, number).await; // its connection may have been cut
        if store.durability() == Durability::OsCache {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it is still {}", store.durability());
}

#[tokio::test]
async fn a_user_who_may_not_call_functions_any_more_is_served_by_scripts() {
    let server = server(Aof::Off);
    let user = ["ACL", "SETUSER", "ann", "on", ">a", "~*", "&*", "+@all"];
    server.cli(&user);
    let url = format!("redis://ann:a@127.0.0.1:{}", server.port());
    let store = RedisStore::open(&url).await.expect("a store");
    let functions = || {
        let stats = server.cli(&["INFO", "commandstats"]);
        stats.contains("cmdstat_fcall:")
    };
    for number in 0..3 {
        push(&store, number).await.expect("it is pushed");
    }
    assert!(functions());
    assert_eq!(server.cli(&["ACL", "SETUSER", "ann", "-fcall"]), "OK");
    for number in 3..6 {
        push(&store, number)
            .await
            .expect("it is pushed by a script");
    }
}

/// A proxy that ends a connection for `CONFIG` fails no start, and is asked once.
#[tokio::test]
async fn a_server_that_does_not_answer_what_it_syncs_is_asked_once() {
    let server = server(Aof::Always);
    let proxy = Proxy::before(server.address());
    let sent: Arc<[AtomicUsize; 2]> = Arc::default();
    let (asks, count) = (Arc::clone(&sent), |at: usize| {
        sent[at].load(Ordering::Relaxed)
    });
    proxy.on_request(move |bytes| {
        let has = |part: &[u8]| bytes.windows(part.len()).any(|it| it == part);
        let (is_it, is_info) = (has(b"appendfsync"), has(b"\r\nINFO\r\n"));
        asks[0].fetch_add(usize::from(is_it), Ordering::Relaxed);
        asks[1].fetch_add(usize::from(is_info), Ordering::Relaxed);
        is_it.then_some(Fault::CutBefore)
    });
    let store = RedisStore::open(&proxy.url()).await.expect("a store");
    assert_eq!(store.durability(), Durability::OsCache);
    let (at_start, mut number) = (count(0), 0);
    assert!(at_start > 0);
    for _ in 0..2 {
        let looked = count(1);
        proxy.cut_all();
        let first = number;
        while count(1) == looked {
            assert!(number < first + 2_000, "it does not look");
            let _ = push(&store, number).await; // its connection was cut
            number += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert_eq!(count(0), at_start, "it is asked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_until_a_replica_has_taken_over_in_a_cluster() {
    let mut cluster = Cluster::start(6);
    let waits = |cluster: &Cluster, nodes: &[usize], says: &str| {
        for number in nodes {
            let set = ["CONFIG", "SET", "cluster-replica-no-failover", says];
            // However long it has to wait for its turn.
            let valid = ["cluster-replica-validity-factor", "0"];
            cluster.node(*number).cli(&[&set[..], &valid].concat());
        }
    };
    waits(&cluster, &[0, 1, 2, 3, 4, 5], "yes");
    let gone = cluster.kill_master_of(7);
    let living: Vec<_> = (0..6).filter(|number| *number != gone).collect();
    let says = |cluster: &Cluster, words: &[&str], said: &str| {
        let has = |number: &usize| cluster.node(*number).cli(words).contains(said);
        living.iter().filter(|number| has(number)).count()
    };
    until("it is down", || {
        says(&cluster, &["CLUSTER", "INFO"], "cluster_state:fail") == living.len()
    })
    .await;
    for number in &living {
        cluster.node(*number).cli(&["CONFIG", "RESETSTAT"]);
    }
    let url = cluster.url();
    let opening = tokio::spawn(async move { RedisStore::open(&url).await });
    until("the start asks", || {
        says(&cluster, &["INFO", "commandstats"], "cmdstat_cluster|info") > 0
    })
    .await;
    waits(&cluster, &living, "no");
    let opened = opening.await.expect("no panic");
    opened.expect("it waits");
}

/// It is not retried, and a call has less time than a registration may take.
#[tokio::test]
async fn a_push_whose_bucket_is_not_registered_in_its_time_was_not_sent() {
    let server = server(Aof::Off);
    let proxy = Proxy::before(server.address());
    let options = super::super::RedisOptions::new().retry_for(Duration::ZERO);
    let url = format!("{}?timeout=400ms", proxy.url());
    let store = RedisStore::open_with(&url, options).await.expect("a store");
    proxy.on_request(|bytes| {
        let is_it = bytes.windows(9).any(|it| it == b":registry");
        is_it.then_some(Fault::Hang)
    });
    let error = push(&store, 0).await.expect_err("it is in no registry");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
