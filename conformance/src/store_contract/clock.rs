//! Promises of a wall clock that is wrong: delays keep their length, and instants are those of the
//! clock when it is right.

use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, World, ms, secs};
use duly::event::State;
use duly::store::operation::{AttemptOutcome, PushOutcome};
use duly::time::Clock;

/// How long a wall clock must have been right to be followed: more than a store may take.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

impl World {
    /// Sets the wall clock forth or back.
    fn shift(&self, by: Duration, is_forth: bool) {
        let by_us = u64::try_from(by.as_micros()).expect("short");
        let wall_us = self.clock.wall_us();
        self.clock.set_wall_us(if is_forth {
            wall_us + by_us
        } else {
            wall_us - by_us
        });
    }

    /// Lets time pass while the store is used.
    async fn pass(&self, span: Duration) {
        for _ in 0..4 {
            self.advance(span / 4);
            self.move_due().await;
        }
    }
}

/// A clock that is wrong for three seconds and right again. A store on a server that follows its clock at
/// once does not promise it.
pub async fn a_glitch_of_the_clock_changes_no_due_time(harness: &dyn StoreHarness) {
    for (by, is_forth) in [
        (secs(1), true),
        (secs(1), false),
        (HOUR, true),
        (HOUR, false),
        (DAY, true),
        (DAY, false),
    ] {
        let world = World::new(harness).await;
        if !harness.is_steady() {
            return;
        }
        let start = world.now();
        let at = world.add(world.event().when(start + secs(20))).await;
        let after = world.add(world.event().when(secs(21))).await;
        let soon = world.add(world.event().when(secs(2))).await;
        world.shift(by, is_forth);
        world.pass(secs(1)).await;
        assert_eq!(world.fetch(A).await, [], "{by:?} {is_forth}");
        // What is pushed meanwhile has its delay, too.
        let pushed = world
            .push_all(&[world.event_made(start).when(secs(21))])
            .await[0];
        assert_eq!(pushed.due, start + secs(22), "{by:?} {is_forth}");
        world.pass(secs(2)).await;
        assert_eq!(world.take(A).await.id, soon, "{by:?} {is_forth}");
        world.shift(by, !is_forth);
        assert_eq!(world.now(), start + secs(3));
        world.pass(secs(17) - ms(1)).await;
        assert_eq!(world.fetch(A).await, [], "{by:?} {is_forth}");
        world.pass(ms(1)).await;
        assert_eq!(world.take(A).await.id, at, "{by:?} {is_forth}");
        world.pass(secs(1)).await;
        assert_eq!(world.take(A).await.id, after, "{by:?} {is_forth}");
    }
}

pub async fn glitches_without_end_change_no_due_time(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    if !harness.is_steady() {
        return;
    }
    let start = world.now();
    let at = world.add(world.event().when(start + secs(300))).await;
    for round in 0..74 {
        let by = [secs(1), HOUR, DAY][round % 3];
        world.shift(by, round % 2 == 0);
        world.pass(secs(3)).await;
        assert_eq!(world.fetch(A).await, [], "round {round}");
        world.shift(by, round % 2 != 0);
        world.pass(secs(1)).await;
    }
    assert_eq!(world.fetch(A).await, []);
    world.pass(secs(4)).await;
    assert_eq!(world.take(A).await.id, at);
}

pub async fn a_clock_that_is_set_forth_is_followed(harness: &dyn StoreHarness) {
    for by in [secs(2), HOUR, DAY] {
        let world = World::new(harness).await;
        let id = world
            .add(world.event().when(world.now() + by + secs(60)))
            .await;
        world.shift(by, true);
        world.pass(FOLLOWED_WITHIN).await;
        world.pass(secs(30) - ms(1)).await;
        assert_eq!(world.fetch(A).await, [], "{by:?}");
        world.pass(ms(1)).await;
        assert_eq!(world.take(A).await.id, id, "{by:?}");
        let pushed = world.push(&world.event()).await;
        assert_eq!(pushed, PushOutcome::Accepted);
    }
}

/// Time never goes back within a bucket, so the store makes up for it slowly; what waits for a delay
/// waits little longer.
pub async fn a_clock_that_is_set_back_stretches_delays_by_little(harness: &dyn StoreHarness) {
    for by in [secs(2), HOUR, DAY] {
        let world = World::new(harness).await;
        if !harness.is_steady() {
            return;
        }
        world.add(world.event()).await;
        world.shift(by, false);
        world.pass(secs(60)).await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
        let id = world.add(world.event().when(secs(100))).await;
        world.pass(secs(100) - ms(1)).await;
        assert_eq!(world.state(id).await, Some(State::Scheduled), "{by:?}");
        world.pass(secs(10)).await;
        assert_eq!(world.take(A).await.id, id, "{by:?}");
    }
}

/// What an earlier process has seen of a wrong clock does not hold this one.
pub async fn a_glitch_before_a_start_holds_nothing(harness: &dyn StoreHarness) {
    let mut world = World::new(harness).await;
    if !harness.is_steady() {
        return;
    }
    let start = world.now();
    let at = world.add(world.event().when(start + secs(60))).await;
    for by in [HOUR, DAY] {
        world.shift(by, true);
        world.pass(secs(3)).await;
        world.shift(by, false);
        let Some(reopened) = world.reopened().await else {
            return;
        };
        world = reopened;
        assert_eq!(world.store().now_us(), world.clock.wall_us());
        assert_eq!(world.fetch(A).await, []);
    }
    world.pass(secs(54) - ms(1)).await;
    assert_eq!(world.fetch(A).await, []);
    world.pass(ms(1)).await;
    assert_eq!(world.take(A).await.id, at);
}
