//! Promises of settle: each attempt ends once, under its own lease, with one record.

use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, bury, ms, retry, secs};
use duly::event::State;
use duly::records::{Cause, Outcome};
use duly::store::operation::AttemptOutcome;
use duly::time::DELAY_MAX;

/// Every kind of settlement, with the outcome of its record.
fn verdicts() -> Vec<(AttemptOutcome, Option<Outcome>, State)> {
    vec![
        (AttemptOutcome::Ack, Some(Outcome::Acked), State::Done),
        (retry(secs(5)), Some(Outcome::Retried), State::Scheduled),
        (
            AttemptOutcome::Snooze(secs(5)),
            Some(Outcome::Snoozed),
            State::Scheduled,
        ),
        (bury(), Some(Outcome::Buried), State::Dead),
        (
            AttemptOutcome::Discard(None),
            Some(Outcome::Discarded),
            State::Discarded,
        ),
        (
            AttemptOutcome::Expire,
            Some(Outcome::Expired),
            State::Expired,
        ),
        (AttemptOutcome::Release, None, State::Ready),
        (
            AttemptOutcome::Interrupt { free: 1 },
            Some(Outcome::Interrupted),
            State::Ready,
        ),
        (
            AttemptOutcome::Interrupt { free: 0 },
            Some(Outcome::Retried),
            State::Ready,
        ),
    ]
}

pub async fn each_verdict_leads_where_it_says_and_writes_one_record(harness: &dyn StoreHarness) {
    for (verdict, outcome, state) in verdicts() {
        let world = World::new(harness).await;
        let id = world.add(world.event()).await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, verdict).await);
        assert_eq!(world.state(id).await, Some(state));
        let outcomes: Vec<_> = world.records(id).await.iter().map(|r| r.outcome).collect();
        assert_eq!(outcomes, Vec::from_iter(outcome));
    }
}

pub async fn a_repeated_settle_answers_the_same_and_changes_nothing(harness: &dyn StoreHarness) {
    for (verdict, _, _) in verdicts() {
        let world = World::new(harness).await;
        let id = world.add(world.event()).await;
        let delivery = world.take(A).await;
        let settlement = world.ended(&delivery, verdict);
        assert_eq!(world.settle_all(A, vec![settlement.clone()]).await, [true]);
        let (before, records) = (world.get(id).await, world.records(id).await);
        world.advance(secs(1));
        let again = vec![settlement.clone(), settlement];
        assert_eq!(world.settle_all(A, again).await, [true, true]);
        assert_eq!(world.get(id).await, before);
        assert_eq!(world.records(id).await, records);
    }
}

/// Free are `free` of them in a row; any other end of an attempt but a release begins a new row.
pub async fn interruptions_in_a_row_are_free_up_to_a_bound(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().attempts(3)).await;
    let interrupt = || AttemptOutcome::Interrupt { free: 2 };
    let ends = [
        (interrupt(), Outcome::Interrupted, 0),
        (AttemptOutcome::Release, Outcome::Interrupted, 0),
        (interrupt(), Outcome::Interrupted, 0),
        (retry(Duration::ZERO), Outcome::Retried, 1),
        (interrupt(), Outcome::Interrupted, 1),
        (interrupt(), Outcome::Interrupted, 1),
        (interrupt(), Outcome::Retried, 2),
        (interrupt(), Outcome::Buried, 3),
    ];
    for (at, (verdict, outcome, tries)) in ends.into_iter().enumerate() {
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, verdict.clone()).await);
        let last = world.records(id).await.pop().expect("a record");
        assert_eq!(last.outcome, outcome, "end {at}");
        if matches!(verdict, AttemptOutcome::Interrupt { .. }) {
            assert_eq!(last.cause, Some(Cause::Interrupted), "end {at}");
            assert_eq!(last.attempt, delivery.attempt, "end {at}");
        }
        let found = world.get(id).await.expect("it is not over");
        assert_eq!(found.tries, tries, "end {at}");
        world.advance(secs(1));
    }
    assert_eq!(world.state(id).await, Some(State::Dead));
    assert_eq!(world.revive(&[id]).await, 1);
    for outcome in [Outcome::Interrupted, Outcome::Interrupted, Outcome::Retried] {
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, interrupt()).await);
        let last = world.records(id).await.pop().expect("a record");
        assert_eq!(last.outcome, outcome, "all its attempts, and interruptions");
        world.advance(secs(1));
    }
}

pub async fn a_repeat_is_known_after_the_event_was_leased_again(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let first = world.take(A).await;
    assert!(world.settle(A, &first, AttemptOutcome::Release).await);
    let second = world.take(B).await;
    assert!(
        world.settle(A, &first, AttemptOutcome::Release).await,
        "it was so"
    );
    assert_eq!(world.get(id).await.and_then(|found| found.holder), Some(B));
    assert!(world.settle(B, &second, AttemptOutcome::Ack).await);
}

pub async fn another_verdict_under_a_lease_that_has_ended_is_refused(harness: &dyn StoreHarness) {
    for (verdict, _, state) in verdicts() {
        let world = World::new(harness).await;
        let id = world.add(world.event()).await;
        let delivery = world.take(A).await;
        let other = match verdict {
            AttemptOutcome::Ack => retry(secs(1)),
            _ => AttemptOutcome::Ack,
        };
        assert!(world.settle(A, &delivery, verdict).await);
        assert!(
            !world.settle(A, &delivery, other).await,
            "it did not happen"
        );
        assert_eq!(world.state(id).await, Some(state));
    }
}

pub async fn a_settle_under_another_lease_is_refused(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert!(
        !world.settle(B, &delivery, AttemptOutcome::Ack).await,
        "another node"
    );
    let mut other = delivery.clone();
    other.request = delivery.request + 1;
    assert!(
        !world.settle(A, &other, AttemptOutcome::Ack).await,
        "another request"
    );
    other = delivery.clone();
    other.id = world.event().id();
    assert!(
        !world.settle(A, &other, AttemptOutcome::Ack).await,
        "another event"
    );
    assert_eq!(world.state(id).await, Some(State::Leased));
    assert_eq!(world.records(id).await, []);
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
}

pub async fn a_settle_after_the_lease_was_lost_is_refused(harness: &dyn StoreHarness) {
    for (verdict, _, _) in verdicts() {
        let world = World::new(harness).await;
        let id = world.add(world.event()).await;
        let lost = world.take(A).await;
        world.reap_node(A).await;
        assert!(
            !world.settle(A, &lost, verdict.clone()).await,
            "it is ready again"
        );
        let current = world.take(B).await;
        assert!(
            !world.settle(A, &lost, verdict.clone()).await,
            "another has it"
        );
        assert_eq!(world.get(id).await.and_then(|found| found.holder), Some(B));
        assert!(world.settle(B, &current, AttemptOutcome::Ack).await);
        assert!(!world.settle(A, &lost, verdict).await, "it is done");
        assert_eq!(
            world.records(id).await.len(),
            2,
            "the lost lease and the ack"
        );
    }
}

pub async fn each_settlement_of_a_batch_is_answered_for_itself(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..3 {
        world.add(world.event()).await;
    }
    let held = world.fetch(A).await;
    let mut batch: Vec<_> = held
        .iter()
        .map(|d| world.ended(d, AttemptOutcome::Ack))
        .collect();
    batch[1].request += 1;
    assert_eq!(world.settle_all(A, batch).await, [true, false, true]);
    assert_eq!(world.stats().await.leased, 1);
}

pub async fn a_failed_attempt_counts_and_is_due_again_after_its_delay(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    world.advance(secs(1));
    assert!(world.settle(A, &delivery, retry(secs(5))).await);
    let found = world.get(id).await.expect("it waits");
    assert_eq!((found.tries, found.due), (1, world.now() + secs(5)));
    world.advance(secs(5));
    let again = world.take(B).await;
    assert_eq!((again.attempt, again.due), (2, found.due));
}

pub async fn a_retry_without_delay_is_ready_at_once_behind_the_others(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    let other = world.add(world.event()).await;
    world.advance(Duration::from_micros(1_300));
    assert!(world.settle(A, &delivery, retry(secs(0))).await);
    let order: Vec<_> = world
        .fetch(A)
        .await
        .iter()
        .map(|delivery| delivery.id)
        .collect();
    assert_eq!(order, [other, id]);
}

pub async fn the_last_attempt_ends_in_a_dead_letter(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().attempts(3)).await;
    for attempt in 1..=3 {
        let delivery = world.take(A).await;
        assert_eq!(delivery.attempt, attempt);
        assert!(world.settle(A, &delivery, retry(secs(0))).await);
    }
    let found = world.get(id).await.expect("a dead letter is kept");
    assert_eq!((found.state, found.tries), (State::Dead, 3));
    let outcomes: Vec<_> = world
        .records(id)
        .await
        .iter()
        .map(|r| (r.attempt, r.outcome))
        .collect();
    let retried = Outcome::Retried;
    assert_eq!(outcomes, [(1, retried), (2, retried), (3, Outcome::Buried)]);
    assert_eq!(world.move_due().await, 0);
    assert_eq!(world.fetch(A).await, []);
}

pub async fn snooze_and_release_do_not_count(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().attempts(1)).await;
    for _ in 0..3 {
        for verdict in [AttemptOutcome::Snooze(secs(5)), AttemptOutcome::Release] {
            let delivery = world.take(A).await;
            assert_eq!(delivery.attempt, 1);
            assert!(world.settle(A, &delivery, verdict).await);
            world.advance(secs(5));
        }
    }
    assert_eq!(world.get(id).await.map(|found| found.tries), Some(0));
    assert_eq!(
        world.records(id).await.len(),
        3,
        "a release leaves no record"
    );
}

pub async fn what_is_handed_back_comes_first_and_in_its_order(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.add(world.event()).await);
    }
    let held = world.fetch_by(&world.fetching(A, 3)).await;
    let back = held
        .iter()
        .map(|delivery| world.ended(delivery, AttemptOutcome::Release));
    assert_eq!(world.settle_all(A, back.collect()).await, [true; 3]);
    let order: Vec<_> = world
        .fetch(B)
        .await
        .iter()
        .map(|delivery| delivery.id)
        .collect();
    assert_eq!(order, ids);
}

pub async fn what_is_handed_back_was_moved_when_it_was(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let first = world.take(A).await;
    world.advance(ms(5));
    assert!(world.settle(A, &first, AttemptOutcome::Release).await);
    assert_eq!(world.take(A).await.moved_us, first.moved_us);
}

pub async fn a_bury_counts_the_attempt_and_keeps_the_reason(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.dead(world.event()).await;
    let found = world.get(id).await.expect("a dead letter is kept");
    assert_eq!((found.state, found.tries), (State::Dead, 1));
    let record = world.record(id).await;
    assert_eq!(record.cause, Some(Cause::Failed));
    assert_eq!(record.error.as_deref(), Some("it is broken"));
}

pub async fn a_delay_that_is_too_long_is_cut_and_never_refused(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(Duration::MAX)).await);
    let due = world.get(id).await.map(|found| found.due);
    assert_eq!(due, Some(world.now() + DELAY_MAX));
}

/// A settle whose reply was lost is repeated in a batch with newly ended events.
pub async fn a_settle_that_ends_one_event_does_not_forget_another_of_its_batch(
    harness: &dyn StoreHarness,
) {
    let world = World::remembering(harness, 1).await;
    for _ in 0..2 {
        world.add(world.event()).await;
    }
    let held = world.fetch(A).await;
    let [first, second] = [0, 1].map(|at| world.ended(&held[at], AttemptOutcome::Ack));
    assert_eq!(world.settle_all(A, vec![first.clone()]).await, [true]);
    let batch = vec![second, first.clone()];
    assert_eq!(world.settle_all(A, batch).await, [true, true]);
    assert_eq!(world.settle_all(A, vec![first]).await, [false], "now it is");
}
