//! Promises of cancel, reschedule and update: each reports the actual result.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, bury, ms, retry, secs};
use duly::event::{Payload, State};
use duly::records::Outcome;
use duly::store::operation::{AttemptOutcome, PushOutcome, StoreOp};
use duly::time::{DELAY_MAX, When};
use duly::{CancelOutcome, ChangeOutcome, ErrorKind};

/// Ends a fresh event by each settlement that ends it, or its attempts.
async fn ended(harness: &dyn StoreHarness) -> Vec<(World, duly::EventId, State)> {
    let mut ended = Vec::new();
    for (verdict, state) in [
        (AttemptOutcome::Ack, State::Done),
        (bury(), State::Dead),
        (AttemptOutcome::Expire, State::Expired),
        (AttemptOutcome::Discard(None), State::Discarded),
    ] {
        let world = World::new(harness).await;
        let id = world.add(world.event()).await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, verdict).await);
        ended.push((world, id, state));
    }
    ended
}

pub async fn a_cancelled_event_is_never_started(harness: &dyn StoreHarness) {
    for delay in [secs(0), secs(5)] {
        let world = World::new(harness).await;
        let id = world.add(world.event().when(delay)).await;
        assert_eq!(world.cancel(id).await, CancelOutcome::Cancelled);
        assert_eq!(world.state(id).await, Some(State::Cancelled));
        world.advance(secs(60));
        assert_eq!(world.move_due().await, 0);
        assert_eq!(world.fetch(A).await, []);
        let record = world.record(id).await;
        assert_eq!((record.outcome, record.attempt), (Outcome::Cancelled, 0));
    }
}

pub async fn a_cancel_after_an_attempt_that_ended_is_a_cancel(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(secs(5))).await);
    assert_eq!(
        world.cancel(id).await,
        CancelOutcome::Cancelled,
        "its holder said that it ended"
    );
}

pub async fn a_cancel_after_a_lost_lease_says_that_somebody_may_run(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.maybe_running(world.event()).await;
    assert_eq!(world.cancel(id).await, CancelOutcome::CancelledAfterAttempt);
    assert_eq!(
        world.cancel(id).await,
        CancelOutcome::CancelledAfterAttempt,
        "and again"
    );
    assert_eq!(world.fetch(A).await, []);
}

pub async fn a_lost_lease_is_not_forgotten_by_a_later_attempt(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.maybe_running(world.event()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(secs(5))).await);
    assert_eq!(world.cancel(id).await, CancelOutcome::CancelledAfterAttempt);
}

pub async fn a_cancel_of_a_leased_event_is_too_late(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert_eq!(
        world.cancel(id).await,
        CancelOutcome::TooLate(State::Leased)
    );
    assert!(
        world.settle(A, &delivery, AttemptOutcome::Ack).await,
        "it runs undisturbed"
    );
}

pub async fn a_cancel_of_what_has_ended_is_too_late(harness: &dyn StoreHarness) {
    for (world, id, state) in ended(harness).await {
        assert_eq!(world.cancel(id).await, CancelOutcome::TooLate(state));
        assert_eq!(world.state(id).await, Some(state));
    }
}

pub async fn a_repeated_cancel_answers_the_same(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    assert_eq!(world.cancel(id).await, CancelOutcome::Cancelled);
    assert_eq!(world.cancel(id).await, CancelOutcome::Cancelled);
    assert_eq!(world.records(id).await.len(), 1);
}

pub async fn what_nobody_knows_is_not_found(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.event().id();
    assert_eq!(world.cancel(id).await, CancelOutcome::NotFound);
    assert_eq!(world.reschedule(id, secs(1)).await, ChangeOutcome::NotFound);
    assert_eq!(world.update(id, "x").await, ChangeOutcome::NotFound);
    assert_eq!(world.get(id).await, None);
}

pub async fn a_scheduled_event_gets_another_due_time(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(secs(60))).await;
    let later = world.now() + secs(90);
    assert_eq!(
        world.reschedule(id, secs(90)).await,
        ChangeOutcome::Changed(later)
    );
    world.advance(secs(60));
    assert_eq!(world.move_due().await, 0);
    let sooner = world.now() + ms(10);
    assert_eq!(
        world.reschedule(id, sooner).await,
        ChangeOutcome::Changed(sooner)
    );
    world.advance(ms(10));
    let delivery = world.take(A).await;
    assert_eq!(delivery.due, sooner);
}

pub async fn an_event_rescheduled_to_now_is_ready(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(secs(60))).await;
    assert_eq!(
        world.reschedule(id, When::Now).await,
        ChangeOutcome::Changed(world.now())
    );
    assert_eq!(world.state(id).await, Some(State::Ready));
    world.take(A).await;
}

pub async fn a_ready_event_can_be_put_off(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    assert_eq!(
        world.reschedule(id, secs(5)).await,
        ChangeOutcome::Changed(world.now() + secs(5))
    );
    assert_eq!(world.state(id).await, Some(State::Scheduled));
    assert_eq!(world.fetch(A).await, []);
    world.advance(secs(5));
    world.take(A).await;
}

pub async fn a_ready_event_rescheduled_to_now_stays_ready(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    world.advance(secs(1));
    assert_eq!(
        world.reschedule(id, When::Now).await,
        ChangeOutcome::Changed(world.now())
    );
    assert_eq!(world.take(A).await.due, world.now());
    assert_eq!(world.state(id).await, Some(State::Leased));
}

pub async fn a_change_of_what_is_leased_or_over_is_too_late(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    world.take(A).await;
    let too_late = ChangeOutcome::TooLate(State::Leased);
    assert_eq!(world.reschedule(id, secs(5)).await, too_late);
    assert_eq!(world.update(id, "x").await, too_late);
    for (world, id, state) in ended(harness).await {
        assert_eq!(
            world.reschedule(id, secs(5)).await,
            ChangeOutcome::TooLate(state)
        );
        if state != State::Dead {
            assert_eq!(world.update(id, "x").await, ChangeOutcome::TooLate(state));
        }
    }
}

pub async fn a_change_after_a_lost_lease_says_that_somebody_may_run(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.maybe_running(world.event()).await;
    let due = world.now() + secs(5);
    assert_eq!(
        world.update(id, "x").await,
        ChangeOutcome::ChangedAfterAttempt(world.now())
    );
    assert_eq!(
        world.reschedule(id, due).await,
        ChangeOutcome::ChangedAfterAttempt(due)
    );
}

pub async fn a_due_time_beyond_ten_years_is_refused(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(secs(5))).await;
    let when = When::After(DELAY_MAX + ms(1));
    let error = world.try_op(StoreOp::reschedule(id, when)).await;
    assert_eq!(error.expect_err("too far away").kind(), ErrorKind::Invalid);
    assert_eq!(
        world.get(id).await.map(|found| found.due),
        Some(world.now() + secs(5))
    );
}

pub async fn an_updated_event_is_delivered_with_its_new_payload(harness: &dyn StoreHarness) {
    for delay in [secs(0), secs(5)] {
        let world = World::new(harness).await;
        let draft = world
            .event()
            .when(delay)
            .with(|envelope| envelope.key = Some("k".into()));
        let id = world.add(draft.clone()).await;
        let due = world.now() + delay;
        assert_eq!(world.update(id, "new").await, ChangeOutcome::Changed(due));
        assert_eq!(world.push(&draft).await, PushOutcome::Conflict);
        let new = draft.payload("new");
        assert_eq!(world.push(&new).await, PushOutcome::Duplicate(id));
        world.advance(delay);
        assert_eq!(
            *world.take(A).await.body,
            *new.0.envelope,
            "all else is as it was"
        );
    }
}

pub async fn an_update_after_a_failed_attempt_is_for_the_next(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(secs(5))).await);
    assert_eq!(
        world.update(id, "new").await,
        ChangeOutcome::Changed(world.now() + secs(5))
    );
    world.advance(secs(5));
    let again = world.take(B).await;
    assert_eq!(
        (again.attempt, again.body.payload.as_bytes()),
        (2, b"new".as_slice())
    );
}

pub async fn a_rewritten_event_is_delivered_in_its_new_form_and_leaves_no_record(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let dead = world.dead(world.event()).await;
    let later = world.add(world.event().when(secs(60))).await;
    let ready = world.add(world.event()).await;
    let records = world.records(dead).await.len();
    let ids = [later, ready, dead];
    let mut rewritings = Vec::new();
    for (at, id) in ids.into_iter().enumerate() {
        rewritings.push(world.rewriting(id, &format!("form {at}")).await);
    }
    assert_eq!(world.rewrite(rewritings.clone()).await, 3);
    assert_eq!(world.rewrite(rewritings).await, 0, "again");

    for (at, id) in ids.into_iter().enumerate() {
        let body = world.get(id).await.and_then(|found| found.body);
        let payload = body.expect("it waits").payload.clone();
        assert_eq!(payload.as_bytes(), format!("form {at}").as_bytes());
    }
    assert_eq!(world.records(dead).await.len(), records);
    assert_eq!(world.records(ready).await, []);
    let delivery = world.take(A).await;
    assert_eq!(delivery.body.payload.as_bytes(), b"form 1");
}

pub async fn a_rewrite_overwrites_no_change_and_nothing_that_is_held(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for when in [secs(60), secs(0)] {
        let id = world.add(world.event().when(when)).await;
        let read = world.rewriting(id, "form").await;
        let _ = world.update(id, "changed meanwhile").await;
        assert_eq!(world.rewrite(vec![read]).await, 0);
        let body = world.get(id).await.and_then(|found| found.body);
        let payload = body.expect("it waits").payload.clone();
        assert_eq!(payload.as_bytes(), b"changed meanwhile");
        let _ = world.cancel(id).await;
    }
    let id = world.add(world.event()).await;
    let read = world.rewriting(id, "form").await;
    let delivery = world.take(A).await;
    assert_eq!(world.rewrite(vec![read.clone()]).await, 0);
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    assert_eq!(world.rewrite(vec![read]).await, 0);
}

pub async fn a_rewritten_event_is_known_by_its_new_form_after_its_end(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event();
    let id = world.add(draft.clone()).await;
    let read = world.rewriting(id, "form").await;
    assert_eq!(world.rewrite(vec![read]).await, 1);
    let same = draft
        .clone()
        .with(|envelope| envelope.payload = Payload::from(b"form".as_slice()));
    for _ in 0..2 {
        let verdict = world.push(&same).await;
        assert_eq!(verdict, PushOutcome::Duplicate(id));
        let verdict = world.push(&draft).await;
        assert_eq!(verdict, PushOutcome::Conflict);
        if let Some(delivery) = world.fetch(A).await.pop() {
            assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
        }
    }
}
