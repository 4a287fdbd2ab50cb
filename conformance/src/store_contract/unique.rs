//! Promises of unique keys: while an event with one waits or runs, no second one is accepted.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, EventDraft, World, bury, retry, secs};
use duly::Unique;
use duly::event::{State, UNIQUE_HEADER};
use duly::records::Outcome;
use duly::store::operation::{AttemptOutcome, PushOutcome};

pub async fn a_taken_unique_key_keeps_the_event_that_waits(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let first = world.event().unique("k", Unique::Keep).when(secs(60));
    world.add(first.clone()).await;
    let second = world.event().unique("k", Unique::Keep);
    let pushed = world.push_all(std::slice::from_ref(&second)).await[0];
    assert_eq!(pushed.verdict, PushOutcome::Duplicate(first.id()));
    assert_eq!(
        pushed.due,
        world.now() + secs(60),
        "the due time of the one that stays"
    );
    assert_eq!(world.get(second.id()).await, None);
    world
        .add(world.event().unique("another", Unique::Keep))
        .await;
}

pub async fn a_unique_key_stays_taken_while_its_event_runs_or_waits_again(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let first = world.add(world.event().unique("k", Unique::Keep)).await;
    let taken = PushOutcome::Duplicate(first);
    let delivery = world.take(A).await;
    let again = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&again).await, taken, "it runs");
    assert!(world.settle(A, &delivery, retry(secs(5))).await);
    assert_eq!(
        world.push(&again).await,
        taken,
        "it waits for its next attempt"
    );
    world.advance(secs(5));
    world.take(A).await;
    world.reap_node(A).await;
    assert_eq!(world.push(&again).await, taken, "its lease was lost");
}

pub async fn a_unique_key_is_free_when_its_event_is_over_or_dead(harness: &dyn StoreHarness) {
    for verdict in [
        Some(AttemptOutcome::Ack),
        Some(AttemptOutcome::Discard(None)),
        Some(AttemptOutcome::Expire),
        Some(bury()),
        None,
    ] {
        let world = World::new(harness).await;
        let first = world.add(world.event().unique("k", Unique::Keep)).await;
        match verdict {
            Some(verdict) => {
                let delivery = world.take(A).await;
                assert!(world.settle(A, &delivery, verdict).await);
            }
            None => drop(world.cancel(first).await),
        }
        world.add(world.event().unique("k", Unique::Keep)).await;
    }
}

pub async fn replace_cancels_the_event_that_waits(harness: &dyn StoreHarness) {
    for delay in [secs(0), secs(60)] {
        let world = World::new(harness).await;
        let first = world
            .add(world.event().unique("k", Unique::Keep).when(delay))
            .await;
        let second = world.event().unique("k", Unique::Replace);
        assert_eq!(world.push(&second).await, PushOutcome::Replaced(first));
        assert_eq!(world.state(first).await, Some(State::Cancelled));
        assert_eq!(world.record(first).await.outcome, Outcome::Cancelled);
        assert_eq!(world.take(A).await.id, second.id());
    }
}

pub async fn replace_leaves_a_running_event_alone_and_takes_its_key(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event().unique("k", Unique::Keep)).await;
    let running = world.take(A).await;
    let second = world
        .add(world.event().unique("k", Unique::Replace).when(secs(9)))
        .await;
    assert_eq!(world.state(running.id).await, Some(State::Leased));
    assert!(world.settle(A, &running, AttemptOutcome::Ack).await);
    // The end of the first did not free the key, which the second has.
    let third = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&third).await, PushOutcome::Duplicate(second));
}

pub async fn a_revived_event_has_its_unique_key_again_if_it_is_free(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let dead = world.dead(world.event().unique("k", Unique::Keep)).await;
    assert_eq!(world.revive(&[dead]).await, 1);
    let again = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&again).await, PushOutcome::Duplicate(dead));
}

pub async fn a_revived_event_does_not_take_a_unique_key_away(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let dead = world.dead(world.event().unique("k", Unique::Keep)).await;
    let heir = world.add(world.event().unique("k", Unique::Keep)).await;
    assert_eq!(world.revive(&[dead]).await, 1);
    let third = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&third).await, PushOutcome::Duplicate(heir));
    let _ = world.cancel(dead).await;
    assert_eq!(
        world.push(&third).await,
        PushOutcome::Duplicate(heir),
        "it was not its key"
    );
}

pub async fn one_push_may_replace_its_own_events(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let first = world.event().unique("k", Unique::Replace);
    let second = world.event().unique("k", Unique::Replace);
    let pushed = world.push_all(&[first.clone(), second.clone()]).await;
    assert_eq!(pushed[0].verdict, PushOutcome::Accepted);
    assert_eq!(pushed[1].verdict, PushOutcome::Replaced(first.id()));
    assert_eq!(world.take(A).await.id, second.id());
}

/// Reserves the key for this time after its event is done.
fn for_secs(draft: EventDraft, secs: u64) -> EventDraft {
    draft.with(|envelope| {
        let words = (secs * 1_000).to_string();
        envelope.headers.push((UNIQUE_HEADER.to_owned(), words));
    })
}

pub async fn a_unique_key_stays_taken_for_as_long_as_asked_after_its_event_is_done(
    harness: &dyn StoreHarness,
) {
    for verdict in [AttemptOutcome::Ack, AttemptOutcome::Discard(None)] {
        let world = World::new(harness).await;
        let first = for_secs(world.event().unique("k", Unique::Keep), 60);
        let first = world.add(first).await;
        let delivery = world.take(A).await;
        world.advance(secs(300));
        assert!(world.settle(A, &delivery, verdict).await);
        let again = world.event().unique("k", Unique::Keep);
        let taken = PushOutcome::Duplicate(first);
        assert_eq!(world.push(&again).await, taken, "it is done");
        world.advance(secs(59));
        assert_eq!(world.push(&again).await, taken, "a minute is not over");
        world.advance(secs(1));
        assert_eq!(world.push(&again).await, PushOutcome::Accepted);
    }
}

pub async fn a_unique_key_that_stays_taken_is_free_when_its_event_was_not_done(
    harness: &dyn StoreHarness,
) {
    for verdict in [Some(AttemptOutcome::Expire), Some(bury()), None] {
        let world = World::new(harness).await;
        let first = for_secs(world.event().unique("k", Unique::Keep), 60);
        let first = world.add(first).await;
        match verdict {
            Some(verdict) => {
                let delivery = world.take(A).await;
                assert!(world.settle(A, &delivery, verdict).await);
            }
            None => drop(world.cancel(first).await),
        }
        world.add(world.event().unique("k", Unique::Keep)).await;
    }
}

pub async fn a_replacement_takes_over_a_unique_key_that_stays_taken(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let first = for_secs(world.event().unique("k", Unique::Keep), 60);
    world.add(first).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    let second = world.add(world.event().unique("k", Unique::Replace)).await;
    let third = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&third).await, PushOutcome::Duplicate(second));
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    assert_eq!(world.push(&third).await, PushOutcome::Accepted);
}

pub async fn unique_keys_that_are_free_again_are_let_go(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for number in 0..12 {
        let key = format!("k{number}");
        world
            .add(for_secs(world.event().unique(&key, Unique::Keep), 5))
            .await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
        world.advance(secs(2));
    }
    world.add(world.event().unique("k0", Unique::Keep)).await;
    let last = world.event().unique("k11", Unique::Keep);
    assert!(matches!(world.push(&last).await, PushOutcome::Duplicate(_)));
}

pub async fn a_unique_key_stays_taken_over_a_new_opening(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut ids = Vec::new();
    for (key, seconds) in [("over", 60), ("soon", 5), ("waits", 60)] {
        let draft = for_secs(world.event().unique(key, Unique::Keep), seconds);
        ids.push(world.add(draft).await);
        if key != "waits" {
            let delivery = world.take(A).await;
            assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
        }
    }
    let Some(world) = world.reopened().await else {
        return;
    };
    world.advance(secs(5));
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    let again = |key| world.event().unique(key, Unique::Keep);
    let over = world.push(&again("over")).await;
    assert_eq!(over, PushOutcome::Duplicate(ids[0]));
    assert_eq!(world.push(&again("soon")).await, PushOutcome::Accepted);
    let waited = world.push(&again("waits")).await;
    assert_eq!(waited, PushOutcome::Duplicate(ids[2]), "it is done by now");
}
