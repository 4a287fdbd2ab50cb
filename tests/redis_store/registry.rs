//! The registry of buckets and of what was set: what nodes read of it, and what becomes of it in a
//! failover that loses the last writes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::prelude::*;
use duly::records::NodeId;
use duly::store::operation::{NewEvent, StoreOp};
use duly::store::{MemberInfo, RedisOptions, RedisStore, Setting, Store};
use duly::time::{Timestamp, When};
use duly::{QueueName, Unique};
use futures_util::future::join_all;
use futures_util::poll;
use tokio::task::yield_now;

use crate::redis_store::kit::{Bare, Read, fresh, push_to, pusher, stop, until};
use crate::servers::Redis;

const PARTS: [&str; 4] = ["registered", "registry", "members", "control"];

/// The registry as it was, so that it can come back like a replica that lacks the last writes.
struct Tail<'a> {
    server: &'a Redis,
    prefix: String,
}

impl<'a> Tail<'a> {
    /// From here on the writes are the tail.
    fn begins(server: &'a Redis, prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        let tail = Self { server, prefix };
        for key in tail.keys() {
            server.cli(&["COPY", &key, &format!("{key}:replica"), "REPLACE"]);
        }
        tail
    }

    fn lose(self) {
        for key in self.keys() {
            self.server.cli(&["DEL", &key]);
            self.server
                .cli(&["RENAME", &format!("{key}:replica"), &key]);
        }
    }

    fn keys(&self) -> [String; 4] {
        PARTS.map(|part| format!("{}:{{hub}}:{part}", self.prefix))
    }
}

pub(super) fn letters(bucket: u16) -> BucketKey {
    BucketKey::new(QueueName::new("letters").unwrap(), BucketId(bucket))
}

async fn push(store: &RedisStore, bucket: &BucketKey) {
    try_push(store, bucket).await.expect("a push");
}

pub(super) async fn try_push(store: &RedisStore, bucket: &BucketKey) -> duly::Result<()> {
    let now = Timestamp::from_micros_up(store.now_us());
    let id = EventId::from_parts(now, bucket.bucket, fastrand::u64(..));
    let payload = Payload::from(&b"\"a letter\""[..]);
    let event = NewEvent {
        envelope: Arc::new(Envelope::new(id, bucket.queue.clone(), payload)),
        when: When::Now,
        on_taken: Unique::Keep,
    };
    let pushed = store.apply(bucket, StoreOp::Push(vec![event])).await;
    pushed.map(drop)
}

/// The versions of the buckets and of the controls.
pub(super) async fn versions(store: &RedisStore) -> (u64, u64) {
    let me = MemberInfo {
        node: NodeId(9),
        queues: Arc::from([]),
        host: "".into(),
        leaves: false,
    };
    let roll = store.poll_members(me).await.expect("it is answered");
    (roll.buckets_version, roll.controls_version)
}

/// What the server has sent, in bytes.
fn sent(server: &Redis) -> u64 {
    let info = server.cli(&["INFO", "stats"]);
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.expect("it is told").trim().parse().expect("a number")
}

/// How often a command was carried out.
fn calls(server: &Redis, command: &str) -> u64 {
    let info = server.cli(&["INFO", "commandstats"]);
    let begin = format!("cmdstat_{command}:calls=");
    let line = info.lines().find_map(|line| line.strip_prefix(&begin));
    line.map_or(0, |line| {
        let number = line.split(',').next();
        number.expect("a number").parse().expect("a number")
    })
}

#[tokio::test]
async fn a_version_never_comes_again_after_the_last_writes_were_lost() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let writer = RedisStore::open(&url).await.unwrap();
    let queue = QueueName::new("letters").unwrap();
    push(&writer, &letters(0)).await;
    writer.set(&queue, Setting::Paused(true)).await.unwrap();
    let first = versions(&writer).await;
    let tail = Tail::begins(&server, &prefix);
    push(&writer, &letters(1)).await;
    writer.set(&queue, Setting::Paused(false)).await.unwrap();
    let second = versions(&writer).await;
    tail.lose();
    assert_eq!(versions(&writer).await, first, "equal content");
    let other = RedisStore::open(&url).await.unwrap();
    push(&other, &letters(2)).await;
    other.set(&queue, Setting::Rate(Some(1.0))).await.unwrap();
    let third = versions(&writer).await;
    let different = |one: (u64, u64), two: (u64, u64)| one.0 != two.0 && one.1 != two.1;
    assert!(different(first, second) && different(second, third) && different(first, third));
}

#[tokio::test]
async fn what_a_failover_took_from_the_registry_is_read_anew_and_written_again() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let (one, two) = (
        RedisStore::open(&url).await.unwrap(),
        RedisStore::open(&url).await.unwrap(),
    );
    push(&one, &letters(0)).await;
    let tail = Tail::begins(&server, &prefix);
    for bucket in 1..4 {
        push(&one, &letters(bucket)).await;
    }
    let all: Vec<_> = (0..4).map(letters).collect();
    assert_eq!(two.buckets().await.unwrap(), all);
    tail.lose();
    push(&one, &letters(1)).await; // it stands as known
    for bucket in 7..10 {
        let third = RedisStore::open(&url).await.unwrap();
        push(&third, &letters(bucket)).await;
    }
    let all: Vec<_> = (0..4).chain(7..10).map(letters).collect();
    until(
        "the lost ones are written again by who knew them",
        async || two.buckets().await.unwrap() == all,
    )
    .await;
    let newcomer = RedisStore::open(&url).await.unwrap();
    assert_eq!(newcomer.buckets().await.unwrap(), all);
}

/// As many writes are made after the failover as it took, so that a counter would say the same.
#[tokio::test]
async fn a_new_bucket_and_a_resume_reach_every_node_after_a_failover() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let (read, bus) = Read::start(&url).await; // its settings name one bucket
    let handled = async |queue: &Queue<String>, bucket: u16| {
        let id = push_to(queue, bucket).await.expect("a push");
        until("it is handled", async || read.seen().contains_key(&id)).await;
    };
    let (old, queue) = pusher(&url).await;
    handled(&queue, 0).await;
    let tail = Tail::begins(&server, &prefix);
    handled(&queue, 1).await;
    bus.pause("letters").await.unwrap();
    until("it is paused", async || {
        bus.controls().await.unwrap()["letters"].paused
    })
    .await;
    stop(&old).await;
    tail.lose();
    let (new, queue) = pusher(&url).await;
    new.set_rate("letters", Some(1e6)).await.unwrap();
    handled(&queue, 2).await;
    handled(&queue, 1).await;
    stop(&new).await;
    stop(&bus).await;
}

/// A cold start: buckets come one after the other, and a node reads after each.
#[tokio::test]
async fn nodes_read_of_the_registry_only_what_is_new() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let writer = RedisStore::open(&url).await.unwrap();
    let reader = RedisStore::open(&url).await.unwrap();
    let before = sent(&server);
    for bucket in 0..500 {
        push(&writer, &letters(bucket)).await;
        assert_eq!(
            reader.buckets().await.unwrap().len(),
            usize::from(bucket) + 1
        );
    }
    let each = (sent(&server) - before) / 500;
    // All of them each time would be 5,000 bytes and more.
    assert!(each < 1_000, "{each} bytes were sent for each bucket");
}

/// A count of a queue reads its buckets first: each that had an event before the count began.
#[tokio::test]
async fn the_buckets_of_a_queue_are_those_of_now_and_calls_at_once_share_a_read() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let writer = RedisStore::open(&url).await.unwrap();
    let reader = RedisStore::open(&url).await.unwrap();
    let queue = QueueName::new("letters").unwrap();
    for bucket in 0..20 {
        push(&writer, &letters(bucket)).await;
        let listed = reader.buckets_of(&queue).await.unwrap().buckets;
        assert_eq!(listed.len(), usize::from(bucket) + 1);
    }
    let before = calls(&server, "lrange");
    server.stop_process(); // none ends before the last one has begun
    let mut reads = pin!(join_all((0..200).map(|_| reader.buckets_of(&queue))));
    for _ in 0..20 {
        assert!(poll!(&mut reads).is_pending());
        yield_now().await;
    }
    server.cont();
    let reads = reads.await;
    assert!(
        reads
            .iter()
            .all(|it| it.as_ref().unwrap().buckets.len() == 20)
    );
    let read = calls(&server, "lrange") - before;
    assert!((1..=20).contains(&read), "{read} reads of 200 calls");
}

#[tokio::test]
async fn buckets_that_come_together_are_registered_together() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let store = RedisStore::open(&url).await.unwrap();
    push(&store, &letters(0)).await;
    let before = calls(&server, "evalsha");
    let keys: Vec<_> = (1..=600).map(letters).collect();
    join_all(keys.iter().map(|key| push(&store, key))).await;
    let registered = calls(&server, "evalsha") - before; // pushes are calls of a function
    assert!(registered < 60, "{registered} calls");
    let listed = store.buckets().await.unwrap();
    assert_eq!(listed.len(), 601);
    // Whoever has read the list registers nothing of it.
    let other = RedisStore::open(&url).await.unwrap();
    other.buckets().await.unwrap();
    let before = calls(&server, "sismember");
    tokio::time::timeout(
        Duration::from_secs(20),
        join_all(keys.iter().map(|key| push(&other, key))),
    )
    .await
    .expect("it is quick");
    assert_eq!(calls(&server, "sismember"), before);
}

/// A node of an older version says no host; its row is read all the same, and leaves with it.
#[tokio::test]
async fn a_member_without_a_host_is_read_and_one_that_leaves_takes_its_host_along() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let store = RedisStore::open(&url).await.unwrap();
    let me = |node: u64, leaves| MemberInfo {
        node: NodeId(node),
        queues: Arc::from(["letters".parse().unwrap()]),
        host: "web-3".into(),
        leaves,
    };
    store.poll_members(me(1, false)).await.unwrap();
    let key = format!("{prefix}:{{hub}}:queues");
    let field = "\0\0\0\0\0\0\0\u{1}h";
    let delete = format!("return redis.call('HDEL', KEYS[1], {})", lua_text(field));
    assert_eq!(server.cli(&["EVAL", &delete, "1", &key]), "1");
    let other = RedisStore::open(&url).await.unwrap();
    let members = other.poll_members(me(2, false)).await.unwrap().members;
    let hosts: Vec<_> = members.iter().map(|it| (it.node.0, &*it.host)).collect();
    assert_eq!(hosts, [(1, ""), (2, "web-3")]);
    assert!(members.iter().all(|it| it.queues.len() == 1));

    other.poll_members(me(2, true)).await.unwrap();
    assert_eq!(server.cli(&["HLEN", &key]), "1", "the queues of the first");
}

/// A text of Lua with each byte by its number.
fn lua_text(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("\\{byte:03}"));
    format!("'{}'", bytes.collect::<String>())
}

/// The machine may be too busy for one or another of them.
#[tokio::test]
async fn a_push_that_is_never_repeated_registers_its_bucket() {
    let server = Redis::plain();
    let mut refused = 0;
    for _ in 0..20 {
        let (url, _) = fresh(&server.url());
        let options = RedisOptions::new().retry_for(Duration::ZERO);
        let bare = Bare::open_with(&url, options).await;
        match bare.push(bare.new_id(), When::Now).await {
            Ok(_) => return,
            Err(_) => refused += 1,
        }
    }
    panic!("all of {refused} were refused");
}
