//! A server whose memory is full.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::ErrorKind;

use crate::nodes::Memory;
use crate::redis_faults::pair::{Pusher, Worker, works};
use crate::servers::{Redis, RedisOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_refuses_pushes_and_drains_to_the_end() {
    let redis = Redis::start(RedisOptions {
        maxmemory: Some(12 * 1024 * 1024),
        ..RedisOptions::default()
    });
    let pusher = Pusher::start(&redis.url()).await;
    let mut sent = BTreeSet::new();
    let refused = loop {
        let delay = Duration::from_millis(fastrand::u64(..20));
        match pusher.push(delay).await {
            Ok(id) => assert!(sent.insert(id)),
            Err(error) => break error,
        }
        assert!(sent.len() < 100_000, "it is never full");
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");

    let worker = Worker::start(&redis.url()).await; // a start needs no room
    let patience = Duration::from_secs(30);
    assert!(
        worker.has_seen(sent.len(), patience).await,
        "it does not drain"
    );
    assert_eq!(worker.seen(), sent);
    works(&pusher, &worker, Memory::Keeps).await;
    println!(
        "full: {} pushed, then refused: {refused}; all handled",
        sent.len()
    );
    worker.stop().await;
    pusher.stop().await;
}
