//! Promises of lease reconciliation: the store reports its leases, and hands back those that a node
//! does not hold.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, secs};
use duly::event::State;
use duly::records::{Cause, Outcome};
use duly::store::operation::{AttemptOutcome, Fetch, Holding, StartMark, StoreOp};

async fn holding(world: &World, fetch: &Fetch) -> Holding {
    world.op(StoreOp::fetch(fetch.clone())).await.holding
}

pub async fn a_heartbeat_and_a_fetch_tell_what_the_node_holds(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    assert_eq!(world.beat(A).await, (false, Holding::default()));
    for _ in 0..3 {
        world.add(world.event()).await;
    }
    let (first, second) = (world.fetching(A, 2), world.fetching(A, 2));
    let counted = holding(&world, &first).await;
    assert_eq!((counted.leases, counted.last), (2, 0));
    let counted = holding(&world, &second).await;
    assert_eq!((counted.leases, counted.last), (3, first.request));
    let again = holding(&world, &second).await;
    assert_eq!((again.leases, again.last), (3, second.request));
    let stands = Holding {
        leases: 3,
        last: second.request,
    };
    assert_eq!(world.beat(A).await, (true, stands));
    let deliveries = world.fetch_by(&second).await;
    assert!(world.settle(A, &deliveries[0], AttemptOutcome::Ack).await);
    assert_eq!(world.beat(A).await.1.leases, 2);
    let empty = world.fetching(A, 2);
    let counted = holding(&world, &empty).await;
    assert_eq!((counted.leases, counted.last), (2, second.request));
    assert_eq!(world.beat(A).await.1.last, empty.request);
}

pub async fn leases_with_a_deadline_are_in_no_account(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let fetch = Fetch {
        hold: Some(secs(9)),
        ..world.fetching(A, 1)
    };
    assert_eq!(holding(&world, &fetch).await.leases, 0);
    let delivery = world.fetch_by(&fetch).await.remove(0);
    let reaped = world.reconcile(A, fetch.request, &[], 10).await;
    assert_eq!((reaped.ready, reaped.more), (0, false));
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
}

pub async fn what_a_node_does_not_hold_by_its_own_account_is_handed_back(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let last_try = world.add(world.event().attempts(1)).await;
    for _ in 0..2 {
        world.add(world.event()).await;
    }
    let deliveries = world.fetch(A).await;
    let [_, lost, held] = &deliveries[..] else {
        panic!("three events were fetched");
    };
    let reaped = world.reconcile(A, held.request, &[held], 10).await;
    assert_eq!((reaped.ready, reaped.dead, reaped.more), (1, 1, false));
    let record = world.record(lost.id).await;
    assert_eq!(
        (record.outcome, record.cause, record.attempt, record.node),
        (Outcome::LeaseLost, Some(Cause::LeaseLost), 1, A)
    );
    let found = world.get(last_try).await.expect("a dead letter is kept");
    assert_eq!((found.state, found.tries), (State::Dead, 1));
    assert!(
        !world.settle(A, lost, AttemptOutcome::Ack).await,
        "it is lost"
    );
    assert_eq!(world.take(B).await.attempt, 2);
    assert_eq!(world.beat(A).await.1.leases, 1);
    assert!(world.settle(A, held, AttemptOutcome::Ack).await);
}

pub async fn a_reconcile_hands_back_only_what_it_is_about(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut taken = Vec::new();
    for node in [A, A, A, B] {
        world.add(world.event()).await;
        taken.push(world.take(node).await);
    }
    let fetches = (taken[1].request, taken[1].request);
    let middle = StoreOp::reconcile(A, fetches, Vec::new(), StartMark::default(), 10);
    for ready in [1, 0] {
        let reaped = world.op(middle.clone()).await;
        assert_eq!(reaped.ready, ready, "the repeat finds nothing");
    }
    for (node, at, stands) in [(A, 0, true), (A, 1, false), (A, 2, true), (B, 3, true)] {
        assert_eq!(
            world.settle(node, &taken[at], AttemptOutcome::Ack).await,
            stands
        );
    }
}

pub async fn a_limited_reconcile_says_that_there_is_more(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..3 {
        world.add(world.event()).await;
    }
    let through = world.fetch(A).await[0].request;
    for (ready, more) in [(2, true), (1, false)] {
        let reaped = world.reconcile(A, through, &[], 2).await;
        assert_eq!((reaped.ready, reaped.more), (ready, more));
    }
    assert_eq!(world.holders().await, []);
}

pub async fn an_old_reconcile_takes_nothing_that_is_held(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let first = world.take(A).await;
    assert!(world.settle(A, &first, AttemptOutcome::Release).await);
    let second = world.take(A).await;
    let reaped = world.reconcile(A, first.request, &[&first], 10).await;
    assert_eq!(reaped.ready, 0, "it is held under another fetch");
    assert!(world.settle(A, &second, AttemptOutcome::Ack).await);
}
