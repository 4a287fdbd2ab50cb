//! Promise 6: nothing is dropped because something is full.

use std::collections::BTreeMap;

use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_full_ring_stops_fetching_and_nothing_is_dropped,
    a_crowd_that_was_read_ahead_waits_for_room,
    a_paused_queue_fetches_nothing_and_loses_nothing,
    a_payload_that_is_too_large_is_refused,
}

const NARROW: duly::Annotation = ORDERS.ring(64).workers(4);

/// How often each payload was handled.
fn counted(probe: &Probe<u64>) -> BTreeMap<u64, usize> {
    let mut counted = BTreeMap::new();
    for payload in probe.payloads() {
        *counted.entry(payload).or_default() += 1;
    }
    counted
}

fn each_once(count: u64) -> BTreeMap<u64, usize> {
    (0..count).map(|payload| (payload, 1)).collect()
}

async fn a_full_ring_stops_fetching_and_nothing_is_dropped(world: World) {
    let probe = Probe::taking(ms(10));
    let (bus, queue) = world.serve(NARROW, &probe).await;
    queue.push_many(0..2_000_u64, secs(0)).await.unwrap();
    for _ in 0..20 {
        bus.advance(ms(100)).await;
        let stats = bus.stats("orders").await.unwrap();
        // What has just ended gives its place back before it is settled.
        assert!(stats.leased <= 64 + 4, "{stats:?}");
        // It fetches when a quarter is free.
        assert!(
            stats.leased >= 48 - 4,
            "it should keep the ring full: {stats:?}"
        );
        assert_eq!(probe.running_now(), 4);
    }
    bus.run_until_idle(secs(60)).await.unwrap();
    assert_eq!(counted(&probe), each_once(2_000));
    assert_eq!(probe.most_at_once(), 4);
}

async fn a_crowd_that_was_read_ahead_waits_for_room(world: World) {
    let probe = Probe::taking(ms(10));
    let (bus, queue) = world.serve(NARROW, &probe).await;
    queue.push_many(0..2_000_u64, secs(30)).await.unwrap();
    let took = bus.run_until_idle(secs(60)).await.unwrap();
    assert_eq!(counted(&probe), each_once(2_000));
    assert!(took < secs(30) + secs(6), "{took:?}");
}

async fn a_paused_queue_fetches_nothing_and_loses_nothing(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(NARROW, &probe).await;
    bus.set_workers("orders", 0).unwrap();
    queue.push_many(0..500_u64, secs(0)).await.unwrap();
    queue.push_many(500..1_000, secs(5)).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 0);
    assert_eq!(bus.stats("orders").await.unwrap().leased, 0);

    bus.set_workers("orders", 8).unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(counted(&probe), each_once(1_000));
}

async fn a_payload_that_is_too_large_is_refused(world: World) {
    let builder = world.builder().publish_only().payload_bytes_max(100);
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<String>("orders").unwrap();
    let error = queue.push("x".repeat(99), When::Now).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    queue.push("x".repeat(98), When::Now).await.unwrap();
}
