//! Tests of a subscription some of whose servers are away, or seem to be there.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::super::hub::notifications::Notifications;
use super::super::hub::origin::Origin;
use super::super::link::options::ConnectionOptions;
use super::super::link::url::Target;
use super::servers::{Cluster, Fault, Proxy, Redis, RedisOptions};
use super::subscription::{Counts, bucket, callbacks, listen_as, listen_with, publish, until};

/// What a call does whose reply nobody has read.
#[tokio::test]
async fn what_was_said_under_a_name_of_before_is_heard() {
    let server = Redis::plain();
    let origin = Origin::of("me");
    let (news, counts) = listen_as(&server.url(), &ConnectionOptions::default(), &origin);
    news.add([&bucket(1)]);
    until("it listens", || news.is_healthy()).await;
    origin.change();
    publish(&server.url(), &bucket(1), &origin.name()).await;
    publish(&server.url(), &bucket(1), "me").await;
    until("it is heard", || counts.of(&bucket(1)) > 1).await;
    assert_eq!(counts.of(&bucket(1)), 2, "its own is not");
}

/// One node takes no subscription; another one is replaced meanwhile, and does not know it.
#[tokio::test]
async fn a_node_that_was_replaced_is_left_while_another_one_is_away() {
    let options = ConnectionOptions {
        probe_every: Duration::from_millis(100),
        ..ConnectionOptions::default()
    };
    let cluster = Cluster::masters(3);
    let away = cluster.node(2);
    assert_eq!(
        away.cli(&["ACL", "SETUSER", "default", "-ssubscribe"]),
        "OK"
    );
    let (news, _counts) = listen_with(&cluster.url(), &options);
    let buckets: Vec<_> = (0..20).map(bucket).collect();
    news.add(&buckets);
    let channels = |node| cluster.node(node).cli(&["PUBSUB", "SHARDCHANNELS"]);
    until("it listens there", || !channels(0).is_empty()).await;
    cluster.cut_off(0, 1);
    until("it is left", || channels(0).is_empty()).await;
    assert!(!news.is_healthy());
}

/// A balancer has forgotten all connections, and nothing says so.
#[tokio::test]
async fn a_subscription_is_probed_when_another_connection_was_replaced() {
    let server = Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    });
    let proxy = Proxy::before(server.address());
    let options = ConnectionOptions {
        connect_timeout: Duration::from_millis(200),
        probe_every: Duration::from_secs(3_600),
        ..ConnectionOptions::default()
    };
    let target = Target::parse(&proxy.url()).expect("a URL");
    let (made, replaced) = watch::channel(1);
    let counts = Arc::new(Counts::default());
    let news = Notifications::open(
        &target,
        &options,
        "duly",
        &Origin::of("me"),
        replaced,
        callbacks(&counts),
    );
    news.add([&bucket(1)]);
    until("it listens", || news.is_healthy()).await;
    proxy.on_request(|_| Some(Fault::Hang));
    made.send_modify(|made| *made += 1);
    until("it is noticed", || !news.is_healthy()).await;
    proxy.heal();
    until("it listens", || news.is_healthy()).await;
}
