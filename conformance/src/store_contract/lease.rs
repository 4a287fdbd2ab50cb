//! Promises of leases: kept by heartbeats, lost by silence, and every loss is reported.

use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, EventDraft, STRANGER, World, ms, retry, secs};
use duly::ErrorKind;
use duly::event::State;
use duly::records::{Cause, NodeId, Outcome};
use duly::store::operation::{AttemptOutcome, Delivery, Fetch, StoreOp};
use duly::time::Clock;

pub async fn a_heartbeat_keeps_what_a_node_holds(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let delivery = world.take(A).await;
    let seen = world.holders().await;
    assert_eq!(seen.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [A]);
    assert!(world.heartbeat(A).await);
    let reaped = world.reap(seen, 100).await;
    assert_eq!(
        (reaped.ready, reaped.more),
        (0, false),
        "it has beaten since"
    );
    assert!(world.heartbeat(A).await);
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
}

pub async fn a_heartbeat_of_a_node_that_holds_nothing_says_so(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    assert!(!world.heartbeat(STRANGER).await);
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    assert!(!world.heartbeat(A).await);
    assert_eq!(world.holders().await, []);
}

pub async fn a_fetch_and_its_repeat_are_heartbeats_too(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let first = world.take(A).await;
    world.add(world.event()).await;
    world.move_due().await;
    let fetch = world.fetching(A, 1);
    for which in ["a fetch", "its repeat"] {
        let seen = world.holders().await;
        assert_eq!(world.fetch_by(&fetch).await.len(), 1);
        let reaped = world.reap(seen, 100).await;
        assert_eq!(reaped.ready, 0, "{which} came since");
    }
    assert!(world.settle(A, &first, AttemptOutcome::Ack).await);
}

pub async fn what_a_silent_node_held_is_ready_again_and_has_used_an_attempt(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let lost = world.take(A).await;
    world.advance(secs(3));
    let reaped = world.reap_node(A).await;
    assert_eq!((reaped.ready, reaped.dead, reaped.more), (1, 0, false));
    assert_eq!(reaped.holders, []);
    let record = world.record(id).await;
    assert_eq!(
        (record.outcome, record.cause),
        (Outcome::LeaseLost, Some(Cause::LeaseLost))
    );
    assert_eq!((record.attempt, record.node), (1, A));
    assert_eq!((record.stages.started_us, record.due), (0, lost.due));
    assert_eq!(record.stages.finished_us, world.clock.wall_us());
    let again = world.take(B).await;
    assert_eq!((again.attempt, again.due), (2, lost.due));
}

pub async fn a_node_that_dies_with_it_each_time_ends_in_a_dead_letter(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().attempts(2)).await;
    world.take(A).await;
    world.reap_node(A).await;
    world.take(B).await;
    let reaped = world.reap_node(B).await;
    assert_eq!((reaped.ready, reaped.dead), (0, 1));
    let found = world.get(id).await.expect("a dead letter is kept");
    assert_eq!((found.state, found.tries), (State::Dead, 2));
    let records = world.records(id).await;
    let outcomes: Vec<_> = records.iter().map(|record| record.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::LeaseLost; 2],
        "each attempt has one record"
    );
}

pub async fn a_reap_takes_only_what_the_silent_node_holds(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for node in [A, B] {
        world.add(world.event()).await;
        world.take(node).await;
    }
    world.reap_node(A).await;
    assert_eq!(world.holders().await.len(), 1);
    assert!(world.heartbeat(B).await);
    assert!(!world.heartbeat(A).await);
}

pub async fn a_reap_of_nobody_only_looks(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for node in [A, B] {
        world.add(world.event()).await;
        world.take(node).await;
    }
    let first = world.holders().await;
    assert_eq!(first.len(), 2);
    assert_eq!(world.holders().await, first, "looking is no heartbeat");
    let stranger = world.reap(vec![(STRANGER, 0)], 100).await;
    assert_eq!((stranger.ready, stranger.holders), (0, first));
}

pub async fn an_observation_from_before_a_pause_reaps_nobody(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let delivery = world.take(A).await;
    let old = world.holders().await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    world.advance(secs(60));
    let id = world.add(world.event()).await;
    world.take(A).await;
    assert_eq!(world.reap(old, 100).await.ready, 0, "it has just fetched");
    assert_eq!(world.state(id).await, Some(State::Leased));
}

pub async fn a_reap_that_was_cut_short_is_ended_by_anyone(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..5 {
        world.add(world.event()).await;
    }
    let held = world.fetch(A).await;
    let reaped = world.reap(world.holders().await, 2).await;
    assert_eq!((reaped.ready, reaped.more), (2, true));
    assert!(!world.heartbeat(A).await, "that was decided");
    for _ in 0..2 {
        assert_eq!(refused(&world, A).await, ErrorKind::LeaseLost);
    }
    assert_eq!(reaped.holders.len(), 1, "what is left is still its");
    let rest = world.reap(Vec::new(), 100).await;
    assert_eq!((rest.ready, rest.more), (3, false));
    assert!(!world.heartbeat(A).await);
    for delivery in &held {
        assert!(!world.settle(A, delivery, AttemptOutcome::Ack).await);
    }
}

async fn refused(world: &World, node: NodeId) -> ErrorKind {
    let fetch = StoreOp::fetch(world.fetching(node, 10));
    world
        .try_op(fetch)
        .await
        .expect_err("a refused fetch")
        .kind()
}

pub async fn a_reap_cut_short_takes_back_only_what_is_still_held(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..4 {
        world.add(world.event()).await;
    }
    let held = world.fetch(A).await;
    assert_eq!(world.reap(world.holders().await, 1).await.ready, 1);
    let last = &held[3];
    assert!(
        world.settle(A, last, AttemptOutcome::Ack).await,
        "its lease still stands"
    );
    let rest = world.reap(Vec::new(), 100).await;
    assert_eq!((rest.ready, rest.more), (2, false));
    assert_eq!(world.state(last.id).await, Some(State::Done));
}

pub async fn a_node_that_was_given_up_is_told_before_it_gets_more(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    world.take(A).await;
    world.reap_node(A).await;
    // It slept through all of it. If it were granted a lease now, its next heartbeat would seem to
    // keep the lost ones.
    let fetch = world.fetching(A, 10);
    for _ in 0..2 {
        let error = world.try_op(StoreOp::fetch(fetch.clone())).await;
        let error = error.expect_err("it is told, and told again when the answer was lost");
        assert_eq!(error.kind(), ErrorKind::LeaseLost);
    }
    assert_eq!(world.fetch(A).await.len(), 1, "then it goes on");
    assert!(world.heartbeat(A).await);
}

async fn hold(world: &World, node: NodeId, draft: EventDraft, hold: Duration) -> Delivery {
    world.add(draft).await;
    let fetch = Fetch {
        hold: Some(hold),
        ..world.fetching(node, 10)
    };
    world.fetch_by(&fetch).await.remove(0)
}

pub async fn a_lease_with_a_deadline_ends_there_and_not_before(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.advance(Duration::from_micros(300));
    let delivery = hold(&world, A, world.event(), ms(100)).await;
    let deadline = world.now() + ms(101);
    world.advance(Duration::from_micros(100_699));
    let reaped = world.reap(Vec::new(), 10).await;
    assert_eq!((reaped.ready, reaped.next_deadline), (0, Some(deadline)));
    world.advance(Duration::from_micros(1));
    let reaped = world.reap(Vec::new(), 10).await;
    assert_eq!((reaped.ready, reaped.next_deadline), (1, None));
    assert!(!world.settle(A, &delivery, AttemptOutcome::Ack).await);
    assert_eq!(world.record(delivery.id).await.outcome, Outcome::LeaseLost);
}

pub async fn a_lease_with_a_deadline_is_no_matter_of_heartbeats(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let delivery = hold(&world, A, world.event(), secs(10)).await;
    assert_eq!(world.holders().await, []);
    assert!(
        !world.heartbeat(A).await,
        "it holds nothing that a heartbeat keeps"
    );
    let other = world.add(world.event()).await;
    world.take(A).await;
    assert_eq!(world.reap_node(A).await.ready, 1, "only the other one");
    let _ = world.cancel(other).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    let late = hold(&world, B, world.event(), secs(1)).await;
    assert!(!world.heartbeat(B).await);
    world.advance(secs(1));
    assert_eq!(world.reap(Vec::new(), 10).await.ready, 1);
    assert!(!world.settle(B, &late, AttemptOutcome::Ack).await);
}

pub async fn a_settle_past_the_deadline_counts_until_it_is_reaped(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let delivery = hold(&world, A, world.event(), secs(1)).await;
    world.advance(secs(5));
    assert!(
        world.settle(A, &delivery, retry(secs(1))).await,
        "nobody else has had it"
    );
}

pub async fn extend_moves_a_deadline(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let delivery = hold(&world, A, world.event(), secs(1)).await;
    world.advance(ms(900));
    assert!(world.extend(A, &delivery, secs(1)).await);
    assert!(!world.extend(B, &delivery, secs(9)).await, "it is not B's");
    world.advance(ms(999));
    assert_eq!(world.reap(Vec::new(), 10).await.ready, 0);
    world.advance(ms(1));
    assert_eq!(world.reap(Vec::new(), 10).await.ready, 1);
    assert!(!world.extend(A, &delivery, secs(1)).await, "it is lost");
    assert_eq!(world.stats().await.ready, 1);
}

pub async fn extend_answers_for_a_lease_that_a_heartbeat_keeps(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert!(world.extend(A, &delivery, ms(1)).await);
    world.advance(secs(1));
    let reaped = world.reap(Vec::new(), 10).await;
    assert_eq!(
        (reaped.ready, reaped.next_deadline),
        (0, None),
        "it got no deadline by that"
    );
}

pub async fn a_limited_reap_of_deadlines_says_that_there_is_more(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..3 {
        hold(&world, A, world.event(), secs(1)).await;
    }
    world.advance(secs(1));
    let reaped = world.reap(Vec::new(), 2).await;
    assert_eq!((reaped.ready, reaped.more), (2, true));
    let reaped = world.reap(Vec::new(), 2).await;
    assert_eq!((reaped.ready, reaped.more), (1, false));
}

pub async fn a_repeated_reap_takes_nothing_twice(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    world.take(A).await;
    let silent = world.holders().await;
    assert_eq!(world.reap(silent.clone(), 10).await.ready, 1);
    assert_eq!(world.reap(silent, 10).await.ready, 0);
    assert_eq!(world.get(id).await.map(|found| found.tries), Some(1));
}
