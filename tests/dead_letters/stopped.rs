//! What is done to many letters stops at the first error, says what was done, and goes on later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::TestBus;

use crate::dead_letters::kit::picky;
use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, secs};

over_every_store! {
    a_sweep_that_is_stopped_says_how_far_it_came_and_goes_on_there,
    a_lost_answer_is_told_and_its_repeat_does_nothing_twice,
    a_letter_that_was_revived_meanwhile_is_passed_over,
    a_page_that_cannot_be_read_is_an_error,
}

/// A hundred dead letters in two buckets, and a way to the store that fails.
pub(super) async fn distant(world: &World) -> (TestBus, Queue<u64>, Arc<Faulty>) {
    let way = Faulty::to(&world.store);
    let builder = Bus::builder()
        .only_registered()
        .shared_store(Arc::clone(&way) as _)
        .register_as(ORDERS.attempts(1).buckets(2), picky());
    let bus = world.start(builder).await;
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    for _ in 0..200 {
        queue.push(0, When::Now).await.unwrap();
    }
    bus.advance(secs(1)).await;
    bus.pause("orders").await.unwrap();
    (bus, queue, way)
}

/// From the third on, revivals meet with this, once.
fn third_revival(fault: Fault) -> impl FnMut(&duly::event::BucketKey, &StoreOp) -> Fault + Send {
    let revivals = AtomicUsize::new(0);
    move |_, op| match op {
        StoreOp::Revive { .. } if revivals.fetch_add(1, Ordering::Relaxed) == 2 => fault,
        _ => Fault::None,
    }
}

async fn a_sweep_that_is_stopped_says_how_far_it_came_and_goes_on_there(world: World) {
    let (bus, _queue, way) = distant(&world).await;
    way.meets(third_revival(Fault::Refused(ErrorKind::Unavailable)));
    let letters = bus.dead_letters().rate(300.0);
    let sweep = letters.clone().revive_all().await.unwrap();
    assert_eq!((sweep.done, sweep.matched), (60, 60));
    let stopped = sweep.stopped.as_ref().unwrap();
    assert_eq!(stopped.kind(), ErrorKind::Unavailable);
    assert_eq!(bus.stats("orders").await.unwrap().dead, 140);
    let next = sweep.next.clone();
    assert!(sweep.finished().is_err());
    let rest = letters.after(next).revive_all().await.unwrap();
    assert_eq!((rest.done, rest.passed_over), (140, 0));
    assert!(rest.finished().is_ok());
}

async fn a_lost_answer_is_told_and_its_repeat_does_nothing_twice(world: World) {
    let (bus, _queue, way) = distant(&world).await;
    way.meets(third_revival(Fault::Lost));
    let letters = bus.dead_letters().rate(300.0);
    let sweep = letters.clone().revive_all().await.unwrap();
    assert_eq!(sweep.done, 60);
    assert_eq!(sweep.stopped.unwrap().kind(), ErrorKind::Unknown);
    let rest = letters.after(sweep.next).revive_all().await.unwrap();
    let unheard = 140 - rest.done;
    assert!(
        (1..=30).contains(&unheard),
        "done without an answer: {unheard}"
    );
    let page = bus.records().outcome(Outcome::Revived).limit(1_000);
    assert_eq!(page.page().await.unwrap().items.len(), 200);
}

/// Between the look and the deed somebody else was there.
async fn a_letter_that_was_revived_meanwhile_is_passed_over(world: World) {
    let (bus, _queue, way) = distant(&world).await;
    let dead = bus.dead_letters().limit(50).page().await.unwrap().items;
    let dead: Vec<_> = dead.iter().map(|letter| letter.id).collect();
    let store = Arc::clone(&world.store);
    let taken = dead[..20].to_vec();
    let mut is_first = true;
    way.meets(move |bucket, op| {
        if matches!(op, StoreOp::Revive { .. }) && std::mem::take(&mut is_first) {
            let taken = taken.iter().filter(|id| id.bucket() == bucket.bucket);
            let ids = taken.copied().collect();
            drop(store.apply(bucket, StoreOp::Revive { ids, by: None }));
        }
        Fault::None
    });
    let sweep = bus.dead_letters().revive(dead).await.unwrap();
    assert_eq!((sweep.matched, sweep.done, sweep.passed_over), (50, 30, 20));
}

async fn a_page_that_cannot_be_read_is_an_error(world: World) {
    let (bus, _queue, way) = distant(&world).await;
    way.is(Fault::Refused(ErrorKind::Unavailable));
    let error = bus.dead_letters().page().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let sweep = bus.dead_letters().revive_all().await.unwrap();
    assert_eq!((sweep.done, sweep.next), (0, None));
    assert!(sweep.stopped.is_some());
}
