//! Tests of calls that wait until they are durable.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::super::managed::ManagedConnection;
use super::super::managed::durable::{DurabilityWait, ReachedDurability};
use super::pretend::{self, Act};
use super::servers::{Cluster, Redis, RedisOptions};
use super::{COUNT, call, count, open};
use crate::error::ErrorKind;

fn replicas(replicas: u16, millis: u64) -> DurabilityWait {
    DurabilityWait {
        disk: false,
        replicas,
        timeout: Duration::from_millis(millis),
    }
}

fn reached(replicas: u16) -> ReachedDurability {
    ReachedDurability {
        disk: false,
        replicas,
    }
}

#[tokio::test]
async fn what_was_not_reached_is_said_and_it_happened_all_the_same() {
    let server = Redis::plain();
    let link = open(&server.url()).await;
    let calling = call(COUNT, "k");
    let reply = link
        .run_text_durably(COUNT, &calling, replicas(1, 50))
        .await;
    let (value, so_far) = reply.expect("it runs");
    assert_eq!((value, so_far), (redis::Value::Int(1), reached(0)));
    assert_eq!(server.cli(&["GET", "k"]), "1");
}

#[tokio::test]
async fn a_replica_confirms() {
    let options = || RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    };
    let master = Redis::start(options());
    let replica = Redis::start(options());
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let link = open(&master.url()).await;
    let calling = call(COUNT, "k");
    // The first waits until the replica has all the data.
    let reply = link
        .run_text_durably(COUNT, &calling, replicas(1, 4_000))
        .await;
    assert_eq!(reply.expect("it runs").1, reached(1));
    assert_eq!(replica.cli(&["GET", "k"]), "1");

    replica.stop_process();
    let reply = link
        .run_text_durably(COUNT, &calling, replicas(1, 50))
        .await;
    assert_eq!(reply.expect("it runs").1, reached(0));
    replica.cont();
}

#[tokio::test]
async fn calls_that_come_together_wait_together_and_hold_nobody_else_up() {
    let server = Redis::plain();
    let link = open(&server.url()).await;
    let began = Instant::now();
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let link = link.clone();
            tokio::spawn(async move {
                let calling = call(COUNT, "k");
                link.run_text_durably(COUNT, &calling, replicas(1, 300))
                    .await
            })
        })
        .collect();
    let beside = Instant::now();
    count(&link, "beside").await.expect("it runs");
    assert!(
        beside.elapsed() < Duration::from_millis(250),
        "it was held up"
    );

    let mut values = Vec::new();
    for call in calls {
        match call.await.expect("no panic").expect("it runs") {
            (redis::Value::Int(value), _) => values.push(value),
            other => panic!("{other:?}"),
        }
    }
    // Each has its own reply, and all of them took a few waits, not a hundred.
    values.sort_unstable();
    assert_eq!(values, (1..=100).collect::<Vec<_>>());
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
}

/// Calls of a key each, all at the same time; each key was counted `times` before its reply.
async fn count_each(link: &ManagedConnection, keys: &[String], times: i64) {
    let calls = keys.iter().map(async |key| {
        let calling = call(COUNT, key);
        let wait = replicas(1, 300);
        link.run_text_durably(COUNT, &calling, wait).await
    });
    for (key, reply) in keys.iter().zip(join_all(calls).await) {
        let reply = reply.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(reply, (redis::Value::Int(times), reached(0)), "{key}");
    }
}

#[tokio::test]
async fn calls_of_one_node_wait_together_whatever_their_slots_and_wherever_some_have_gone() {
    let cluster = Cluster::masters(3);
    let (from, to) = (cluster.master_of(0), cluster.master_of(16_383));
    let keys = (0..).map(|number| format!("{{{number}}}"));
    let is_there = |key: &String| cluster.master_of(cluster.slot_of(key)) == from;
    let keys: Vec<_> = keys.filter(is_there).take(24).collect();
    let link = open(&cluster.url()).await;
    count_each(&link, &keys, 1).await;
    count_each(&link, &keys, 2).await;
    let stats = cluster.node(from).cli(&["INFO", "commandstats"]);
    let waits = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    let waits = waits.and_then(|line| line.split(',').next());
    let waits: u32 = waits.expect("it has waited").parse().expect("a number");
    assert!(waits <= 6, "{waits} waits for 48 calls");

    // The first of a group, the last, and one between.
    let mut times = 2;
    for gone in [0, 23, 12] {
        cluster.move_slot(cluster.slot_of(&keys[gone]), to);
        times += 1;
        count_each(&link, &keys, times).await;
    }
    // One that is on its way: its key has gone before its slot.
    let (key, slot) = (&keys[5], cluster.slot_of(&keys[5]).to_string());
    let (from, to) = (cluster.node(from), cluster.node(to));
    let (from_id, to_id) = (from.cli(&["CLUSTER", "MYID"]), to.cli(&["CLUSTER", "MYID"]));
    to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
    from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    from.cli(&[
        "MIGRATE",
        "127.0.0.1",
        &to.port.to_string(),
        key,
        "0",
        "5000",
    ]);
    count_each(&link, &keys, times + 1).await;
}

#[tokio::test]
async fn a_server_that_cannot_confirm_is_doubted_not_believed() {
    let server = Redis::plain();
    let link = open(&server.url()).await;
    let wait = DurabilityWait {
        disk: true,
        ..replicas(0, 50)
    };
    let reply = link.run_text_durably(COUNT, &call(COUNT, "k"), wait).await;
    // Before 7.2 there is no WAITAOF; after it, it needs an append-only file.
    let error = reply.expect_err("nobody can confirm");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(error.to_string().contains("carried out"), "{error}");
    assert_eq!(server.cli(&["GET", "k"]), "1");
}

/// The second server confirms what it has, and that is not what the first one had.
#[tokio::test]
async fn a_script_that_is_brought_to_another_server_confirms_no_call_of_the_first() {
    let acts = [
        Act::Say(":1\r\n"), // the first call, which connects
        Act::Say(":0\r\n"),
        Act::Say(":1\r\n"),
        Act::Say("-NOSCRIPT No matching script. Please use EVAL.\r\n"),
        Act::Say(":0\r\n"), // replicas of the first one
        Act::Say(":2\r\n"),
        Act::Say(":1\r\n"), // replicas of the one that has taken over
    ];
    let link = open(&pretend::cluster(acts.into()).await).await;
    let calling = call(COUNT, "k");
    let wait = replicas(1, 50);
    let connects = link.run_text_durably(COUNT, &calling, wait).await;
    connects.expect("it runs");
    let (first, second) = tokio::join!(
        link.run_text_durably(COUNT, &calling, wait),
        link.run_text_durably(COUNT, &calling, wait),
    );
    for (reply, value) in [(first, 1), (second, 2)] {
        let reply = reply.expect("it runs");
        assert_eq!(reply, (redis::Value::Int(value), reached(0)));
    }
}

#[tokio::test]
async fn one_refused_call_of_a_group_is_refused_alone() {
    let server = Redis::plain();
    let link = open(&server.url()).await;
    const REFUSE: &str = "return redis.error_reply('DULY LEASELOST it is gone')";
    let (refusing, counting) = (call(REFUSE, "k"), call(COUNT, "k"));
    let (refused, counted) = tokio::join!(
        link.run_text_durably(REFUSE, &refusing, replicas(1, 50)),
        link.run_text_durably(COUNT, &counting, replicas(1, 50)),
    );
    assert_eq!(refused.expect_err("refused").kind(), ErrorKind::LeaseLost);
    counted.expect("it runs");
}
