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

/// The store leased it at the first fetch, and not at the repeat that brings it.
#[tokio::test(start_paused = true)]
async fn a_lease_that_comes_late_ends_when_it_says() {
    for (held, ttr) in [(11, 30), (25, 60), (11, 12)] {
        let world = World::memory();
        let way = Faulty::to(&world.store);
        let (bus, queue) = faulty(&world, &way).await;
        let id = queue.push(1, When::Now).await.unwrap().id();
        let mut left = 1;
        way.meets(move |_, op| match op {
            StoreOp::Fetch(_) if left > 0 => {
                left -= 1;
                Fault::Held(secs(held))
            }
            _ => Fault::None,
        });
        let from = bus.now();
        let request = queue.lease(1, secs(ttr)).wait(secs(20));
        let leased = request.send().await.unwrap().remove(0);
        let late = bus.now().since(from);
        assert!(late >= secs(10), "{late:?}");
        let deadline = leased.deadline().since(from);
        assert!(
            deadline <= secs(ttr) && deadline + ms(100) >= secs(ttr),
            "{deadline:?}"
        );
        bus.advance(secs(ttr) - ms(200) - late).await;
        assert_eq!(leased.ack().await.unwrap(), LeaseStatus::Held);
        assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
    }
}

/// Nobody is given a lease that has ended, and its event loses no attempt.
#[tokio::test(start_paused = true)]
async fn a_lease_that_has_ended_before_it_comes_is_given_to_nobody() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let (bus, queue) = faulty(&world, &way).await;
    let id = queue.event(1).attempts(1).push().await.unwrap().id();
    let mut fetches = 0;
    way.meets(move |_, op| match op {
        StoreOp::Fetch(_) => {
            fetches += 1;
            if fetches == 1 {
                Fault::Held(secs(11))
            } else {
                Fault::None
            }
        }
        // Until then nobody has taken it back.
        StoreOp::Reap { .. } if fetches < 2 => Fault::Refused(ErrorKind::Unavailable),
        _ => Fault::None,
    });
    let request = queue.lease(1, secs(5)).wait(secs(20));
    let leased = request.send().await.unwrap().remove(0);
    assert_eq!((leased.id(), leased.attempt()), (id, 1));
    let left = leased.deadline().since(bus.now());
    assert!(left > secs(4), "{left:?}");
    assert_eq!(leased.ack().await.unwrap(), LeaseStatus::Held);
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

/// The store has done the fetch, so what it brings late is nobody's until it goes back.
#[tokio::test(start_paused = true)]
async fn a_fetch_that_does_not_answer_keeps_nobody_from_the_next_queue_and_loses_nothing() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let (bus, low) = faulty(&world, &way).await;
    let high = bus.queue_named::<u64>("high").unwrap();
    low.push(1, When::Now).await.unwrap();
    let late = high.event(2).attempts(1).push().await.unwrap().id();
    let mut left = 1;
    way.meets(move |bucket, op| match op {
        StoreOp::Fetch(_) if bucket.queue.as_str() == "high" && left > 0 => {
            left -= 1;
            Fault::Held(secs(8))
        }
        _ => Fault::None,
    });
    let from = bus.now();
    let queues = [high.name().clone(), low.name().clone()];
    let request = bus.lease_from(&queues, 1, secs(60)).wait(secs(9));
    let leased = request.send().await.unwrap();
    assert_eq!(leased[0].event().payload.bytes, b"1");
    let took = bus.now().since(from);
    assert!(took <= ms(600), "{took:?}");
    let leased = high.lease(1, secs(60)).wait(secs(9)).send().await.unwrap();
    assert_eq!((leased[0].id(), leased[0].attempt()), (late, 1));
    assert!(bus.now().since(from) <= ms(8_100));
}

/// What the other buckets have is leased already, for as long as the caller says.
#[tokio::test(start_paused = true)]
async fn a_bucket_that_does_not_answer_keeps_nothing_that_others_have_leased() {
    let is_fetch = |op: &StoreOp| matches!(op, StoreOp::Fetch(_));
    for fault in [
        Fault::Hung,
        Fault::LatePolicy(secs(8)),
        Fault::Held(secs(8)),
    ] {
        for (fetches_alone, wait) in [(false, 0), (false, 60), (true, 0)] {
            let world = World::memory();
            let way = Faulty::to(&world.store);
            let (bus, queue) = faulty(&world, &way).await;
            let (first, mut others) = (queue.event(1).attempts(1).push().await.unwrap().id(), 0);
            for number in 2..40 {
                let id = queue.push(number, When::Now).await.unwrap().id();
                others += usize::from(id.bucket() == first.bucket());
            }
            way.meets(move |bucket, op| {
                let is_well = bucket.bucket == first.bucket() || fetches_alone && !is_fetch(op);
                if is_well { Fault::None } else { fault }
            });
            let from = bus.now();
            let request = queue.lease(100, secs(5)).wait(secs(wait));
            let leased = request.send().await.unwrap();
            let took = bus.now().since(from);
            assert!(took <= ms(600), "{fault:?}: {took:?}");
            assert_eq!(leased.len(), 1 + others);
            for event in &leased {
                assert_eq!(event.ack().await.unwrap(), LeaseStatus::Held);
            }
            assert_eq!(bus.outcomes(first).await.unwrap(), [Outcome::Acked]);
        }
    }
}

/// However long a lease is, and whether more events come while another bucket does not answer.
#[tokio::test(start_paused = true)]
async fn who_waits_for_more_is_answered_while_most_of_each_lease_is_left() {
    let never = secs(3_600);
    let shapes = [
        (ms(300), never, 60),
        (ms(300), ms(20), 0),
        (secs(1), ms(100), 60),
        (secs(5), ms(300), 60),
        (secs(5), ms(300), 0),
        (secs(60), ms(400), 60),
    ];
    for fault in [Fault::Hung, Fault::LatePolicy(secs(8))] {
        for (ttr, every, wait) in shapes {
            let world = World::memory();
            let way = Faulty::to(&world.store);
            let (bus, queue) = faulty(&world, &way).await;
            let push = |number| queue.event(number).key("one").attempts(1).push();
            let first = push(0).await.unwrap().id();
            way.meets(move |bucket, op| {
                let is_well = bucket.bucket == first.bucket() || matches!(op, StoreOp::Push(_));
                if is_well { Fault::None } else { fault }
            });
            let request = queue.lease(1_000, ttr).wait(secs(wait)).send();
            let mut request = std::pin::pin!(request);
            let mut pushed = 1;
            let leased = loop {
                tokio::select! {
                    biased;
                    leased = &mut request => break leased.unwrap(),
                    () = tokio::time::sleep(every) => {}
                }
                push(pushed).await.unwrap();
                pushed += 1;
            };
            let (said, now) = ((fault, ttr, every), bus.now());
            let mut ids: Vec<_> = leased.iter().map(|event| event.id()).collect();
            assert_eq!(ids[0], first, "{said:?}");
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), leased.len(), "{said:?}: one twice");
            for event in &leased {
                let left = event.deadline().since(now);
                assert!(left >= ttr * 7 / 10, "{said:?}: {left:?}");
                assert_eq!(event.ack().await.unwrap(), LeaseStatus::Held);
                assert_eq!(bus.outcomes(event.id()).await.unwrap(), [Outcome::Acked]);
            }
        }
    }
}

/// A lease of no time has ended when it begins, so an event that is not returned would die unseen.
#[tokio::test(start_paused = true)]
async fn leases_of_no_time_are_seen_though_buckets_answer_one_after_the_other() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let (bus, queue) = faulty(&world, &way).await;
    let mut pushed = Vec::new();
    for number in 0..50 {
        let event = queue.event(number).key(format!("key {number}")).attempts(1);
        pushed.push(event.push().await.unwrap().id());
    }
    let buckets: std::collections::BTreeSet<_> = pushed.iter().map(|id| id.bucket()).collect();
    assert!(buckets.len() > 3, "{buckets:?}");
    way.meets(|bucket, op| match op {
        StoreOp::Fetch(_) => Fault::LatePolicy(ms(10 * u64::from(bucket.bucket.0 % 5))),
        StoreOp::Settle { .. } => Fault::LatePolicy(secs(1)), // too late to hand anything back
        _ => Fault::None,
    });
    let mut seen = Vec::new();
    loop {
        let leased = queue.lease(1_000, secs(0)).send().await.unwrap();
        if leased.is_empty() {
            break;
        }
        seen.extend(leased.iter().map(|event| event.id()));
        bus.advance(ms(100)).await; // whoever asks again is some time away
    }
    seen.sort_unstable();
    pushed.sort_unstable();
    assert_eq!(seen, pushed);
    bus.shutdown(secs(1)).await.unwrap();
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
