//! Promises of announced starts: an event that a dead node never started loses no attempt.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, secs};
use duly::event::State;
use duly::records::{NodeId, Outcome};
use duly::store::operation::{
    AttemptOutcome, BATCH_MAX, Delivery, Fetch, Holding, RequestId, StartMark, StoreOp,
};
use duly::{CancelOutcome, EventId};

impl World {
    /// Pushes `count` ready events, with one attempt each if they `are_last`.
    async fn ready(&self, count: usize, are_last: bool) -> Vec<EventId> {
        let mut ids = Vec::new();
        for _ in 0..count {
            let draft = self.event();
            ids.push(
                self.add(if are_last { draft.attempts(1) } else { draft })
                    .await,
            );
        }
        ids
    }

    /// Leases everything to `node`; handlers may start on the first `starts` of them.
    async fn lease(&self, node: NodeId, starts: usize) -> Vec<Delivery> {
        let fetch = Fetch {
            starts,
            ..self.fetching(node, BATCH_MAX)
        };
        self.fetch_by(&fetch).await
    }

    async fn announce(&self, node: NodeId, request: RequestId, leases: usize) {
        let settle = StoreOp::settle(node, Vec::new(), StartMark { request, leases });
        assert!(self.op(settle).await.is_empty());
    }

    /// Returns how many attempts each of these has used.
    async fn tries(&self, ids: &[EventId]) -> Vec<u16> {
        let mut tries = Vec::new();
        for id in ids {
            tries.push(self.get(*id).await.expect("it is there").tries);
        }
        tries
    }
}

pub async fn what_never_started_is_handed_back_without_an_attempt(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.ready(4, true).await;
    let held = world.lease(A, 2).await;
    let places: Vec<_> = held.iter().map(|delivery| delivery.place).collect();
    assert_eq!(places, [0, 1, 2, 3]);
    world.advance(secs(3));
    let later = world.ready(1, false).await;
    let reaped = world.reap_node(A).await;
    assert_eq!((reaped.ready, reaped.dead, reaped.more), (2, 2, false));
    let again = world.fetch(B).await;
    let got: Vec<_> = again
        .iter()
        .map(|delivery| (delivery.id, delivery.attempt))
        .collect();
    assert_eq!(
        got,
        [(ids[2], 1), (ids[3], 1), (later[0], 1)],
        "they come first, in their order"
    );
    assert_eq!(again[0].moved_us, held[2].moved_us);
    assert!(world.settle(B, &again[0], AttemptOutcome::Ack).await);
    assert_eq!(world.state(ids[0]).await, Some(State::Dead));
}

pub async fn what_never_started_is_not_on_record_as_lost(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.ready(2, false).await;
    let held = world.lease(A, 1).await;
    world.reap_node(A).await;
    assert_eq!(world.record(ids[0]).await.outcome, Outcome::LeaseLost);
    assert_eq!(world.records(ids[1]).await, []);
    assert!(
        !world.settle(A, &held[1], AttemptOutcome::Ack).await,
        "its lease is over"
    );
    assert_eq!(
        world.cancel(ids[0]).await,
        CancelOutcome::CancelledAfterAttempt
    );
    assert_eq!(
        world.cancel(ids[1]).await,
        CancelOutcome::Cancelled,
        "nobody may be running it"
    );
}

pub async fn a_settle_announces_starts(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.ready(4, false).await;
    let held = world.lease(A, 0).await;
    let started = StartMark {
        request: held[0].request,
        leases: 2,
    };
    let ended = vec![world.ended(&held[0], AttemptOutcome::Ack)];
    let settle = StoreOp::settle(A, ended, started);
    for _ in 0..2 {
        assert_eq!(world.op(settle.clone()).await, [true]);
    }
    world.announce(A, held[0].request, 3).await;
    assert_eq!(world.reap_node(A).await.ready, 3);
    assert_eq!(world.tries(&ids[1..]).await, [1, 1, 0]);
}

pub async fn a_heartbeat_announces_starts(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.ready(3, false).await;
    let held = world.lease(A, 0).await;
    let started = StartMark {
        request: held[0].request,
        leases: 1,
    };
    let heartbeat = StoreOp::heartbeat(A, Holding::default(), started);
    world.op(heartbeat).await;
    world.reap_node(A).await;
    assert_eq!(world.tries(&ids).await, [1, 0, 0]);
}

pub async fn an_announcement_covers_every_earlier_fetch(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut ids = world.ready(2, false).await;
    world.lease(A, 1).await;
    ids.extend(world.ready(2, false).await);
    world.lease(A, 1).await;
    ids.extend(world.ready(1, false).await);
    world.lease(A, 0).await;
    world.reap_node(A).await;
    assert_eq!(world.tries(&ids).await, [1, 1, 1, 0, 0]);
}

pub async fn an_announcement_never_shrinks(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.ready(4, false).await;
    let request = world.lease(A, 2).await[0].request;
    for (request, leases) in [(request, 1), (request - 1, 4), (0, 0), (request, 3)] {
        world.announce(A, request, leases).await;
    }
    world.announce(A, request, 0).await;
    world.announce(B, request, 4).await;
    world.reap_node(A).await;
    assert_eq!(world.tries(&ids).await, [1, 1, 1, 0]);
}

pub async fn a_fetch_that_leases_nothing_announces_nothing(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.ready(2, false).await;
    world.lease(A, 1).await;
    assert_eq!(world.lease(A, 1).await, []);
    world.reap_node(A).await;
    assert_eq!(world.tries(&ids).await, [1, 0]);
}

pub async fn a_repeated_fetch_tells_the_places_of_what_is_held(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.ready(300, false).await;
    let fetch = world.fetching(A, BATCH_MAX);
    let held = world.fetch_by(&fetch).await;
    assert_eq!(held.len(), 300);
    let ended = [0, 1, 5, 299].map(|at: usize| world.ended(&held[at], AttemptOutcome::Ack));
    world.settle_all(A, ended.to_vec()).await;
    let again = world.fetch_by(&fetch).await;
    let places: Vec<_> = again.iter().map(|delivery| delivery.place).collect();
    let left = (0..300).filter(|place| ![0, 1, 5, 299].contains(place));
    assert_eq!(places, left.collect::<Vec<_>>());
    let is_as_before = |of: &Delivery| held[of.place].id == of.id;
    assert!(again.iter().all(is_as_before));
}

pub async fn a_lease_with_a_deadline_counts_as_started(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.ready(1, false).await;
    let fetch = Fetch {
        starts: 0,
        hold: Some(secs(1)),
        ..world.fetching(A, 1)
    };
    assert_eq!(world.fetch_by(&fetch).await.len(), 1);
    world.advance(secs(2));
    assert_eq!(world.reap(Vec::new(), BATCH_MAX).await.ready, 1);
    assert_eq!(world.tries(&ids).await, [1]);
}

pub async fn a_reconcile_counts_what_had_been_announced(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.ready(4, false).await;
    let held = world.lease(A, 1).await;
    let request = held[0].request;
    let held_here = vec![(request, vec![ids[3]])];
    let started = StartMark { request, leases: 2 };
    let reconcile = StoreOp::reconcile(A, (0, request), held_here, started, BATCH_MAX);
    let reaped = world.op(reconcile).await;
    assert_eq!((reaped.ready, reaped.more), (3, false));
    assert_eq!(world.tries(&ids).await, [1, 1, 0, 0]);
    assert_eq!(world.state(ids[3]).await, Some(State::Leased));
    let again = world.fetch(B).await;
    assert_eq!(again[0].id, ids[2], "what never started comes first");
    world.settle(A, &held[3], AttemptOutcome::Ack).await;
}
