//! Unique keys: while an event with one waits or runs, no second one is accepted beside it.

use crate::core::op::{PushVerdict, Unique, Verdict};
use crate::event::State;
use crate::record::Outcome;
use crate::testing::store_contract::harness::StoreHarness;
use crate::testing::store_contract::world::{A, World, bury, retry, secs};

pub async fn a_taken_unique_key_keeps_the_event_that_waits(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let first = world.event().unique("k", Unique::Keep).when(secs(60));
    world.add(first.clone()).await;
    let second = world.event().unique("k", Unique::Keep);
    let pushed = world.push_all(std::slice::from_ref(&second)).await[0];
    assert_eq!(pushed.verdict, PushVerdict::Duplicate(first.id()));
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
    let taken = PushVerdict::Duplicate(first);
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
        Some(Verdict::Ack),
        Some(Verdict::Discard(None)),
        Some(Verdict::Expire),
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
        assert_eq!(world.push(&second).await, PushVerdict::Replaced(first));
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
    assert!(world.settle(A, &running, Verdict::Ack).await);
    // The end of the first did not free the key: it is the second's.
    let third = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&third).await, PushVerdict::Duplicate(second));
}

pub async fn a_revived_event_has_its_unique_key_again_if_it_is_free(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let dead = world.dead(world.event().unique("k", Unique::Keep)).await;
    assert_eq!(world.revive(&[dead]).await, 1);
    let again = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&again).await, PushVerdict::Duplicate(dead));
}

pub async fn a_revived_event_does_not_take_a_unique_key_away(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let dead = world.dead(world.event().unique("k", Unique::Keep)).await;
    let heir = world.add(world.event().unique("k", Unique::Keep)).await;
    assert_eq!(world.revive(&[dead]).await, 1);
    let third = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&third).await, PushVerdict::Duplicate(heir));
    world.cancel(dead).await;
    assert_eq!(
        world.push(&third).await,
        PushVerdict::Duplicate(heir),
        "it was not its key"
    );
}

pub async fn one_push_may_replace_its_own_events(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let first = world.event().unique("k", Unique::Replace);
    let second = world.event().unique("k", Unique::Replace);
    let pushed = world.push_all(&[first.clone(), second.clone()]).await;
    assert_eq!(pushed[0].verdict, PushVerdict::Accepted);
    assert_eq!(pushed[1].verdict, PushVerdict::Replaced(first.id()));
    assert_eq!(world.take(A).await.id, second.id());
}
