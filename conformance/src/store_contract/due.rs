//! Promises of due times: never early, by the store's clock, after any change.

use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, ms, retry, secs};
use duly::event::State;
use duly::store::operation::{AttemptOutcome, Fetch, PushOutcome, StoreOp};
use duly::time::{Clock, Timestamp};

impl World {
    /// Lets the wall clock show its time until any store believes it.
    async fn stand(&self) {
        for _ in 0..3 {
            self.move_due().await;
            self.advance(secs(10));
        }
        self.move_due().await;
    }
}

async fn moved(world: &World, limit: usize) -> (usize, Option<Timestamp>) {
    let moved = world.op(StoreOp::move_due(limit, false)).await;
    (moved.moved, moved.next_due)
}

pub async fn nothing_is_moved_before_it_is_due(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(ms(50))).await;
    let due = world.now() + ms(50);
    world.advance(Duration::from_micros(49_999));
    assert_eq!(
        moved(&world, 10).await,
        (0, Some(due)),
        "a microsecond before"
    );
    assert_eq!(world.state(id).await, Some(State::Scheduled));
    world.advance(Duration::from_micros(1));
    assert_eq!(moved(&world, 10).await, (1, None), "to the microsecond");
    assert_eq!(world.state(id).await, Some(State::Ready));
}

pub async fn nothing_is_fetched_before_it_is_due(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event().when(ms(50))).await;
    let fetch = |ahead, request| Fetch {
        ahead,
        ahead_limit: 10,
        request,
        ..world.fetching(A, 10)
    };
    world.advance(ms(30));
    let early = fetch(Duration::from_micros(19_999), 101);
    assert_eq!(
        world.fetch_by(&early).await,
        [],
        "not within the read-ahead"
    );
    world.advance(Duration::from_micros(19_999));
    assert_eq!(world.fetch_by(&fetch(ms(0), 102)).await, []);
    world.advance(Duration::from_micros(1));
    assert_eq!(world.fetch_by(&fetch(ms(0), 103)).await.len(), 1);
}

pub async fn a_retry_is_not_early_either(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    world.advance(Duration::from_micros(400));
    assert!(world.settle(A, &delivery, retry(ms(20))).await);
    let due = world.get(id).await.map(|found| found.due);
    assert_eq!(due, Some(world.now() + ms(21)), "20.4 ms round up");
    world.advance(Duration::from_micros(20_599));
    assert_eq!(world.move_due().await, 0);
    world.advance(Duration::from_micros(1));
    assert_eq!(world.move_due().await, 1);
}

pub async fn moves_go_in_the_order_of_due_times_and_at_most_the_limit(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut ids = Vec::new();
    for delay in [30, 10, 20, 40] {
        ids.push(world.add(world.event().when(ms(delay))).await);
    }
    let last = world.now() + ms(40);
    world.advance(ms(35));
    assert_eq!(moved(&world, 2).await, (2, Some(last - ms(10))));
    assert_eq!(moved(&world, 2).await, (1, Some(last)));
    let order: Vec<_> = world
        .fetch(A)
        .await
        .iter()
        .map(|delivery| delivery.id)
        .collect();
    assert_eq!(order, [ids[1], ids[2], ids[0]]);
}

pub async fn a_move_never_takes_more_than_the_bound(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..2 {
        let drafts: Vec<_> = (0..700).map(|_| world.event().when(ms(5))).collect();
        world.push_all(&drafts).await;
    }
    world.advance(ms(5));
    assert_eq!(moved(&world, usize::MAX).await.0, 1_000);
    assert_eq!(moved(&world, usize::MAX).await.0, 400);
}

pub async fn a_clock_that_is_set_back_does_not_take_time_back(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let start = world.now();
    world.advance(secs(60));
    let before = world.add(world.event()).await;
    world.clock.set_wall(start);
    let result = world.store().apply(&world.bucket, StoreOp::Stats).await;
    assert_eq!(
        result.expect("it can be read").now_us,
        (start + secs(60)).as_micros()
    );
    // From now on due times count from the latest time seen, and ready events stay ready.
    let pushed = world.push_all(&[world.event().when(secs(5))]).await[0];
    assert_eq!(pushed.due, start + secs(65));
    assert_eq!(world.take(A).await.id, before);
}

pub async fn a_start_after_a_clock_was_set_back_refuses_no_push(harness: &dyn StoreHarness) {
    let mut world = World::new(harness).await;
    let start = world.now();
    // What ends later by its number has ended earlier by its time.
    for wall in [3_600, 60, 1_800, 120] {
        world.clock.set_wall(start + secs(wall));
        world.stand().await;
        for _ in 0..3 {
            world.add(world.event()).await;
            let delivery = world.take(A).await;
            assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
        }
        let Some(reopened) = world.reopened().await else {
            return;
        };
        world = reopened;
        let pushed = world.push(&world.event()).await;
        assert_eq!(pushed, PushOutcome::Accepted, "at {wall} s");
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    }
}

pub async fn a_clock_set_back_and_forth_delivers_nothing_twice(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let start = world.now();
    for delay in [1, 2, 3] {
        world.add(world.event().when(secs(delay))).await;
    }
    let mut seen = Vec::new();
    let mut latest = start;
    for wall in [2_500, 500, 1_200, 2_600, 0, 3_000, 100, 9_000] {
        world.clock.set_wall(start + ms(wall));
        latest = latest.max(start + ms(wall));
        world.move_due().await;
        for delivery in world.fetch(A).await {
            assert!(delivery.due <= latest, "never early");
            assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
            seen.push(delivery.id);
        }
    }
    world.stand().await;
    for delivery in world.fetch(A).await {
        seen.push(delivery.id);
    }
    let many = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((seen.len(), many), (3, 3));
}

pub async fn a_clock_set_forth_ends_no_lease_that_a_heartbeat_keeps(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    world.clock.set_wall(world.now() + secs(3_600));
    world.stand().await;
    let reaped = world.reap(Vec::new(), 100).await;
    assert_eq!((reaped.ready, reaped.dead), (0, 0));
    assert_eq!(world.state(id).await, Some(State::Leased));
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
}

pub async fn every_answer_tells_the_time_of_the_store(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..3 {
        world.advance(Duration::from_micros(1_234));
        let result = world
            .store()
            .apply(
                &world.bucket,
                StoreOp::MoveDue {
                    limit: 1,
                    calls: false,
                },
            )
            .await;
        assert_eq!(
            result.expect("it can be moved").now_us,
            world.clock.wall_us()
        );
    }
}

pub async fn buckets_do_not_know_each_other(harness: &dyn StoreHarness) {
    let mut world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let home = world.bucket.clone();
    world.bucket.bucket.0 += 1;
    assert_eq!(world.get(id).await, None);
    assert_eq!(world.fetch(B).await, []);
    world.add(world.event()).await;
    let elsewhere = std::mem::replace(&mut world.bucket, home.clone());
    assert_eq!(world.fetch(B).await.len(), 1);
    let buckets = world.store().buckets().await.expect("they can be listed");
    assert!(
        buckets.contains(&home) && buckets.contains(&elsewhere),
        "{buckets:?}"
    );
}
