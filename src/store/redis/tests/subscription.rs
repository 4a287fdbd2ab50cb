//! Tests of pub/sub notifications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::super::hub::notifications::{NotificationCallbacks, Notifications};
use super::super::hub::origin::Origin;
use super::super::link::options::ConnectionOptions;
use super::super::link::url::Target;
use super::super::script::keys;
use super::servers::{Cluster, Proxy, Redis, RedisOptions, Sentinels};
use super::{open, words};
use crate::event::{BucketId, BucketKey};

/// A counter of callbacks.
#[derive(Default)]
pub(super) struct Counts {
    buckets: Mutex<BTreeMap<BucketKey, u64>>,
    /// Those that nobody needs.
    idle: Mutex<BTreeSet<BucketKey>>,
}

impl Counts {
    pub(super) fn of(&self, bucket: &BucketKey) -> u64 {
        let buckets = self.buckets.lock();
        buckets.get(bucket).copied().unwrap_or(0)
    }
}

fn listen(url: &str) -> (Notifications, Arc<Counts>) {
    listen_with(url, &ConnectionOptions::default())
}

pub(super) fn listen_with(url: &str, options: &ConnectionOptions) -> (Notifications, Arc<Counts>) {
    listen_as(url, options, &Origin::of("me"))
}

pub(super) fn listen_as(
    url: &str,
    options: &ConnectionOptions,
    origin: &Origin,
) -> (Notifications, Arc<Counts>) {
    let target = Target::parse(url).expect(url);
    let counts = Arc::new(Counts::default());
    let replaced = watch::channel(0).1;
    let news = Notifications::open(
        &target,
        options,
        "duly",
        origin,
        replaced,
        callbacks(&counts),
    );
    (news, counts)
}

pub(super) fn callbacks(counts: &Arc<Counts>) -> NotificationCallbacks {
    let (earlier, idle) = (Arc::clone(counts), Arc::clone(counts));
    NotificationCallbacks {
        earlier: Box::new(move |bucket| {
            let mut buckets = earlier.buckets.lock();
            *buckets.entry(bucket.clone()).or_default() += 1;
        }),
        called: Box::new(|bucket| panic!("nobody has called for {bucket}")),
        removes_idle: Box::new(move |bucket| idle.idle.lock().remove(bucket)),
    }
}

pub(super) fn bucket(number: u16) -> BucketKey {
    let queue = "orders".parse().expect("a name");
    BucketKey::new(queue, BucketId(number))
}

/// Waits for a condition.
pub(super) async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within 30 s: {what}");
}

pub(super) async fn publish(url: &str, bucket: &BucketKey, origin: &str) -> redis::Value {
    let channel = keys::part("duly", bucket, "wake");
    let said = open(url)
        .await
        .send(&words(&["SPUBLISH", &channel, origin]))
        .await;
    said.expect("it is published")
}

fn tcp() -> Redis {
    Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    })
}

#[tokio::test]
async fn a_message_is_heard_and_what_this_process_said_is_not() {
    let server = Redis::plain();
    let (news, counts) = listen(&server.url());
    news.add([&bucket(1), &bucket(2)]);
    until("it listens", || news.is_healthy()).await;
    // Each is polled once, since an earlier message may have been missed.
    assert_eq!((counts.of(&bucket(1)), counts.of(&bucket(2))), (1, 1));

    publish(&server.url(), &bucket(1), "me").await;
    publish(&server.url(), &bucket(1), "you").await;
    until("it is heard", || counts.of(&bucket(1)) == 2).await;
    assert_eq!((counts.of(&bucket(1)), counts.of(&bucket(2))), (2, 1));
}

#[tokio::test]
async fn thousands_of_buckets_are_added_while_it_listens() {
    let server = Redis::plain();
    let (news, counts) = listen(&server.url());
    until("it listens", || news.is_healthy()).await;
    let buckets: Vec<_> = (0..5_000).map(bucket).collect();
    for buckets in buckets.chunks(1_234) {
        news.add(buckets);
        assert!(!news.is_healthy());
    }
    until("it listens to all", || news.is_healthy()).await;
    let looked = counts.of(&bucket(4_999));
    publish(&server.url(), &bucket(4_999), "you").await;
    until("it is heard", || counts.of(&bucket(4_999)) == looked + 1).await;
}

/// Returns how many channels the server has a listener for.
async fn listened(url: &str) -> usize {
    let open = open(url).await;
    let found = open.send(&words(&["PUBSUB", "SHARDCHANNELS"])).await;
    match found.expect("the channels") {
        redis::Value::Array(channels) => channels.len(),
        other => panic!("no channels: {other:?}"),
    }
}

#[tokio::test]
async fn channels_that_nobody_needs_go_and_come_back() {
    let server = Redis::plain();
    let options = ConnectionOptions {
        probe_every: Duration::from_millis(100),
        ..ConnectionOptions::default()
    };
    let (news, counts) = listen_with(&server.url(), &options);
    let buckets: Vec<_> = (0..500).map(bucket).collect();
    news.add(&buckets);
    until("it listens", || news.is_healthy()).await;
    assert_eq!(listened(&server.url()).await, 500);
    counts.idle.lock().extend(buckets[10..].iter().cloned());
    let many = |news: &Notifications, many: usize| {
        let debug = format!("{news:?}");
        debug.contains(&format!("channels: {many},"))
    };
    until("they are gone", || many(&news, 10) && news.is_healthy()).await;
    // The connection that had them was left, too.
    while listened(&server.url()).await > 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    until("it listens", || news.is_healthy()).await;
    news.add([&bucket(400)]);
    until("it listens", || news.is_healthy()).await;
    for bucket in [bucket(1), bucket(400)] {
        let looked = counts.of(&bucket);
        publish(&server.url(), &bucket, "you").await;
        until("it is heard", || counts.of(&bucket) == looked + 1).await;
    }
    assert!(many(&news, 11));
}

#[tokio::test]
async fn after_a_cut_every_bucket_is_looked_at_and_listened_to_again() {
    let server = tcp();
    let proxy = Proxy::before(server.address());
    let (news, counts) = listen(&proxy.url());
    news.add([&bucket(1), &bucket(2)]);
    until("it listens", || news.is_healthy()).await;

    proxy.refuse(true);
    proxy.cut_all();
    until("it is noticed", || !news.is_healthy()).await;
    proxy.refuse(false);
    until("it listens", || news.is_healthy()).await;
    // Once when it is subscribed again, and once for each attempt before that.
    let looked = counts.of(&bucket(1));
    assert!(looked >= 2 && counts.of(&bucket(2)) >= 2);
    publish(&server.url(), &bucket(1), "you").await;
    until("it is heard", || counts.of(&bucket(1)) == looked + 1).await;
}

#[tokio::test]
async fn a_server_that_was_killed_and_comes_back_is_listened_to_again() {
    let mut server = tcp();
    let (news, counts) = listen(&server.url());
    news.add([&bucket(1)]);
    until("it listens", || news.is_healthy()).await;
    server.kill();
    until("it is noticed", || !news.is_healthy()).await;
    server.restart();
    until("it listens", || news.is_healthy()).await;
    // Once when it is subscribed again, and once for each attempt before that.
    let looked = counts.of(&bucket(1));
    assert!(looked >= 2);
    publish(&server.url(), &bucket(1), "you").await;
    until("it is heard", || counts.of(&bucket(1)) == looked + 1).await;
}

#[tokio::test]
async fn a_server_that_hangs_is_noticed_though_nobody_asks_it_anything() {
    let server = tcp();
    let options = ConnectionOptions {
        timeout: Duration::from_millis(200),
        connect_timeout: Duration::from_millis(200),
        probe_every: Duration::from_millis(100),
        ..ConnectionOptions::default()
    };
    let (news, counts) = listen_with(&server.url(), &options);
    news.add([&bucket(1)]);
    until("it listens", || news.is_healthy()).await;
    server.stop_process();
    until("it is noticed", || !news.is_healthy()).await;
    server.cont();
    until("it listens", || news.is_healthy()).await;
    assert!(counts.of(&bucket(1)) > 1, "nobody looked again");
}

#[tokio::test]
async fn a_new_master_is_listened_to() {
    let mut servers = Sentinels::start();
    let (news, counts) = listen(&servers.url());
    news.add([&bucket(1)]);
    until("it listens", || news.is_healthy()).await;
    servers.failover();
    until("it looks again", || {
        news.is_healthy() && counts.of(&bucket(1)) > 1
    })
    .await;
    let before = counts.of(&bucket(1));
    publish(&servers.url(), &bucket(1), "you").await;
    until("it is heard", || counts.of(&bucket(1)) > before).await;
}

#[tokio::test]
async fn an_idle_subscription_costs_next_to_nothing() {
    let server = Redis::plain();
    let (news, _counts) = listen(&server.url());
    news.add(&(0..80).map(bucket).collect::<Vec<_>>());
    until("it listens", || news.is_healthy()).await;
    let commands = || {
        let stats = server.cli(&["INFO", "commandstats"]);
        let lines = stats.lines().filter(|line| !line.contains("_info"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = commands();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(commands(), before);
}

#[tokio::test]
async fn a_cluster_is_listened_to_on_every_node_and_through_moves_and_failovers() {
    let mut cluster = Cluster::start(6);
    let url = cluster.url();
    let buckets: Vec<_> = (0..40).map(bucket).collect();
    let (news, counts) = listen(&url);
    news.add(&buckets);
    until("it listens", || news.is_healthy()).await;
    let looked: Vec<_> = buckets.iter().map(|bucket| counts.of(bucket)).collect();
    for bucket in &buckets {
        publish(&url, bucket, "you").await;
    }
    until("all are heard", || {
        let mut each = buckets.iter().zip(&looked);
        each.all(|(bucket, looked)| counts.of(bucket) > *looked)
    })
    .await;

    let slot = cluster.slot_of(&keys::part("duly", &buckets[0], "wake"));
    let from = cluster.master_of(slot);
    let to = (0..3).find(|node| *node != from).expect("another master");
    cluster.move_slot(slot, to);
    until("it looks again", || {
        news.is_healthy() && counts.of(&buckets[0]) > 2
    })
    .await;
    let before = counts.of(&buckets[0]);
    publish(&url, &buckets[0], "you").await;
    until("it is heard", || counts.of(&buckets[0]) > before).await;

    let before = counts.of(&buckets[0]);
    cluster.kill_master_of(slot);
    until("it looks again", || {
        news.is_healthy() && counts.of(&buckets[0]) > before
    })
    .await;
    let before = counts.of(&buckets[0]);
    publish(&url, &buckets[0], "you").await;
    until("it is heard", || counts.of(&buckets[0]) > before).await;
}

#[tokio::test]
async fn a_slot_without_an_owner_keeps_no_other_from_being_listened_to() {
    let cluster = Cluster::masters(3);
    let buckets: Vec<_> = (0..20).map(bucket).collect();
    let slot = cluster.slot_of(&keys::part("duly", &buckets[0], "wake"));
    let owner = cluster.master_of(slot);
    // The others would hear of it from its owner.
    for node in [owner, (owner + 1) % 3, (owner + 2) % 3] {
        let node = cluster.node(node);
        node.cli(&["CLUSTER", "DELSLOTS", &slot.to_string()]);
    }
    let (news, _counts) = listen(&cluster.url());
    news.add(&buckets);
    let channels = || {
        let of = |node| cluster.node(node).cli(&["PUBSUB", "SHARDCHANNELS"]);
        let lines = (0..3).map(|node| of(node).split_whitespace().count());
        lines.sum::<usize>()
    };
    until("it listens to the others", || channels() == 19).await;
    assert!(!news.is_healthy());

    let owner = cluster.node(owner);
    owner.cli(&["CLUSTER", "ADDSLOTS", &slot.to_string()]);
    until("it listens to all", || news.is_healthy()).await;
    assert_eq!(channels(), 20);
}

/// It runs on and knows no slots, and the URL names it first.
#[tokio::test]
async fn a_node_that_has_left_a_cluster_keeps_no_channel_from_being_listened_to() {
    let cluster = Cluster::masters(3);
    let buckets: Vec<_> = (0..20).map(bucket).collect();
    let (early, early_counts) = listen(&cluster.url());
    early.add(&buckets);
    until("it listens", || early.is_healthy()).await;
    cluster.remove(0, 1);
    let (late, late_counts) = listen(&cluster.url());
    late.add(&buckets);
    for (news, counts) in [(early, early_counts), (late, late_counts)] {
        until("it listens to all", || news.is_healthy()).await;
        for bucket in &buckets {
            let before = counts.of(bucket);
            publish(&cluster.url(), bucket, "you").await;
            until("it is heard", || counts.of(bucket) > before).await;
        }
    }
}

/// It answers pings and knows nothing of the node that has its slots: nothing there says so.
#[tokio::test]
async fn a_node_that_was_replaced_and_does_not_know_it_is_left() {
    let options = ConnectionOptions {
        probe_every: Duration::from_millis(100),
        ..ConnectionOptions::default()
    };
    for only_there in [false, true] {
        let cluster = Cluster::masters(3);
        let is_there = |bucket: &BucketKey| {
            let slot = cluster.slot_of(&keys::part("duly", bucket, "wake"));
            cluster.master_of(slot) == 0
        };
        let mut buckets: Vec<_> = (0..20).map(bucket).collect();
        buckets.retain(|bucket| !only_there || is_there(bucket));
        let (news, counts) = listen_with(&cluster.url(), &options);
        news.add(&buckets);
        until("it listens", || news.is_healthy()).await;
        let channels = |node| cluster.node(node).cli(&["PUBSUB", "SHARDCHANNELS"]);
        assert_ne!(channels(0), "");
        cluster.cut_off(0, 1);
        until("it is left", || channels(0).is_empty()).await;
        until("it listens elsewhere", || news.is_healthy()).await;
        for bucket in &buckets {
            let before = counts.of(bucket);
            publish(&cluster.url(), bucket, "you").await;
            until("it is heard", || counts.of(bucket) > before).await;
        }
        assert_eq!(channels(0), "", "it is believed again");
    }
}
