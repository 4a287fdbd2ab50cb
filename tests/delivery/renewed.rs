//! Promise 10 for ids that the bus makes: which of them may be made anew, and what a push answers
//! that a store may have heard more than once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use duly::event::spread_part;
use duly::prelude::*;
use duly::store::operation::{PushOutcome, StoreOp};
use duly::testing::{Probe, TestBus};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, secs};

const HOUR_US: u64 = 3_600_000_000;

/// A bus that only pushes, to one bucket, over a way that meets with faults.
async fn pusher(world: &World, way: &Arc<Faulty>) -> TestBus {
    let choices = QueueChoices {
        buckets: Some(1),
        ..QueueChoices::default()
    };
    let builder = Bus::builder().publish_only().queue("orders", choices);
    world
        .start(builder.shared_store(Arc::clone(way) as _))
        .await
}

/// Each push meets with `fault`; counts them.
fn pushes_meet(way: &Faulty, fault: Fault) -> Arc<AtomicUsize> {
    let pushes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pushes);
    way.meets(move |_, op| match op {
        StoreOp::Push(_) => {
            counted.fetch_add(1, Ordering::Relaxed);
            fault
        }
        _ => Fault::None,
    });
    pushes
}

#[tokio::test(start_paused = true)]
async fn a_push_of_which_an_attempt_may_have_happened_is_not_made_anew() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let bus = pusher(&world, &way).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let pushes = pushes_meet(&way, Fault::Judged(PushOutcome::Unknown));

    let one = queue.push(1, When::Now).await.unwrap_err();
    let many = queue.push_many(0..3, secs(0)).await.unwrap_err();

    assert_eq!(
        (one.kind(), many.kind()),
        (ErrorKind::Unknown, ErrorKind::Unknown)
    );
    assert!(one.to_string().contains("may have been accepted"), "{one}");
    assert_eq!(pushes.load(Ordering::Relaxed), 2, "each was tried once");
}

#[tokio::test(start_paused = true)]
async fn a_definite_refusal_is_made_anew_once() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let bus = pusher(&world, &way).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    for (verdict, kind) in [
        (PushOutcome::TooOld, ErrorKind::Unavailable),
        (PushOutcome::TooNew, ErrorKind::Invalid),
    ] {
        let pushes = pushes_meet(&way, Fault::Judged(verdict));
        assert_eq!(queue.push(1, When::Now).await.unwrap_err().kind(), kind);
        assert_eq!(pushes.load(Ordering::Relaxed), 2);
    }
    for (verdict, kind) in [
        (PushOutcome::TooOld, ErrorKind::Conflict),
        (PushOutcome::TooNew, ErrorKind::Invalid),
        (PushOutcome::Unknown, ErrorKind::Unknown),
    ] {
        let _ = pushes_meet(&way, Fault::Judged(verdict));
        let sent = queue.event(1).id(queue.new_id()).push();
        assert_eq!(sent.await.unwrap_err().kind(), kind, "it was given");
    }
}

/// What was made anew and met with an error says nothing of what was accepted before.
#[tokio::test(start_paused = true)]
async fn what_a_second_id_meets_with_is_said_of_it_alone() {
    let world = World::memory_of_ten();
    let way = Faulty::to(&world.store);
    let bus = pusher(&world, &way).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let calls = Mutex::new(0);
    way.meets(move |_, op| {
        let mut calls = calls.lock().unwrap();
        *calls += usize::from(matches!(op, StoreOp::Push(_)));
        match *calls {
            1 => Fault::Judged(PushOutcome::TooOld),
            2 => Fault::Lost,
            _ => Fault::None,
        }
    });
    let error = queue.push(1, When::Now).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
}

#[tokio::test(start_paused = true)]
async fn an_own_first_attempt_is_no_duplicate() {
    let world = World::memory();
    let probe = Probe::<u64>::new();
    let (consumer, _) = world.serve(ORDERS.buckets(1), &probe).await;
    let way = Faulty::to(&world.store);
    let bus = pusher(&world, &way).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let _ = pushes_meet(&way, Fault::Twice);

    assert!(queue.push(1, When::Now).await.unwrap().is_accepted());
    let many = queue.push_many(2..10, secs(0)).await.unwrap();
    assert!(many.iter().all(Receipt::is_accepted));
    let given = queue.event(10).id(queue.new_id()).push().await.unwrap();
    assert!(given.is_duplicate(), "whose it was, nobody knows");
    let unique = |number| {
        queue
            .event(number)
            .after(secs(60))
            .unique("one", Unique::Keep)
    };
    let first = unique(11).push().await.unwrap();
    assert!(first.is_accepted());
    let second = unique(12).push().await.unwrap();
    assert!(second.is_duplicate());
    assert_eq!(second.id(), first.id());
    consumer.advance(secs(120)).await;
    assert_eq!(probe.count(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_pusher_whose_clock_is_ahead_harms_nobody() {
    let world = World::memory();
    let probe = Probe::<u64>::new();
    let (consumer, right) = world.serve(ORDERS.buckets(1), &probe).await;
    let way = Faulty::to(&world.store);
    way.ahead_us.store(HOUR_US, Ordering::Relaxed);
    let bus = pusher(&world, &way).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();

    let sent = queue.push(1, When::Now).await.unwrap();
    assert!(sent.is_accepted());
    assert_eq!(sent.id().created(), consumer.now());
    let sent = queue.push_many(2..5, secs(0)).await.unwrap();
    assert!(sent.iter().all(Receipt::is_accepted));
    let error = queue.event(9).id(queue.new_id()).push().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let words = error.to_string();
    assert!(words.contains("at most 60s ahead"), "{words}");
    assert!(words.contains(&consumer.now().to_string()), "{words}");
    right.push(5, When::Now).await.unwrap();
    consumer.settle().await;
    assert_eq!(probe.count(), 5);
}

/// By its random part an event is spread: the id that is made anew keeps it, so that the due time
/// follows from the id that the receipt names.
#[tokio::test(start_paused = true)]
async fn a_renewed_push_keeps_its_part_of_a_spread() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    way.ahead_us.store(HOUR_US, Ordering::Relaxed);
    let bus = pusher(&world, &way).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let at = bus.now() + secs(7_200);
    for number in 0..20 {
        let sent = queue.event(number).at(at).spread(secs(1_000)).push();
        let sent = sent.await.unwrap();
        assert_eq!(sent.id().created(), bus.now(), "it was made anew");
        assert_eq!(sent.due(), at + spread_part(sent.id(), secs(1_000)));
    }
}
