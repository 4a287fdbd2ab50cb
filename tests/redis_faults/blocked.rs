//! Handlers that block every thread of their runtime for longer than a lease lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::records::NodeId;

use crate::nodes::{Log, Memory, Role, Site, bus, push_one, starts, starts_of};
use crate::redis_faults::finish;
use crate::servers::Redis;

/// A lease is lost after 2 s without a heartbeat, and handed on within 3 s.
const BLOCKS: Duration = Duration::from_secs(5);

/// Pushes so many events, whose handlers succeed, and waits until each was started.
fn push(site: &Site, events: usize) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let log = Log::open(site.folder());
    runtime.block_on(async {
        let builder = Bus::builder().only_registered().publish_only();
        let builder = builder.settings(Default::default()).store_url(&site.url);
        let bus = builder.start().await.expect("a start");
        let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
        for _ in 0..events {
            push_one(&queue, &log, 0).await;
        }
        bus.shutdown(Duration::from_secs(30)).await.expect("a stop");
    });
    site.wait_until("each event was started", |entries| {
        let ids: BTreeSet<_> = starts(entries).map(|start| start.id).collect();
        ids.len() == events
    });
}

/// The beat of each node of the store.
fn beats(site: &Site) -> BTreeMap<NodeId, u64> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let builder = Bus::builder().only_registered().publish_only();
        let builder = builder.settings(Default::default()).store_url(&site.url);
        let bus = builder.start().await.expect("a start");
        let nodes = bus.nodes().await.expect("the nodes");
        bus.shutdown(Duration::from_secs(30)).await.expect("a stop");
        nodes.iter().map(|node| (node.id, node.beat)).collect()
    })
}

/// Two processes with such handlers, and how often each of some events is started.
fn each_is_started_once(case: &str, role: &Role, events: usize) {
    let redis = Redis::plain();
    let site = Site::new(redis.url());
    let nodes: Vec<_> = (0..2).map(|_| site.spawn(role)).collect();
    site.wait_until("both are there", |entries| {
        let joined = entries.iter().filter(|entry| entry.id.is_none());
        joined.count() == nodes.len()
    });
    push(&site, events);
    finish(case, &site, nodes, 0, Memory::Keeps);
    let mut often = BTreeMap::new();
    for start in starts(&site.entries()) {
        *often.entry(start.id).or_insert(0) += 1;
    }
    assert!(often.values().all(|times| *times == 1), "{often:?}");
    let said = site.said();
    assert!(!said.contains("leases lost"), "{said}");
    // Half of a second may be the machine's, five are the handler's.
    let blamed = said
        .lines()
        .filter(|line| line.contains("handler blocks its runtime"));
    let is_named = |line: &str| {
        let words = [
            "queue=work",
            "child::Work",
            "the leases of its events are lost",
        ];
        words.into_iter().all(|words| line.contains(words))
    };
    assert!(
        blamed.clone().count() > 0 && blamed.clone().all(is_named),
        "{said}"
    );
}

fn blocking(threads: usize) -> Role {
    Role {
        blocks: BLOCKS,
        threads,
        workers: 4,
        buckets: 2,
        timeout: Duration::from_secs(60),
        ..Role::worker()
    }
}

#[test]
fn a_blocked_runtime_of_one_thread_keeps_its_leases() {
    each_is_started_once("blocked, one thread", &blocking(0), 4);
}

#[test]
fn a_runtime_whose_threads_are_all_blocked_keeps_its_leases() {
    each_is_started_once("blocked, all threads", &blocking(1), 4);
}

#[test]
fn a_runtime_that_is_blocked_beyond_every_timeout_leaves_its_events_to_others() {
    let redis = Redis::plain();
    let site = Site::new(redis.url());
    let blocked = site.spawn(&Role {
        blocks: Duration::from_secs(600), // far longer than the test waits
        timeout: Duration::from_secs(1),
        ..blocking(0)
    });
    site.wait_until("it is there", |entries| !entries.is_empty());
    push(&site, 1);
    let heir = site.spawn(&Role::worker());
    let heir_id = heir.id();
    site.wait_until("another one has it", |entries| {
        starts_of(entries, heir_id) > 0
    });
    assert!(site.said().contains("its leases are left to other nodes"));
    blocked.kill();
    finish("blocked too long", &site, vec![heir], 1, Memory::Keeps);
    assert_eq!(starts(&site.entries()).count(), 2);
}

#[test]
fn a_node_ends_with_its_runtime_though_its_bus_is_kept() {
    let redis = Redis::plain();
    let site = Site::new(redis.url());
    let log = Arc::new(Log::open(site.folder()));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let holder = Role {
        holds: true,
        timeout: Duration::from_secs(600),
        ..Role::worker()
    };
    let kept = runtime.block_on(bus(&site.url, &log, &holder));
    push(&site, 1);
    let alone = beats(&site);
    assert_eq!(alone.len(), 1, "{alone:?}");
    runtime.shutdown_background();
    let mut before = alone;
    site.wait_until("it beats no more", |_| {
        std::thread::sleep(Duration::from_secs(1)); // it beats four times in it
        let beats = beats(&site);
        std::mem::replace(&mut before, beats) == before
    });
    let heir = site.spawn(&Role::worker());
    let heir_id = heir.id();
    site.wait_until("another one has it", |entries| {
        starts_of(entries, heir_id) > 0
    });
    finish("runtime ended", &site, vec![heir], 1, Memory::Keeps);
    drop(kept);
}
