//! What a kill costs: an attempt of what had started or was announced, and of nothing else.

#![allow(clippy::disallowed_methods)] // real time: this is about real processes

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use duly::EventId;
use duly::config::QueueChoices;
use duly::prelude::*;
use duly::records::NodeId;
use duly_conformance::history::{Entry, EntryKind};

use crate::nodes::{Role, Site, node_of, starts, starts_of};
use crate::servers::Redis;

/// How many wait when the node is killed, and how many of them it holds at least.
const MANY: usize = 600;
const HELD: usize = 300;
const WORKERS: usize = 4;
/// What a node with few workers announces: 64, and twice as many once they had to wait.
const ANNOUNCED_MAX: usize = 128;

/// A bus that pushes to the queue of the nodes.
async fn pusher(url: &str) -> (Bus, Queue<u64>) {
    let choices = QueueChoices {
        buckets: Some(1),
        ..QueueChoices::default()
    };
    let builder = Bus::builder().settings(Default::default()).store_url(url);
    let builder = builder.only_registered().publish_only();
    let bus = builder.queue("work", choices).start().await;
    let bus = bus.expect("a start");
    let queue = bus.queue_named("work").expect("a legal name");
    (bus, queue)
}

async fn until_leased(bus: &Bus, least: usize) {
    let gives_up = Instant::now() + Duration::from_secs(30);
    loop {
        let stats = bus.stats("work").await.expect("counts");
        if stats.leased >= least {
            return;
        }
        assert!(Instant::now() < gives_up, "{stats:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The attempt under which each event started on a node.
fn attempts_on(entries: &[Entry], node: NodeId) -> BTreeMap<EventId, u16> {
    let attempt = |entry: &Entry| match entry.what {
        EntryKind::Started { lease, attempt, .. } if lease.node == node => {
            Some((entry.id?, attempt))
        }
        _ => None,
    };
    entries.iter().filter_map(attempt).collect()
}

/// A node with few workers that never end holds hundreds of events and is killed; another one
/// handles them all.
async fn a_kill(case: &str, delay: Duration, started_min: usize) {
    let redis = Redis::plain();
    let site = Site::new(redis.url());
    let (bus, queue) = pusher(&site.url).await;
    let victim = site.spawn(&Role {
        holds: true,
        workers: WORKERS,
        buckets: 1,
        ring: Some(1_024),
        timeout: Duration::from_secs(600),
        ..Role::worker()
    });
    let process = victim.id();
    site.wait_until("the victim is there", |entries| {
        node_of(entries, process).is_some()
    });
    let payloads = vec![20; MANY]; // with the heir their handlers end well
    let pushed = queue.push_many(payloads, SystemTime::now() + delay).await;
    pushed.expect("they are pushed");
    site.wait_until("handlers start", |entries| {
        starts_of(entries, process) >= started_min
    });
    until_leased(&bus, HELD).await;
    victim.kill();
    let entries = site.entries();
    let dead = node_of(&entries, process).expect("it had joined");
    let begun: BTreeSet<EventId> = starts(&entries).map(|start| start.id).collect();

    let heir = site.spawn(&Role {
        buckets: 1,
        ..Role::worker()
    });
    let heir_id = heir.id();
    site.wait_until("everything is handled", |entries| {
        starts_of(entries, heir_id) >= MANY
    });
    let entries = site.entries();
    let node = node_of(&entries, heir_id).expect("it has started something");
    let again = attempts_on(&entries, node);
    let lost: BTreeSet<EventId> = again
        .iter()
        .filter(|(_, attempt)| **attempt > 1)
        .map(|(id, _)| *id)
        .collect();
    println!(
        "{case}: {} of {MANY} had started, {} lost an attempt, on node {dead}",
        begun.len(),
        lost.len()
    );
    assert_eq!(again.len(), MANY);
    assert!(
        begun.is_subset(&lost),
        "what had started has used its attempt"
    );
    assert!(
        lost.len() <= ANNOUNCED_MAX,
        "{} lost an attempt",
        lost.len()
    );
    heir.stop();
    bus.shutdown(Duration::from_secs(5)).await.expect("a stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_costs_no_attempt_of_what_waits_in_the_node() {
    a_kill("ready", Duration::ZERO, WORKERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_costs_no_attempt_of_what_was_read_ahead() {
    a_kill("read ahead", Duration::from_secs(2), 0).await;
}
