//! How durable a push is, and what is said when that was not reached.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::prelude::*;
use duly::store::{Durability, RedisStore, Store};

use crate::redis_store::kit::{Read, fresh, pusher, stop, until};
use crate::servers::{Aof, Redis, RedisOptions, newest_program};

fn with_aof(aof: Aof) -> Redis {
    Redis::start(RedisOptions {
        aof,
        ..RedisOptions::default()
    })
}

/// A server and a replica that has all of its data.
pub(crate) async fn with_replica() -> (Redis, Redis) {
    let options = || RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    };
    let (master, replica) = (Redis::start(options()), Redis::start(options()));
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    until("the replica is there", async || {
        master
            .cli(&["INFO", "replication"])
            .contains("state=online")
    })
    .await;
    (master, replica)
}

fn says_what_to_do(error: &duly::Error) {
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    let words = error.to_string();
    for part in [
        "the push happened",
        "0 replicas, not 1",
        "same ids again is safe",
    ] {
        assert!(words.contains(part), "{words}");
    }
}

#[tokio::test]
async fn a_store_says_how_durable_its_server_is() {
    for (aof, durability) in [
        (Aof::Off, Durability::Memory),
        (Aof::Everysec, Durability::OsCache),
        (Aof::Always, Durability::Disk),
    ] {
        let server = with_aof(aof);
        let store = RedisStore::open(&server.url()).await.unwrap();
        assert_eq!(store.durability(), durability);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_push_that_a_replica_has_says_so() {
    let (master, replica) = with_replica().await;
    let (url, prefix) = fresh(&master.url());
    let (bus, queue) = pusher(&url).await;
    let event = queue.event("a".to_owned()).after(Duration::from_secs(60));
    let sent = event.durable(Durability::Replicated(1)).push().await;
    let sent = sent.unwrap();
    assert!(sent.is_accepted());
    assert_eq!(sent.durability(), Durability::Replicated(1));
    let key = format!("{prefix}:{{letters:0}}:body");
    assert_eq!(replica.cli(&["HLEN", &key]), "1");
    stop(&bus).await;
}

#[tokio::test]
async fn a_push_that_no_replica_confirms_can_be_pushed_again() {
    let (master, mut replica) = with_replica().await;
    let (url, _) = fresh(&master.url());
    let (bus, queue) = pusher(&url).await;
    let id = queue.new_id();
    let push = |durability: Option<Durability>| {
        let event = queue.event("a".to_owned()).id(id);
        let event = event.after(Duration::from_millis(10));
        match durability {
            Some(durability) => event.durable(durability).push(),
            None => event.push(),
        }
    };
    replica.stop_process();
    let error = push(Some(Durability::Replicated(1))).await.unwrap_err();
    says_what_to_do(&error);
    assert!(queue.get(id).await.unwrap().is_some(), "it happened");
    replica.cont();
    let again = push(Some(Durability::Replicated(1))).await.unwrap();
    assert!(again.is_duplicate());
    assert_eq!(
        (again.id(), again.durability()),
        (id, Durability::Replicated(1))
    );
    replica.kill();
    let error = push(Some(Durability::Replicated(1))).await.unwrap_err();
    says_what_to_do(&error);

    let (read, worker) = Read::start(&url).await;
    until("it is handled", async || !read.seen().is_empty()).await;
    assert!(push(None).await.unwrap().is_duplicate());
    stop(&worker).await;
    assert_eq!(read.seen(), BTreeMap::from([(id, 1)]));
    stop(&bus).await;
}

/// Nothing can confirm it without an append-only file, or before 7.2.
#[tokio::test]
async fn a_push_to_disk_is_refused_where_nothing_can_confirm_it() {
    let newest = || Some(newest_program());
    for (aof, program) in [
        (Aof::Off, None),
        (Aof::Off, newest()),
        (Aof::Everysec, None),
    ] {
        let server = Redis::start(RedisOptions {
            aof,
            program,
            ..RedisOptions::default()
        });
        let (url, _) = fresh(&server.url());
        let (bus, queue) = pusher(&url).await;
        let id = queue.new_id();
        let event = queue.event("a".to_owned()).id(id);
        let sent = event.durable(Durability::Disk).push().await;
        if aof == Aof::Everysec && !server.cli(&["COMMAND", "INFO", "WAITAOF"]).is_empty() {
            sent.expect("the oldest server that there is can confirm it");
        } else {
            let error = sent.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            let words = error.to_string();
            for part in ["durability Disk", "appendfsync always", "7.2"] {
                assert!(words.contains(part), "{words}");
            }
            assert_eq!(queue.get(id).await.unwrap(), None);
            assert_eq!(bus.stats("letters").await.unwrap(), Default::default());
        }
        stop(&bus).await;
    }
}

/// A push comes at any moment between two syncs, and a sync may take long.
#[tokio::test]
async fn a_server_that_syncs_once_a_second_confirms_each_push_to_disk() {
    let server = Redis::start(RedisOptions {
        aof: Aof::Everysec,
        program: Some(newest_program()),
        ..RedisOptions::default()
    });
    let (url, _) = fresh(&server.url());
    let (bus, queue) = pusher(&url).await;
    for _ in 0..5 {
        let event = queue.event("a".to_owned()).durable(Durability::Disk);
        let sent = event.push().await.unwrap();
        assert!(sent.is_accepted());
        assert_eq!(sent.durability(), Durability::Disk);
    }
    stop(&bus).await;
}

#[tokio::test]
async fn a_server_that_syncs_always_takes_a_push_to_disk() {
    let server = with_aof(Aof::Always);
    let (url, _) = fresh(&server.url());
    let (bus, queue) = pusher(&url).await;
    let event = queue.event("a".to_owned()).durable(Durability::Disk);
    let sent = event.push().await.unwrap();
    assert!(sent.is_accepted());
    assert_eq!(sent.durability(), Durability::Disk);
    stop(&bus).await;
}
