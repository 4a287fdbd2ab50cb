//! Promise 11: doubt stops, silence never; and what a lost or refused answer means.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::event::BucketId;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};

use crate::faulty::{Fault, Faulty};
use crate::world::{Numbers, ORDERS, World, ms, secs};

over_every_store! {
    answers_that_are_lost_change_nothing,
    a_lost_answer_to_a_push_is_said_to_be_unknown_and_the_push_is_repeatable,
    a_push_whose_answer_is_lost_is_not_repeated_under_another_id,
    what_the_store_answers_to_a_push_reaches_the_pusher,
    a_bucket_whose_store_has_stopped_is_left_alone_and_the_others_are_not,
    a_bucket_that_is_refused_is_asked_again_ever_more_rarely,
    a_store_that_is_away_is_asked_at_a_bounded_pace_until_it_is_back,
    a_handler_whose_start_cannot_be_noted_does_not_start,
}

/// A bus with one handler, on a way to the store that may be faulty.
async fn faulty(world: &World, probe: &Probe<u64>) -> (TestBus, Queue<u64>, Arc<Faulty>) {
    let way = Faulty::to(&world.store);
    let (bus, queue) = world.serve_by(way.clone(), ORDERS, probe).await;
    (bus, queue, way)
}

/// However often answers are lost or refused, each event is handled once and has one record.
async fn answers_that_are_lost_change_nothing(world: World) {
    let probe = Probe::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    let mut numbers = Numbers(4);
    way.meets(move |_, _| match numbers.below(10) {
        0..3 => Fault::Lost,
        3 => Fault::Refused(ErrorKind::Unavailable),
        _ => Fault::None,
    });
    let mut delays = Numbers(5);
    for number in 0..200 {
        let (id, delay) = (queue.new_id(), ms(delays.below(5_000)));
        let push = || queue.event(number).id(id).after(delay).push();
        while let Err(error) = push().await {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::Unknown | ErrorKind::Unavailable));
        }
    }
    bus.advance(secs(120)).await;
    way.is(Fault::None);

    let mut payloads = probe.payloads();
    payloads.sort_unstable();
    assert!(payloads.into_iter().eq(0..200));
    let records = bus.records().limit(1_000).page().await.unwrap().items;
    assert_eq!(records.len(), 200);
    assert!(
        records
            .iter()
            .all(|record| record.outcome == Outcome::Acked)
    );
}

async fn a_lost_answer_to_a_push_is_said_to_be_unknown_and_the_push_is_repeatable(world: World) {
    let probe = Probe::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    let id = queue.new_id();
    let push = || queue.event(7).id(id).push();
    way.meets(|_, op| match op {
        StoreOp::Push(_) => Fault::Lost,
        _ => Fault::None,
    });
    assert_eq!(push().await.unwrap_err().kind(), ErrorKind::Unknown);
    way.is(Fault::None);
    assert!(push().await.unwrap().is_duplicate());
    bus.advance(secs(60)).await;
    assert_eq!(probe.attempts(), [(id, 1)]);
}

/// Who gave no id learns that it may have happened; nobody pushes a second event for them.
async fn a_push_whose_answer_is_lost_is_not_repeated_under_another_id(world: World) {
    let probe = Probe::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    way.meets(|_, op| match op {
        StoreOp::Push(_) => Fault::Lost,
        _ => Fault::None,
    });
    let lost = queue.push(7, When::Now).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unknown);
    way.is(Fault::None);
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), [7]);
}

async fn what_the_store_answers_to_a_push_reaches_the_pusher(world: World) {
    let (_bus, queue, way) = faulty(&world, &Probe::new()).await;
    for kind in [ErrorKind::Full, ErrorKind::Closed, ErrorKind::Unavailable] {
        way.meets(move |_, op| match op {
            StoreOp::Push(_) => Fault::Refused(kind),
            _ => Fault::None,
        });
        assert_eq!(queue.push(1, When::Now).await.unwrap_err().kind(), kind);
    }
}

/// Refuses with `kind` whatever is asked of bucket 0 but pushes; counts how often.
fn refuses_a_bucket(way: &Faulty, kind: ErrorKind) -> Arc<AtomicUsize> {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    way.meets(move |bucket, op| {
        if bucket.bucket != BucketId(0) || matches!(op, StoreOp::Push(_)) {
            return Fault::None;
        }
        count.fetch_add(1, Ordering::Relaxed);
        Fault::Refused(kind)
    });
    asked
}

async fn a_bucket_whose_store_has_stopped_is_left_alone_and_the_others_are_not(world: World) {
    let probe = Probe::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    let asked = refuses_a_bucket(&way, ErrorKind::Closed);
    queue.push_many(0..512, ms(500)).await.unwrap();
    bus.advance(secs(3_600)).await;

    // What was asked together with the first is answered like it.
    assert!(asked.load(Ordering::Relaxed) <= 2, "{asked:?}");
    let handled = probe.attempts();
    assert!(handled.iter().all(|(id, _)| id.bucket() != BucketId(0)));
    assert_eq!(handled.len(), 512 - 64); // one batch of eight went there
}

/// An answer as of a call that can never succeed may be a proxy's, and be over soon.
async fn a_bucket_that_is_refused_is_asked_again_ever_more_rarely(world: World) {
    let probe = Probe::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    let mut handled = 0;
    for kind in [ErrorKind::Invalid, ErrorKind::Corrupt] {
        let asked = refuses_a_bucket(&way, kind);
        queue.push_many(0..512, ms(500)).await.unwrap();
        bus.advance(secs(3_600)).await;
        let asked = asked.load(Ordering::Relaxed);
        // Each half minute, with two questions.
        assert!((120..400).contains(&asked), "{kind:?}: {asked} times");
        assert_eq!(probe.count(), handled + 512 - 64, "{kind:?}");

        way.is(Fault::None);
        bus.advance(secs(31)).await;
        handled += 512;
        assert_eq!(probe.count(), handled, "{kind:?}");
    }
}

async fn a_store_that_is_away_is_asked_at_a_bounded_pace_until_it_is_back(world: World) {
    let probe = Probe::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    queue.push_many(0..64, secs(1)).await.unwrap();
    way.is(Fault::Refused(ErrorKind::Unavailable));
    let before = way.asked();
    bus.advance(secs(600)).await;
    let asked = way.asked() - before;
    // Eight buckets, each with two questions every two seconds when it has waited often enough.
    assert!(asked > 100 && asked < 8 * 700, "{asked} times");
    assert_eq!(probe.count(), 0);

    way.is(Fault::None);
    bus.advance(secs(3)).await;
    assert_eq!(probe.count(), 64);
}

async fn a_handler_whose_start_cannot_be_noted_does_not_start(world: World) {
    let probe = Probe::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    way.notes_fail.store(true, Ordering::Relaxed);
    let receipts = queue.push_many(0..10, secs(0)).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 0);
    let notes = way.notes.load(Ordering::Relaxed);
    assert!(notes <= 10 * 61, "{notes} times");

    way.notes_fail.store(false, Ordering::Relaxed);
    bus.advance(secs(5)).await;
    assert_eq!(probe.count(), 10);
    for receipt in receipts {
        let outcomes = bus.outcomes(receipt.id()).await.unwrap();
        assert_eq!(outcomes, [Outcome::Acked]);
    }
    assert!(probe.attempts().iter().all(|(_, attempt)| *attempt == 1));
}
