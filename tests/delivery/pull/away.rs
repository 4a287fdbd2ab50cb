//! A store that is slow, loses replies or is away, and what waiting costs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::lease::LeaseStatus;
use duly::prelude::*;
use duly::store::Store;
use duly::store::operation::StoreOp;
use duly::testing::TestBus;

use crate::faulty::{Fault, Faulty};
use crate::world::{World, ms, secs};

/// A bus that goes to a store by a way that has faults.
async fn faulty(world: &World, faulty: &Arc<Faulty>) -> (TestBus, Queue<u64>) {
    let store = Arc::clone(faulty) as Arc<dyn Store>;
    let builder = Bus::builder().only_registered().publish_only();
    let bus = world.start(builder.shared_store(store)).await;
    let queue = bus.queue_named("orders").unwrap();
    (bus, queue)
}

#[tokio::test(start_paused = true)]
async fn twenty_thousand_waiters_cost_no_call_while_nothing_happens() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let (bus, queue) = faulty(&world, &way).await;
    let (fetches, others) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&fetches), Arc::clone(&others));
    way.meets(move |_, op| {
        match op {
            StoreOp::Fetch(_) => counts.0.fetch_add(1, Ordering::Relaxed),
            StoreOp::Push(_) => 0,
            _ => counts.1.fetch_add(1, Ordering::Relaxed),
        };
        Fault::None
    });
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..20_000 {
        waiting.spawn(queue.lease(1, secs(600)).wait(secs(500)).send());
    }
    bus.advance(secs(10)).await;
    assert_eq!(fetches.load(Ordering::Relaxed), 0);
    let before = others.load(Ordering::Relaxed);
    assert!(before <= 16, "{before} calls for 8 buckets");
    bus.advance(secs(60)).await;
    assert_eq!(
        others.load(Ordering::Relaxed),
        before,
        "waiting costs nothing"
    );
    for number in 0..100 {
        queue.push(number, When::Now).await.unwrap();
        let leased = waiting.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(leased[0].event().payload, number);
    }
    let fetches = fetches.load(Ordering::Relaxed);
    assert_eq!(fetches, 100, "one event wakes one fetch");
    assert_eq!(bus.clock().elapsed(), secs(70));
}

#[tokio::test(start_paused = true)]
async fn a_fetch_whose_answer_is_lost_loses_no_event_and_no_attempt() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let (bus, queue) = faulty(&world, &way).await;
    let id = queue.event(1).attempts(1).push().await.unwrap().id();
    let mut left = 3;
    way.meets(move |_, op| match op {
        StoreOp::Fetch(_) if left > 0 => {
            left -= 1;
            Fault::Lost
        }
        _ => Fault::None,
    });
    let failed = queue.lease(1, secs(60)).send().await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unknown);
    let leased = queue.lease(1, secs(60)).wait(secs(9)).send().await.unwrap();
    assert_eq!((leased[0].id(), leased[0].attempt()), (id, 1));
    assert!(bus.clock().elapsed() < secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_comes_first_is_waited_for_although_its_store_is_slower() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let (bus, low) = faulty(&world, &way).await;
    let high = bus.queue_named::<u64>("high").unwrap();
    low.push(1, When::Now).await.unwrap();
    high.push(2, When::Now).await.unwrap();
    way.meets(|bucket, _| match bucket.queue.as_str() {
        "high" => Fault::LatePolicy(ms(200)),
        _ => Fault::None,
    });
    let queues = [high.name().clone(), low.name().clone()];
    for (wait, expected) in [(secs(9), b"2"), (secs(0), b"1")] {
        let request = bus.lease_from(&queues, 1, secs(60)).wait(wait);
        let leased = request.send().await.unwrap();
        assert_eq!(leased[0].event().payload.bytes, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_who_waits_waits_on() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let (bus, queue) = faulty(&world, &way).await;
    way.is(Fault::Refused(ErrorKind::Unavailable));
    let failed = queue.lease(1, secs(60)).send().await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    let failed = queue.lease(1, secs(60)).wait(secs(3)).send().await;
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(bus.clock().elapsed(), secs(3));
    let waiting = tokio::spawn(queue.lease(1, secs(60)).wait(secs(100)).send());
    bus.advance(secs(5)).await;
    way.is(Fault::None);
    queue.push(1, When::Now).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
    assert!(
        bus.clock().elapsed() <= secs(11),
        "{:?}",
        bus.clock().elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_ack_counts_until_the_event_is_taken_back() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let (bus, queue) = faulty(&world, &way).await;
    way.meets(|_, op| match op {
        StoreOp::Reap { .. } => Fault::Refused(ErrorKind::Unavailable),
        _ => Fault::None,
    });
    let id = queue.push(1, When::Now).await.unwrap().id();
    let leased = queue.lease(1, secs(1)).send().await.unwrap();
    bus.advance(secs(5)).await;
    assert_eq!(leased[0].ack().await.unwrap(), LeaseStatus::Held);
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
}
