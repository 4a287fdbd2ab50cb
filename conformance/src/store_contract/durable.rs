//! Promises of durability, for stores that outlive the process. Others pass by surviving nothing.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, bury, retry, secs};
use duly::event::State;
use duly::records::Outcome;
use duly::store::operation::{AttemptOutcome, PushOutcome};
use duly::{CancelOutcome, Unique};

pub async fn accepted_events_survive(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event().when(secs(60)).with(|envelope| {
        envelope.key = Some("k".into());
        envelope.headers = vec![("a".into(), "b".into())];
    });
    let scheduled = world.add(draft.clone()).await;
    let ready = world.add(world.event()).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(world.push(&draft).await, PushOutcome::Duplicate(scheduled));
    assert_eq!(
        world.push(&draft.clone().payload("x")).await,
        PushOutcome::Conflict
    );
    assert_eq!(world.take(A).await.id, ready);
    world.advance(secs(60));
    let delivery = world.take(A).await;
    assert_eq!(
        (delivery.id, &*delivery.body),
        (scheduled, &*draft.0.envelope)
    );
    assert_eq!(delivery.due, world.now());
}

pub async fn what_was_leased_is_ready_again(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let lost = world.take(A).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    if world.store().is_shared() {
        // Other stores cannot detect the end of a process before it has been silent.
        world.reap_node(A).await;
    }
    assert!(
        !world.settle(A, &lost, AttemptOutcome::Ack).await,
        "its process is gone"
    );
    assert_eq!(world.take(B).await.id, id);
}

pub async fn attempts_and_due_times_survive(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(secs(30))).await);
    let before = world.get(id).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(world.get(id).await, before);
    world.advance(secs(30));
    assert_eq!(world.take(A).await.attempt, 2);
}

pub async fn changes_by_hand_survive(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event().when(secs(60));
    let id = world.add(draft.clone()).await;
    let _ = world.update(id, "new").await;
    let _ = world.reschedule(id, secs(90)).await;
    let before = world.get(id).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(world.get(id).await, before);
    assert_eq!(world.push(&draft).await, PushOutcome::Conflict);
    world.advance(secs(90));
    assert_eq!(world.take(A).await.body.payload.as_bytes(), b"new");
}

pub async fn dead_letters_survive_and_can_be_revived(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let revived = world.dead(world.event()).await;
    assert_eq!(world.revive(&[revived]).await, 1);
    let dead = world.dead_beside(revived).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(world.read_dead(None, 10).await, [dead]);
    let delivery = world.take(A).await;
    assert_eq!((delivery.id, delivery.attempt), (revived, 1));
    assert_eq!(world.revive(&[dead]).await, 1);
    assert_eq!(world.take(A).await.attempt, 1);
}

impl World {
    /// Pushes a second dead event while `waiting` is ready.
    async fn dead_beside(&self, waiting: duly::EventId) -> duly::EventId {
        let id = self.add(self.event()).await;
        for delivery in self.fetch(A).await {
            let verdict = if delivery.id == waiting {
                AttemptOutcome::Release
            } else {
                bury()
            };
            assert!(self.settle(A, &delivery, verdict).await);
        }
        id
    }
}

pub async fn finished_ids_are_remembered(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let (done, cancelled, dropped) = (world.event(), world.event(), world.event());
    world.add(done.clone()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    world.add(cancelled.clone()).await;
    let _ = world.cancel(cancelled.id()).await;
    world.dead(dropped.clone()).await;
    assert_eq!(world.drop_dead(&[dropped.id()]).await, 1);
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(
        world.push(&dropped).await,
        PushOutcome::Duplicate(dropped.id())
    );
    assert_eq!(world.state(dropped.id()).await, Some(State::Cancelled));
    assert_eq!(world.push(&done).await, PushOutcome::Duplicate(done.id()));
    assert_eq!(
        world.push(&cancelled).await,
        PushOutcome::Duplicate(cancelled.id())
    );
    assert_eq!(
        world.cancel(done.id()).await,
        CancelOutcome::TooLate(State::Done)
    );
    assert_eq!(world.cancel(cancelled.id()).await, CancelOutcome::Cancelled);
    assert_eq!(world.fetch(A).await, []);
}

pub async fn records_survive(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    let before = world.records(id).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(world.records(id).await, before);
    assert_eq!(world.record(id).await.outcome, Outcome::Acked);
}

pub async fn unique_keys_survive(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let first = world
        .add(world.event().unique("k", Unique::Keep).when(secs(5)))
        .await;
    let Some(world) = world.reopened().await else {
        return;
    };
    let second = world.event().unique("k", Unique::Keep);
    assert_eq!(world.push(&second).await, PushOutcome::Duplicate(first));
    let third = world.event().unique("k", Unique::Replace);
    assert_eq!(world.push(&third).await, PushOutcome::Replaced(first));
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(
        world.push(&second).await,
        PushOutcome::Duplicate(third.id())
    );
}

pub async fn a_second_opening_changes_nothing(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event().when(secs(5))).await;
    world.dead(world.event()).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    let (stats, dead) = (world.stats().await, world.read_dead(None, 9).await);
    for world in [world.reopened().await].into_iter().flatten() {
        assert_eq!(world.stats().await, stats);
        assert_eq!(world.read_dead(None, 9).await, dead);
    }
}
