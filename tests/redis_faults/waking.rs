//! A node at rest is told of new events, also after whatever told it was away.

use std::time::Duration;

use crate::nodes::Memory;
use crate::redis_faults::let_it_run;
use crate::redis_faults::pair::{Pusher, Worker, works};
use crate::redis_faults::server;
use crate::servers::{Cluster, Proxy, Sentinels};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_at_rest_is_woken_after_its_connections_were_cut() {
    let redis = server();
    let proxy = Proxy::before(redis.address());
    let pusher = Pusher::start(&redis.url()).await;
    let worker = Worker::start(&proxy.url()).await;
    works(&pusher, &worker, Memory::Keeps).await;
    for _ in 0..2 {
        proxy.refuse(true);
        proxy.cut_all();
        // What is pushed meanwhile is found without a word, once the node is back.
        let many = worker.seen().len() + 1;
        let id = pusher.push(Duration::ZERO).await.expect("it is accepted");
        let_it_run(Duration::from_millis(300));
        proxy.heal();
        assert!(
            worker.has_seen(many, Duration::from_secs(5)).await,
            "{id} was missed"
        );
        works(&pusher, &worker, Memory::Keeps).await;
    }
    println!(
        "woken: {:?}, {} handled",
        proxy.counts(),
        worker.seen().len()
    );
    worker.stop().await;
    pusher.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_at_rest_is_woken_after_the_server_was_killed() {
    let mut redis = server();
    let pusher = Pusher::start(&redis.url()).await;
    let worker = Worker::start(&redis.url()).await;
    works(&pusher, &worker, Memory::Keeps).await;
    redis.restart();
    works(&pusher, &worker, Memory::Keeps).await;
    worker.stop().await;
    pusher.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_at_rest_is_woken_after_a_sentinel_failover() {
    let mut sentinels = Sentinels::start();
    let pusher = Pusher::start(&sentinels.url()).await;
    let worker = Worker::start(&sentinels.url()).await;
    works(&pusher, &worker, Memory::Keeps).await;
    sentinels.failover();
    works(&pusher, &worker, Memory::MayForget).await;
    worker.stop().await;
    pusher.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_at_rest_is_woken_after_its_buckets_have_moved() {
    let cluster = Cluster::start(6);
    let pusher = Pusher::start(&cluster.url()).await;
    let worker = Worker::start(&cluster.url()).await;
    works(&pusher, &worker, Memory::Keeps).await;
    let masters = [0, 6_000, 12_000].map(|slot| cluster.master_of(slot));
    for bucket in 0..8 {
        let slot = cluster.slot_of(&format!("{{letters:{bucket}}}"));
        let from = cluster.master_of(slot);
        let to = masters.into_iter().find(|master| *master != from);
        cluster.move_slot(slot, to.expect("there are three"));
    }
    works(&pusher, &worker, Memory::Keeps).await;
    worker.stop().await;
    pusher.stop().await;
}
