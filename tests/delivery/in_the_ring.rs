//! What a node has fetched and not started, when its queue is paused or slowed down: it waits in
//! the store again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::EventId;
use duly::prelude::*;
use duly::store::Store;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_rate_holds_for_a_backlog_of_slow_events,
    a_rate_holds_for_a_backlog_of_quick_events,
    a_rate_holds_for_a_backlog_of_one_worker,
    a_rate_hands_back_what_is_prefetched,
    a_paused_queue_holds_nothing_but_what_runs,
    what_is_paused_expires_in_time_and_can_be_cancelled,
    what_waits_for_room_in_a_paused_ring_is_handed_back,
}

/// A handler that takes a while at its first so many starts, and another time at the others.
fn probe(first: usize, takes: Duration, then: Duration) -> Probe<u64> {
    let starts = AtomicUsize::new(0);
    Probe::running(move |_event, _cx| {
        let is_first = starts.fetch_add(1, Ordering::Relaxed) < first;
        let takes = if is_first { takes } else { then };
        async move {
            tokio::time::sleep(takes).await;
            Ok(())
        }
    })
}

/// From the moment on at which it is set, no second has more starts than the rate.
async fn slowed(world: &World, (workers, buckets): (usize, u16), rate: f64, then: Duration) {
    let probe = probe(workers, secs(2), then);
    let orders = ORDERS.workers(workers).buckets(buckets);
    let (bus, queue) = world.serve(orders, &probe).await;
    queue.push_many(0..2_000, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), workers);
    bus.set_rate("orders", Some(rate)).await.unwrap();
    bus.advance(secs(60)).await;
    let times = probe.times().split_off(workers);
    let most = times.iter().enumerate().map(|(at, from)| {
        let until = *from + secs(1);
        times[at..].partition_point(|time| *time < until)
    });
    let most = most.max().unwrap_or(0);
    assert!(
        most as f64 <= rate.mul_add(1.05, 1.0),
        "{most} in a second of {rate}"
    );
    assert!(
        times.len() as f64 >= rate * 55.0,
        "{} at {rate}",
        times.len()
    );
    let leased = bus.stats("orders").await.unwrap().leased;
    assert!(leased <= 2 * workers + rate as usize, "{leased} leased");
}

async fn a_rate_holds_for_a_backlog_of_slow_events(world: World) {
    slowed(&world, (16, 8), 1.0, secs(1)).await;
}

async fn a_rate_holds_for_a_backlog_of_quick_events(world: World) {
    slowed(&world, (64, 8), 10.0, secs(0)).await;
}

async fn a_rate_holds_for_a_backlog_of_one_worker(world: World) {
    slowed(&world, (1, 1), 2.0, ms(1)).await;
}

/// Also a lower one. What has to wait for it can be cancelled.
async fn a_rate_hands_back_what_is_prefetched(world: World) {
    for (before, rate) in [
        (None, 0.1),
        (None, 20.0),
        (Some(100.0), 0.01),
        (Some(1_000.0), 50.0),
    ] {
        let probe = Probe::<u64>::new();
        let (bus, queue) = world.serve(ORDERS.workers(2), &probe).await;
        bus.set_rate("orders", before).await.unwrap();
        bus.advance(secs(1)).await;
        let ids = queue.push_many(0..400, ms(40)).await.unwrap();
        bus.advance(ms(10)).await;
        let soon = |rate: f64| 1 + (rate / 10.0) as usize;
        let leased = bus.stats("orders").await.unwrap().leased;
        assert!(leased > soon(rate), "{leased} leased before {rate}");
        bus.set_rate("orders", Some(rate)).await.unwrap();
        bus.advance(ms(500)).await;
        let leased = bus.stats("orders").await.unwrap().leased;
        assert!(leased <= soon(rate), "{leased} leased at {rate}");
        let started = probe.count();
        let mut cancelled = 0;
        for id in ids {
            cancelled +=
                usize::from(queue.cancel(id.id()).await.unwrap() == CancelOutcome::Cancelled);
        }
        assert!(
            cancelled + soon(rate) + started >= 400,
            "{cancelled} cancelled at {rate}, {started} started"
        );
        bus.run_until_idle(secs(600)).await.unwrap();
        assert!(probe.attempts().iter().all(|(_, attempt)| *attempt == 1));
        bus.shutdown(secs(1)).await.unwrap();
    }
}

/// The ways in which an operator pauses a queue.
async fn pause(bus: &TestBus, way: usize) {
    match way {
        0 => bus.pause("orders").await.unwrap(),
        1 => bus.set_workers("orders", 0).unwrap(),
        _ => bus.set_workers_everywhere("orders", Some(0)).await.unwrap(),
    }
}

async fn resume(bus: &TestBus, way: usize) {
    match way {
        0 => bus.resume("orders").await.unwrap(),
        1 => bus.set_workers("orders", 2).unwrap(),
        _ => bus.set_workers_everywhere("orders", None).await.unwrap(),
    }
}

async fn a_paused_queue_holds_nothing_but_what_runs(world: World) {
    for way in 0..3 {
        let probe = Probe::<u64>::taking(secs(5));
        let (bus, queue) = world.serve(ORDERS.workers(2), &probe).await;
        queue.push_many(0..40, secs(0)).await.unwrap();
        queue.push_many(40..50, ms(40)).await.unwrap();
        bus.advance(ms(10)).await;
        assert!(bus.stats("orders").await.unwrap().leased >= 40);
        pause(&bus, way).await;
        bus.advance(ms(990)).await;
        let stats = bus.stats("orders").await.unwrap();
        assert_eq!((stats.leased, stats.ready), (2, 48), "way {way}");
        bus.advance(secs(60)).await;
        assert_eq!(bus.stats("orders").await.unwrap().leased, 0, "way {way}");
        resume(&bus, way).await;
        bus.run_until_idle(secs(600)).await.unwrap();
        let attempts = probe.attempts();
        assert_eq!(attempts.len(), 50, "way {way}");
        assert!(attempts.iter().all(|(_, attempt)| *attempt == 1));
        bus.shutdown(secs(1)).await.unwrap();
    }
}

async fn what_is_paused_expires_in_time_and_can_be_cancelled(world: World) {
    let probe = Probe::<u64>::taking(secs(600));
    let orders = ORDERS.workers(1).timeout(secs(3_600));
    let (bus, queue) = world.serve(orders, &probe).await;
    queue.push(0, When::Now).await.unwrap();
    bus.settle().await;
    let push = async |unique: &str| -> EventId {
        let event = queue
            .event(1)
            .unique(unique, Unique::Keep)
            .expires_after(secs(30));
        let pushed = event.push().await.unwrap();
        assert!(!pushed.is_duplicate(), "{unique}");
        pushed.id()
    };
    let first = push("user:7").await;
    let other = push("user:8").await;
    bus.settle().await;
    assert_eq!(bus.stats("orders").await.unwrap().leased, 3);
    bus.pause("orders").await.unwrap();
    bus.advance(secs(1)).await;
    let cancelled = queue.cancel(other).await.unwrap();
    assert_eq!(cancelled, CancelOutcome::Cancelled);
    push("user:8").await;
    bus.advance(secs(60)).await;
    push("user:7").await;
    assert_eq!(bus.outcomes(first).await.unwrap(), [Outcome::Expired]);
}

/// Values that were published in memory have taken the room that its credits had reserved.
async fn what_waits_for_room_in_a_paused_ring_is_handed_back(world: World) {
    let probe = Probe::<u64>::taking(secs(1));
    let (bus, queue) = world.serve(ORDERS.workers(1).ring(64), &probe).await;
    queue.publish(0).await.unwrap();
    bus.settle().await;
    for number in 1..=64 {
        queue.publish(number).await.unwrap();
    }
    queue.push_many(100..110, secs(0)).await.unwrap();
    bus.settle().await;
    assert_eq!(bus.stats("orders").await.unwrap().leased, 10);
    bus.pause("orders").await.unwrap();
    bus.advance(secs(5)).await;
    assert_eq!(bus.stats("orders").await.unwrap().leased, 0);
    bus.resume("orders").await.unwrap();
    bus.advance(secs(100)).await;
    assert_eq!(probe.count(), 75);
}

/// The reply to a fetch brings more than is of use by then.
#[tokio::test(start_paused = true)]
async fn what_a_fetch_brings_after_a_rate_was_set_is_handed_back() {
    for rate in [0.1, 20.0] {
        let world = World::shared();
        let way = Faulty::to(&world.store);
        let probe = Probe::<u64>::new();
        let store = Arc::clone(&way) as Arc<dyn Store>;
        let orders = ORDERS.workers(2).buckets(1);
        let (bus, queue) = world.serve_by(store, orders, &probe).await;
        bus.advance(secs(1)).await;
        let mut left = 1;
        way.meets(move |_, op| match op {
            StoreOp::Fetch(_) if left > 0 => {
                left -= 1;
                Fault::Held(ms(500))
            }
            _ => Fault::None,
        });
        queue.push_many(0..400, ms(80)).await.unwrap();
        bus.advance(ms(10)).await;
        assert!(bus.stats("orders").await.unwrap().leased >= 400);
        bus.set_rate("orders", Some(rate)).await.unwrap();
        bus.advance(ms(700)).await;
        let leased = bus.stats("orders").await.unwrap().leased;
        assert!(
            leased <= 1 + (rate / 10.0) as usize,
            "{leased} leased at {rate}"
        );
        assert!(
            probe.count() as f64 <= 1.0 + rate,
            "{} at {rate}",
            probe.count()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn another_node_handles_what_a_node_without_workers_had_fetched() {
    for way in 0..2 {
        let world = World::shared();
        let (busy, idle) = (Probe::<u64>::taking(secs(60)), Probe::<u64>::new());
        let orders = ORDERS.workers(1).buckets(1).timeout(secs(600));
        let (bus, queue) = world.serve(orders, &busy).await;
        queue.push_many(0..10, secs(0)).await.unwrap();
        bus.advance(ms(100)).await;
        if way == 0 {
            bus.set_workers("orders", 0).unwrap();
        }
        let (_other, _queue) = world.serve(orders, &idle).await;
        if way == 1 {
            bus.set_workers("orders", 0).unwrap();
        }
        bus.advance(secs(5)).await;
        assert_eq!((busy.count(), idle.count()), (1, 9));
    }
}

/// An attempt that never started does not count, also where the node dies while it is paused.
#[tokio::test(start_paused = true)]
async fn what_waited_in_the_ring_of_a_paused_node_loses_no_attempt_with_it() {
    let world = World::shared();
    let probe = Probe::<u64>::taking(secs(60));
    let orders = ORDERS.workers(1).buckets(1).timeout(secs(600));
    let (bus, queue) = world.serve(orders, &probe).await;
    for number in 0..10 {
        queue.event(number).attempts(1).push().await.unwrap();
    }
    bus.advance(secs(1)).await;
    bus.pause("orders").await.unwrap();
    bus.advance(secs(1)).await;
    drop((bus, queue)); // it is killed
    let after = Probe::<u64>::new();
    let (bus, _queue) = world.serve(orders, &after).await;
    bus.resume("orders").await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(after.count(), 9);
    assert_eq!(bus.stats("orders").await.unwrap().dead, 1);
}
