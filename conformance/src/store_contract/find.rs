//! Promises of finding events by key, in any state until they end.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, World, bury, retry, secs};
use duly::event::State;
use duly::store::operation::{AttemptOutcome, BATCH_MAX, PeekBy, PeekCursor};
use duly::{EventId, Unique};

impl World {
    async fn of_key(&self, key: &str) -> Vec<(EventId, State)> {
        self.all_by(PeekBy::Key(key.to_owned()), BATCH_MAX).await
    }

    async fn of_unique(&self, key: &str) -> Vec<(EventId, State)> {
        self.all_by(PeekBy::Unique(key.to_owned()), BATCH_MAX).await
    }

    /// Returns all matches, read in pages of `limit`.
    async fn all_by(&self, by: PeekBy, limit: usize) -> Vec<(EventId, State)> {
        let (mut from, mut found) = (None::<PeekCursor>, Vec::new());
        for pages in 0.. {
            assert!(pages < 100, "it comes to no end");
            let (events, next) = self.peek_by(by.clone(), from, limit).await;
            assert!(events.len() <= limit);
            for event in events {
                assert_eq!(self.get(event.id).await.as_ref(), Some(&event));
                found.push((event.id, event.state));
            }
            from = next;
            if from.is_none() {
                break;
            }
        }
        found
    }
}

pub async fn an_event_is_found_by_its_key_until_it_is_over(harness: &dyn StoreHarness) {
    for verdict in [
        AttemptOutcome::Ack,
        AttemptOutcome::Discard(None),
        AttemptOutcome::Expire,
    ] {
        let world = World::new(harness).await;
        let id = world.add(world.event().key("order:7").when(secs(60))).await;
        world.add(world.event().when(secs(60))).await;
        assert_eq!(world.of_key("order:7").await, [(id, State::Scheduled)]);
        let _ = world.reschedule(id, secs(0)).await;
        assert_eq!(world.of_key("order:7").await, [(id, State::Ready)]);
        let delivery = world.take(A).await;
        assert_eq!(world.of_key("order:7").await, [(id, State::Leased)]);
        assert!(world.settle(A, &delivery, retry(secs(5))).await);
        assert_eq!(world.of_key("order:7").await, [(id, State::Scheduled)]);
        world.advance(secs(5));
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, bury()).await);
        assert_eq!(world.of_key("order:7").await, [(id, State::Dead)]);
        assert_eq!(world.revive(&[id]).await, 1);
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, verdict).await);
        assert_eq!(world.of_key("order:7").await, []);
    }
    let world = World::new(harness).await;
    let cancelled = world.add(world.event().key("k")).await;
    let _ = world.cancel(cancelled).await;
    let dropped = world.dead(world.event().key("k")).await;
    assert_eq!(world.drop_dead(&[dropped]).await, 1);
    let expired = world.event().key("k").expires(world.now() + secs(1));
    world.add(expired).await;
    world.advance(secs(2));
    assert_eq!(world.fetch(A).await, []);
    assert_eq!(world.of_key("k").await, []);
}

pub async fn events_of_one_key_are_read_by_page_in_the_order_of_their_ids(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let mut drafts: Vec<_> = (0..7).map(|_| world.event().key("k")).collect();
    let ids: Vec<EventId> = drafts.iter().map(super::world::EventDraft::id).collect();
    drafts.reverse();
    world.push_all(&drafts).await;
    for limit in [1, 3, 7, BATCH_MAX] {
        let found = world.all_by(PeekBy::Key("k".to_owned()), limit).await;
        let found: Vec<EventId> = found.into_iter().map(|(id, _)| id).collect();
        assert_eq!(found, ids, "in pages of {limit}");
    }
}

pub async fn a_key_finds_no_event_of_another_key(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let long = "k".repeat(1_024);
    let keys = ["k", "kk", "k\0", "k\0k", "K", "\u{10FFFF}", &long];
    let mut ids = Vec::new();
    for key in keys {
        ids.push(world.add(world.event().key(key).when(secs(9))).await);
    }
    for (key, id) in keys.iter().zip(ids) {
        assert_eq!(world.of_key(key).await, [(id, State::Scheduled)], "{key:?}");
    }
    assert_eq!(world.of_key("nobody's").await, []);
    assert_eq!(world.of_unique("k").await, [], "it is no unique key");
}

pub async fn an_event_is_found_by_its_unique_key_while_it_has_it(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let first = world
        .add(world.event().unique("k", Unique::Keep).when(secs(60)))
        .await;
    assert_eq!(world.of_unique("k").await, [(first, State::Scheduled)]);
    assert_eq!(world.of_key("k").await, []);
    let second = world.event().unique("k", Unique::Replace);
    world.push(&second).await;
    assert_eq!(world.of_unique("k").await, [(second.id(), State::Ready)]);
    let delivery = world.take(A).await;
    assert_eq!(world.of_unique("k").await, [(second.id(), State::Leased)]);
    assert!(world.settle(A, &delivery, bury()).await);
    assert_eq!(world.of_unique("k").await, [], "a dead letter has it not");
    assert_eq!(world.revive(&[second.id()]).await, 1);
    assert_eq!(world.of_unique("k").await, [(second.id(), State::Ready)]);
    let _ = world.cancel(second.id()).await;
    assert_eq!(world.of_unique("k").await, []);
}

pub async fn what_has_a_key_is_found_after_a_new_opening(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let waits = world
        .add(
            world
                .event()
                .key("k")
                .unique("u", Unique::Keep)
                .when(secs(9)),
        )
        .await;
    let over = world.add(world.event().key("k")).await;
    let _ = world.cancel(over).await;
    let dead = world.dead(world.event().key("k")).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    let found = [(waits, State::Scheduled), (dead, State::Dead)];
    assert_eq!(world.of_key("k").await, found);
    assert_eq!(world.of_unique("u").await, [(waits, State::Scheduled)]);
}
