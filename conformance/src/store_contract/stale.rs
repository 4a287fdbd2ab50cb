//! Promises of events that are set aside: expired, or too late by their own policy.

use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, World, ms, retry, secs};
use duly::LatePolicy;
use duly::event::State;
use duly::records::{Cause, NodeId, Outcome};
use duly::store::operation::{AttemptOutcome, StoreOp};

pub async fn an_expired_event_is_set_aside_with_a_record(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let at = world.now() + secs(5);
    let id = world.add(world.event().expires(at)).await;
    world.advance(secs(5) - Duration::from_micros(1));
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Release).await);
    world.advance(Duration::from_micros(1));
    assert_eq!(world.fetch(A).await, [], "from then on it is not started");
    assert_eq!(world.state(id).await, Some(State::Expired));
    let record = world.record(id).await;
    assert_eq!((record.outcome, record.attempt), (Outcome::Expired, 0));
    assert_eq!(record.node, NodeId::default());
}

pub async fn an_event_that_is_too_late_ends_as_its_policy_says(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let expire = world
        .add(
            world
                .event()
                .when(secs(9))
                .late(LatePolicy::Expire(ms(100))),
        )
        .await;
    let bury = world
        .add(world.event().when(secs(9)).late(LatePolicy::Bury(ms(100))))
        .await;
    let deliver = world.add(world.event().when(secs(9))).await;
    world.advance(secs(9) + ms(100));
    assert_eq!(world.move_due().await, 3);
    let all = world.fetch(A).await;
    assert_eq!(all.len(), 3, "100 ms late is not later than 100 ms");
    for delivery in &all {
        assert!(world.settle(A, delivery, AttemptOutcome::Release).await);
    }
    world.advance(Duration::from_micros(1));
    assert_eq!(world.take(A).await.id, deliver);
    assert_eq!(world.state(expire).await, Some(State::Expired));
    assert_eq!(world.record(expire).await.outcome, Outcome::Expired);
    let dead = world.get(bury).await.expect("a dead letter is kept");
    assert_eq!((dead.state, dead.tries), (State::Dead, 0));
    let record = world.record(bury).await;
    assert_eq!(
        (record.outcome, record.cause),
        (Outcome::Buried, Some(Cause::TooLate))
    );
}

pub async fn lateness_counts_from_the_due_time_of_the_attempt(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world
        .add(world.event().late(LatePolicy::Expire(secs(1))))
        .await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(secs(60))).await);
    world.advance(secs(61));
    assert_eq!(world.take(A).await.attempt, 2);
}

pub async fn many_events_of_no_use_do_not_hide_a_good_one(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let at = world.now();
    for _ in 0..2 {
        let drafts: Vec<_> = (0..900).map(|_| world.event().expires(at)).collect();
        world.push_all(&drafts).await;
    }
    let good = world.add(world.event()).await;
    // A call ends as many as it has time for.
    for _ in 0..16 {
        let fetched = world.op(StoreOp::fetch(world.fetching(A, 1))).await;
        if let [delivery] = &fetched.deliveries[..] {
            assert_eq!(delivery.id, good);
            return;
        }
        assert!(fetched.ready > 0, "the node is told to ask again");
    }
    panic!("a good event stays behind those of no use");
}
