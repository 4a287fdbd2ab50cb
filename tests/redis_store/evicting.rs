//! A server that is set to throw keys away while a store is used.

use duly::records::NodeId;
use duly::store::{MemberInfo, Store};

use crate::redis_store::kit::{Bare, Log, fresh, until};
use crate::servers::Redis;

/// The settings of the servers are looked at once in so many membership polls.
const POLLS: usize = 240;

#[tokio::test]
async fn polls_of_the_members_notice_a_server_that_is_set_to_evict() {
    let log = Log::here();
    let server = Redis::plain();
    let bare = Bare::open(&fresh(&server.url()).0).await;
    let polls = async || {
        for _ in 0..POLLS {
            let me = MemberInfo {
                node: NodeId(1),
                queues: vec![bare.bucket.queue.clone()].into(),
                host: "web-1".into(),
                leaves: false,
            };
            bare.store.poll_members(me).await.expect("a poll");
        }
    };
    for (policy, words) in [
        ("allkeys-lru", "events may be lost"),
        ("noeviction", "no server throws keys away any more"),
    ] {
        server.cli(&["CONFIG", "SET", "maxmemory-policy", policy]);
        assert!(!log.has(words), "{policy}");
        polls().await;
        until(words, async || log.has(words)).await;
    }
}
