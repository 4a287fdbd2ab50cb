//! Tests of a scan over the keys of all masters.

use std::collections::BTreeSet;

use redis::Value;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::super::managed::ManagedConnection;
use super::super::masters::scan;
use super::servers::{Aof, Cluster, Redis, RedisOptions};
use super::{open, words};

/// A key of the first slot.
const FIRST: &str = "{06S}";

/// Sets many keys.
async fn fill(link: &ManagedConnection) -> BTreeSet<String> {
    let keys: BTreeSet<_> = (0..300).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        link.send(&words(&["SET", key, ""]))
            .await
            .expect("it is set");
    }
    keys
}

/// Scans, and checks that each of these keys is found; `between` is called after each step.
async fn finds(
    link: &ManagedConnection,
    mut keys: BTreeSet<String>,
    mut between: impl FnMut(&[String]) + Send,
) {
    let step = |found: Vec<Vec<u8>>| {
        let found = found.into_iter().map(String::from_utf8);
        let found: Vec<_> = found.collect::<Result<_, _>>().expect("texts");
        between(&found);
        keys.retain(|key| !found.contains(key));
    };
    scan(link, "key:*", 10, step).await.expect("a scan");
    assert!(keys.is_empty(), "{} keys were missed", keys.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_finds_each_key_of_a_master_whose_first_slot_moves_meanwhile() {
    let cluster = Cluster::masters(3);
    let link = open(&cluster.url()).await;
    let keys = fill(&link).await;
    let from = cluster.master_of(0);
    let mut to = [from, (from + 1) % 3, (from + 2) % 3].into_iter().skip(1);
    let mut steps = 0;
    let scanned = finds(&link, keys, |keys| {
        let is_there = |key: &String| cluster.master_of(cluster.slot_of(key)) == from;
        if !keys.first().is_some_and(is_there) {
            return;
        }
        steps += 1;
        if steps == 3
            && let Some(to) = to.next()
        {
            cluster.move_slot(0, to);
            // The connection finds out.
            let get = words(&["GET", FIRST]);
            let got = block_in_place(|| Handle::current().block_on(link.send(&get)));
            assert_eq!(got.expect("it is answered"), Value::Nil);
        }
    });
    scanned.await;
    assert!(steps > 3, "{steps} steps");
}

#[tokio::test]
async fn a_scan_finds_each_key_of_a_server_that_is_another_one_meanwhile() {
    let mut server = Redis::start(RedisOptions {
        aof: Aof::Always,
        tcp: true,
        ..RedisOptions::default()
    });
    let link = open(&server.url()).await;
    let keys = fill(&link).await;
    let mut steps = 0;
    let scanned = finds(&link, keys, |_| {
        steps += 1;
        if [3, 20].contains(&steps) {
            server.restart();
        }
    });
    scanned.await;
    assert!(steps > 30, "{steps} steps");
}
