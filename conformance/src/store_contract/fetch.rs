//! Promises of fetch: order, limits, and the reply to a repeat.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, ms, secs};
use duly::CancelOutcome;
use duly::event::State;
use duly::store::operation::{
    AttemptOutcome, BATCH_MAX, CROWD, CROWD_SPAN, Fetch, FetchReport, StoreOp,
};
use duly::time::Clock;

pub async fn a_delivery_carries_the_event_as_it_was_pushed(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event().with(|envelope| {
        envelope.key = Some("order:7".into());
        envelope.headers = vec![("a".into(), "b".into())];
        envelope.version = 4;
        envelope.delayed = true;
    });
    world.add(draft.clone()).await;
    let pushed_us = world.clock.wall_us();
    world.advance(secs(1));
    let delivery = world.take(A).await;
    assert_eq!(*delivery.body, *draft.0.envelope);
    assert_eq!((delivery.attempt, delivery.moved_us), (1, pushed_us));
    assert_eq!(delivery.due.as_micros(), pushed_us);
}

pub async fn ready_events_come_in_the_order_of_their_arrival(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let drafts: Vec<_> = (0..20).map(|_| world.event()).rev().collect();
    world.push_all(&drafts).await;
    let mut order = Vec::new();
    for limit in [7, 7, 7] {
        order.extend(world.fetch_by(&world.fetching(A, limit)).await);
    }
    let order: Vec<_> = order.iter().map(|delivery| delivery.id).collect();
    let pushed: Vec<_> = drafts.iter().map(|draft| draft.id()).collect();
    assert_eq!(order, pushed);
}

pub async fn a_fetch_takes_at_most_its_limit_and_tells_what_is_left(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..5 {
        world.add(world.event()).await;
    }
    world.add(world.event().when(secs(9))).await;
    let fetched = world.op(StoreOp::fetch(world.fetching(A, 3))).await;
    assert_eq!((fetched.deliveries.len(), fetched.ready), (3, 2));
    assert_eq!(fetched.next_due, Some(world.now() + secs(9)));
}

pub async fn a_fetch_tells_when_the_last_of_a_crowd_is_due(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let crowd_due = async |limit| {
        let fetch = Fetch {
            ahead: secs(1),
            ahead_limit: limit,
            ..world.fetching(A, 0)
        };
        world.op(StoreOp::fetch(fetch)).await.crowd_due
    };
    let delays = (0..CROWD).map(|number| ms(10 + u64::from(number > 0)));
    let drafts: Vec<_> = delays.map(|delay| world.event().when(delay)).collect();
    world.push_all(&drafts[1..]).await;
    assert_eq!(crowd_due(0).await, None, "one is missing");
    world.push_all(&drafts[..1]).await;
    world.add(world.event().when(ms(12))).await;
    assert_eq!(crowd_due(0).await, Some(world.now() + ms(11)));
    assert_eq!(
        crowd_due(1).await,
        Some(world.now() + ms(12)),
        "the first is leased"
    );
    assert_eq!(crowd_due(1).await, None);
    world.add(world.event().when(ms(11) + CROWD_SPAN)).await;
    assert_eq!(crowd_due(0).await, Some(world.now() + ms(11) + CROWD_SPAN));
    let cancelled = world.op(StoreOp::cancel(drafts[2].id())).await;
    assert_eq!(cancelled, CancelOutcome::Cancelled);
    world.add(world.event().when(ms(12) + CROWD_SPAN)).await;
    assert_eq!(crowd_due(0).await, None, "the last one is too late");
}

pub async fn a_fetch_never_carries_more_than_the_bound(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for delay in [0, 0, 5] {
        let drafts: Vec<_> = (0..700).map(|_| world.event().when(ms(delay))).collect();
        world.push_all(&drafts).await;
    }
    let fetch = |limit| Fetch {
        ahead: secs(1),
        ahead_limit: usize::MAX,
        ..world.fetching(A, limit)
    };
    assert_eq!(world.fetch_by(&fetch(usize::MAX)).await.len(), BATCH_MAX);
    assert_eq!(world.fetch_by(&fetch(usize::MAX)).await.len(), BATCH_MAX);
    assert_eq!(world.fetch_by(&fetch(usize::MAX)).await.len(), 100);
}

pub async fn a_leased_event_is_nobody_elses(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    world.take(A).await;
    assert_eq!(world.fetch(B).await, []);
    assert_eq!(world.fetch(A).await, []);
    assert_eq!(world.get(id).await.and_then(|found| found.holder), Some(A));
}

pub async fn a_repeated_fetch_answers_the_same_batch(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..3 {
        world.add(world.event()).await;
    }
    world.add(world.event().when(ms(10))).await;
    let fetch = Fetch {
        ahead: ms(50),
        ahead_limit: 5,
        ..world.fetching(A, 2)
    };
    let first = world.fetch_by(&fetch).await;
    assert_eq!(first.len(), 3);
    world.add(world.event()).await;
    world.advance(ms(20));
    assert_eq!(world.fetch_by(&fetch).await, first);
    assert_eq!(
        world.stats().await.leased,
        3,
        "the repeat leased nothing more"
    );
}

pub async fn a_repeated_fetch_answers_only_what_is_still_held(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..4 {
        world.add(world.event()).await;
    }
    let fetch = world.fetching(A, 4);
    let first = world.fetch_by(&fetch).await;
    assert!(world.settle(A, &first[1], AttemptOutcome::Ack).await);
    assert!(world.settle(A, &first[2], AttemptOutcome::Release).await);
    let other = world.fetch(A).await;
    assert_eq!(other[0].id, first[2].id);
    let again = world.fetch_by(&fetch).await;
    assert_eq!(again, [first[0].clone(), first[3].clone()]);
}

pub async fn a_fetch_that_was_answered_empty_stays_empty(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    // A bucket in which there never was an event knows no node.
    world.add(world.event()).await;
    assert_eq!(world.fetch(B).await.len(), 1);
    let fetch = world.fetching(A, 4);
    assert_eq!(world.fetch_by(&fetch).await, []);
    world.add(world.event()).await;
    assert_eq!(world.fetch_by(&fetch).await, [], "its node has gone on");
    assert_eq!(world.fetch(A).await.len(), 1);
}

pub async fn a_fetch_that_was_overtaken_leases_nothing(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let (old, new) = (world.fetching(A, 4), world.fetching(A, 0));
    assert_eq!(world.fetch_by(&new).await, []);
    assert_eq!(
        world.fetch_by(&old).await,
        [],
        "nobody would know of what it leased"
    );
    let of_another = Fetch { node: B, ..old };
    assert_eq!(
        world.fetch_by(&of_another).await.len(),
        1,
        "each node counts for itself"
    );
}

pub async fn read_ahead_leases_what_is_due_soon_in_due_order(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut due = Vec::new();
    for delay in [40, 20, 30, 51] {
        let draft = world.event().when(ms(delay));
        due.push(world.push_all(&[draft]).await[0].due);
    }
    let ready = world.add(world.event()).await;
    let fetch = Fetch {
        ahead: ms(50),
        ahead_limit: 2,
        ..world.fetching(A, 10)
    };
    let FetchReport {
        deliveries,
        next_due,
        ..
    } = world.op(StoreOp::fetch(fetch.clone())).await;
    assert_eq!(deliveries[0].id, ready, "ready ones first");
    let got: Vec<_> = deliveries[1..]
        .iter()
        .map(|delivery| delivery.due)
        .collect();
    assert_eq!(
        got,
        [due[1], due[2]],
        "then at most so many, each with its due time"
    );
    assert_eq!(deliveries[1].moved_us, world.clock.wall_us());
    assert_eq!(next_due, Some(due[0]));
    let fetch = Fetch {
        request: fetch.request + 100,
        ahead_limit: 10,
        ..fetch
    };
    let rest = world.fetch_by(&fetch).await;
    assert_eq!(rest.len(), 1, "51 ms are not within 50");
}

pub async fn what_was_read_ahead_and_handed_back_waits_for_its_due_time(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(ms(40))).await;
    let fetch = Fetch {
        ahead: ms(50),
        ahead_limit: 2,
        ..world.fetching(A, 10)
    };
    let delivery = world.fetch_by(&fetch).await.remove(0);
    assert!(world.settle(A, &delivery, AttemptOutcome::Release).await);
    assert_eq!(world.state(id).await, Some(State::Scheduled));
    assert_eq!(world.fetch(B).await, [], "it is not due");
    world.advance(ms(40));
    assert_eq!(world.take(B).await.attempt, 1);
}

pub async fn what_was_read_ahead_and_lost_waits_for_its_due_time(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(secs(40))).await;
    let fetch = Fetch {
        ahead: secs(50),
        ahead_limit: 2,
        ..world.fetching(A, 10)
    };
    world.fetch_by(&fetch).await;
    world.reap_node(A).await;
    assert_eq!(world.state(id).await, Some(State::Scheduled));
    assert_eq!(world.fetch(B).await, [], "it is not due");
    world.advance(secs(40));
    assert_eq!(world.take(B).await.attempt, 2);
}
