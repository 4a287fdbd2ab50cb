//! Tests of calls that wait until they are durable.

use std::time::Duration;

use tokio::time::Instant;

use super::super::managed::durable::{DurabilityWait, ReachedDurability};
use super::pretend::{self, Act};
use super::servers::{Redis, RedisOptions};
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
        Act::Say(":1\r\n"),
        Act::Say("-NOSCRIPT No matching script. Please use EVAL.\r\n"),
        Act::Say(":0\r\n"), // replicas of the first one
        Act::Say(":2\r\n"),
        Act::Say(":1\r\n"), // replicas of the one that has taken over
    ];
    let link = open(&pretend::cluster(acts.into()).await).await;
    let calling = call(COUNT, "k");
    let wait = replicas(1, 50);
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
