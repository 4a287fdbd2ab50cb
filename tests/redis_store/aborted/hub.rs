//! The registry, settings and membership, each with a script that fails after each of its writes.
//! These are called by their hashes, for which a proxy gives the server those of others that fail.

use std::sync::Arc;

use duly::QueueName;
use duly::records::NodeId;
use duly::store::{MemberInfo, RedisStore, Setting, Store};
use futures_util::future::join_all;

use super::load;
use crate::redis_store::faulty::{aborted, fail_after, has_failed};
use crate::redis_store::kit::{fresh, until};
use crate::redis_store::registry::{letters, try_push, versions};
use crate::servers::{Proxy, Redis};

/// The scripts on the keys that all nodes share.
pub(super) const ALL: [&str; 3] = ["poll_members", "register", "set"];

/// More writes than any of these has here.
const WRITES_MAX: usize = 30;

struct Hub {
    server: Redis,
    proxy: Proxy,
}

/// Two stores on one prefix: the scripts of the first may fail.
struct Pair {
    prefix: String,
    failing: RedisStore,
    other: RedisStore,
}

impl Hub {
    async fn new() -> Self {
        let server = Redis::plain();
        let (url, _) = fresh(&server.url());
        drop(RedisStore::open(&url).await.expect("a store")); // it removes libraries of others
        let proxy = Proxy::before(server.address());
        proxy.swap(load(&server));
        Self { server, proxy }
    }

    async fn pair(&self) -> Pair {
        let (url, prefix) = fresh(&self.server.url());
        let through = format!("{}?prefix={prefix}", self.proxy.url());
        Pair {
            prefix,
            failing: RedisStore::open(&through).await.expect("a store"),
            other: RedisStore::open(&url).await.expect("a store"),
        }
    }

    fn ask(&self, pair: &Pair, command: &str, part: &str) -> String {
        let key = format!("{}:{{hub}}:{part}", pair.prefix);
        self.server.cli(&[command, &key]).trim().to_owned()
    }
}

/// Whoever has seen the one state and version sees by the other version that the state is another.
fn is_seen<T: PartialEq + std::fmt::Debug>(one: &(T, u64), other: &(T, u64), what: &str) {
    assert!(
        one.0 == other.0 || one.1 != other.1,
        "{what}: {one:?}, {other:?}"
    );
}

#[tokio::test]
async fn a_bucket_is_seen_whichever_write_of_its_registration_fails() {
    let hub = Hub::new().await;
    for writes in 0..WRITES_MAX {
        let what = format!("after {writes} writes");
        let pair = hub.pair().await;
        let state = async || {
            let buckets = pair.other.buckets().await.expect("the list");
            (buckets, versions(&pair.other).await.0)
        };
        try_push(&pair.other, &letters(9)).await.expect("a push");
        let before = state().await;
        fail_after(&hub.server, writes);
        let buckets = [0, 1, 2].map(letters);
        let push = async || {
            let pushes = buckets.iter().map(|it| try_push(&pair.failing, it));
            join_all(pushes)
                .await
                .into_iter()
                .collect::<Result<(), _>>()
        };
        let first = push().await;
        let between = state().await;
        is_seen(&before, &between, &what);
        let has_failed = has_failed(&hub.server);
        assert!(has_failed || first.is_ok(), "{what}: {first:?}");
        until("it is repeated", async || push().await.is_ok()).await;
        let after = state().await;
        is_seen(&before, &after, &what);
        is_seen(&between, &after, &what);
        assert_eq!(after.0, [0, 1, 2, 9].map(letters), "{what}");
        assert_eq!(hub.ask(&pair, "SCARD", "registered"), "4", "{what}");
        if !has_failed {
            assert!(aborted(&hub.server).contains(&"register".to_owned()));
            return;
        }
    }
    panic!("more than {WRITES_MAX} writes");
}

#[tokio::test]
async fn a_setting_is_seen_whichever_write_of_it_fails() {
    let hub = Hub::new().await;
    let queue = QueueName::new("letters").expect("a legal name");
    let changes = [Setting::Workers(Some(3)), Setting::Paused(false)];
    for change in changes {
        for writes in 0..WRITES_MAX {
            let what = format!("{change:?}, after {writes} writes");
            let pair = hub.pair().await;
            let state = async || {
                let controls = pair.other.controls().await.expect("the settings");
                (controls, versions(&pair.other).await.1)
            };
            let paused = Setting::Paused(true);
            pair.other.set(&queue, paused).await.expect("a change");
            let before = state().await;
            fail_after(&hub.server, writes);
            let first = pair.failing.set(&queue, change).await;
            let has_failed = has_failed(&hub.server);
            let between = state().await;
            is_seen(&before, &between, &what);
            if first.is_err() {
                assert!(has_failed, "{what}: {first:?}");
                pair.failing.set(&queue, change).await.expect("a repeat");
            }
            let after = state().await;
            is_seen(&before, &after, &what);
            is_seen(&between, &after, &what);
            let of_queue = after.0.get(&queue).copied().unwrap_or_default();
            assert_eq!(of_queue.with(change), of_queue, "{what}: it is not set");
            if !has_failed {
                break;
            }
            assert!(writes + 1 < WRITES_MAX, "{what}");
        }
    }
    assert_eq!(aborted(&hub.server), ["set"]);
}

#[tokio::test]
async fn a_node_comes_and_goes_whichever_write_of_that_fails() {
    let hub = Hub::new().await;
    let queues = Arc::from([QueueName::new("letters").expect("a legal name")]);
    let me = MemberInfo {
        node: NodeId(7),
        queues: Arc::clone(&queues),
        host: "here".into(),
        leaves: false,
    };
    for (act, left) in [("comes", "3"), ("stays", "2"), ("leaves", "0")] {
        let leaves = act == "leaves";
        for writes in 0..WRITES_MAX {
            let what = format!("{act}, after {writes} writes");
            let pair = hub.pair().await;
            let me = |leaves| MemberInfo {
                leaves,
                ..me.clone()
            };
            if act != "comes" {
                let came = pair.failing.poll_members(me(false)).await;
                came.expect("a poll");
            }
            // A node that has been silent for long leaves with the poll of any other member.
            for (key, value) in [("members", "1:0"), ("queues", "letters")] {
                let key = format!("{}:{{hub}}:{key}", pair.prefix);
                hub.server.cli(&["HSET", &key, "silent!!", value]);
            }
            fail_after(&hub.server, writes);
            let first = pair.failing.poll_members(me(leaves)).await;
            let has_failed = has_failed(&hub.server);
            if first.is_err() {
                assert!(has_failed, "{what}: {first:?}");
                let again = pair.failing.poll_members(me(leaves)).await;
                again.expect("a repeat");
            }
            let seen = MemberInfo {
                node: NodeId(8),
                queues: Arc::from([]),
                host: "".into(),
                leaves: false,
            };
            let members = pair.other.poll_members(seen).await.expect("a poll").members;
            assert_eq!(members.len(), usize::from(!leaves), "{what}: {members:?}");
            assert!(
                members.iter().all(|it| it.queues == queues),
                "{what}: {members:?}"
            );
            if !has_failed {
                assert_eq!(hub.ask(&pair, "HLEN", "queues"), left, "{what}");
                break;
            }
            assert!(writes + 1 < WRITES_MAX, "{what}");
        }
    }
    assert_eq!(aborted(&hub.server), ["poll_members"]);
}
