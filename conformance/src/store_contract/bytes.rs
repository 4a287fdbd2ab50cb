//! Promises of the byte limit of one operation.

use std::collections::BTreeSet;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, EventDraft, World, ms, secs};
use duly::event::Payload;
use duly::store::operation::{
    BATCH_BYTES, BATCH_MAX, DeadPage, Fetch, Rewriting, Snapshot, StoreOp,
};
use duly::{ErrorKind, EventId};

/// The size of a payload of which several fit into one operation.
const LARGE: usize = 700 << 10;
/// More of them than fit into two operations.
const MANY: usize = 16;

impl World {
    /// Creates an event with a payload of `bytes` bytes.
    fn large(&self, bytes: usize) -> EventDraft {
        self.event()
            .with(|envelope| envelope.payload = Payload::from(vec![b'x'; bytes]))
    }

    /// Pushes large events, `delay` milliseconds apart; returns their ids in order.
    async fn add_large(&self, delay: u64) -> Vec<EventId> {
        let mut ids = Vec::new();
        for _ in 0..MANY {
            ids.push(self.add(self.large(LARGE).when(ms(delay))).await);
        }
        ids
    }

    /// Returns what a fetch leases, how many ready events it leaves, and whether it ended at its
    /// limit.
    async fn fetch_some(&self, fetch: &Fetch) -> (Vec<EventId>, usize, bool) {
        let fetched = self.op(StoreOp::fetch(fetch.clone())).await;
        let deliveries = fetched.deliveries;
        let bytes = deliveries.iter().map(|it| it.body.payload.len()).sum();
        assert_is_bounded(bytes, deliveries.len());
        let ids = deliveries.iter().map(|it| it.id).collect();
        (ids, fetched.ready, fetched.full)
    }
}

/// An operation ends with the event that reaches the limit, and carries at least one.
fn assert_is_bounded(bytes: usize, events: usize) {
    assert!(
        bytes < BATCH_BYTES + LARGE || events == 1,
        "{bytes} bytes of {events} events in one operation"
    );
}

/// A page may have a few events more: those in the same bucket of a hash table, seven in new servers.
fn assert_is_page(events: &[Snapshot]) {
    let bodies = events.iter().filter_map(|event| event.body.as_ref());
    let lens: Vec<usize> = bodies.map(|body| body.payload.len()).collect();
    let (bytes, largest): (usize, _) = (lens.iter().sum(), lens.iter().max().copied());
    assert!(
        bytes < BATCH_BYTES + 8 * largest.unwrap_or(0),
        "{bytes} bytes of {} events on one page",
        events.len()
    );
}

pub async fn a_fetch_ends_with_the_event_that_reaches_its_bytes(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let pushed = world.add_large(0).await;
    let mut fetched: Vec<EventId> = Vec::new();
    while fetched.len() < MANY {
        let fetch = world.fetching(A, BATCH_MAX);
        let (ids, ready, full) = world.fetch_some(&fetch).await;
        assert!(!ids.is_empty(), "one event is carried whatever it weighs");
        fetched.extend(&ids);
        assert_eq!(ready, MANY - fetched.len());
        assert!(full || ready == 0, "a short answer does not mean the end");
        assert_eq!(
            world.stats().await.leased,
            fetched.len(),
            "nothing is leased that was not given"
        );
        assert_eq!(
            world.fetch_some(&fetch).await.0,
            ids,
            "a repeat answers the same"
        );
    }
    assert_eq!(fetched, pushed);
}

pub async fn read_ahead_ends_with_the_event_that_reaches_its_bytes(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let pushed = world.add_large(10).await;
    let mut fetched: Vec<EventId> = Vec::new();
    while fetched.len() < MANY {
        let fetch = Fetch {
            ahead: ms(50),
            ahead_limit: BATCH_MAX,
            ..world.fetching(A, 10)
        };
        let (ids, ready, full) = world.fetch_some(&fetch).await;
        assert!(!ids.is_empty(), "one event is carried whatever it weighs");
        fetched.extend(&ids);
        assert_eq!(ready, 0);
        assert!(full || fetched.len() == MANY, "there is more to read ahead");
    }
    assert_eq!(
        fetched.iter().collect::<BTreeSet<_>>(),
        pushed.iter().collect()
    );
}

pub async fn one_event_is_carried_whatever_its_bytes(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for _ in 0..2 {
        world.add(world.large(BATCH_BYTES + 1)).await;
    }
    world.add(world.event()).await;
    let (events, _) = world.peek(None, BATCH_MAX).await;
    assert_is_page(&events);
    assert!(!events.is_empty());
    for _ in 0..3 {
        let (ids, ..) = world.fetch_some(&world.fetching(A, BATCH_MAX)).await;
        assert_eq!(ids.len(), 1);
    }
}

pub async fn small_events_come_by_the_most_though_a_large_one_was_there(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let large = world.add(world.large(LARGE)).await;
    let drafts: Vec<_> = (0..BATCH_MAX).map(|_| world.event()).collect();
    world.push_all(&drafts).await;
    let (ids, ..) = world.fetch_some(&world.fetching(A, BATCH_MAX)).await;
    assert_eq!((ids[0], ids.len()), (large, BATCH_MAX));
}

pub async fn a_pass_over_large_events_reads_them_all_in_bounded_pages(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let pushed: BTreeSet<_> = world.add_large(5_000).await.into_iter().collect();
    let (mut from, mut seen) = (None, BTreeSet::new());
    loop {
        let (events, next) = world.peek(from, BATCH_MAX).await;
        assert_is_page(&events);
        seen.extend(events.into_iter().map(|event| event.id));
        from = next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen, pushed);
}

pub async fn large_dead_letters_are_read_in_bounded_pages(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut dead = Vec::new();
    for _ in 0..MANY {
        dead.push(world.dead(world.large(LARGE)).await);
    }
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let limit = BATCH_MAX;
        let DeadPage { letters, next } = world.op(StoreOp::read_dead(after, limit)).await;
        assert_is_page(&letters);
        seen.extend(letters.into_iter().map(|letter| letter.id));
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, dead);
}

pub async fn a_push_of_too_many_bytes_is_refused_and_all_of_it(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let drafts = [world.large(BATCH_BYTES), world.large(1)];
    let events = drafts.iter().map(|draft| draft.0.clone()).collect();
    let refused = world.try_op(StoreOp::push(events)).await;
    assert_eq!(
        refused.expect_err("too many bytes").kind(),
        ErrorKind::Invalid
    );
    for draft in &drafts {
        assert_eq!(world.state(draft.id()).await, None);
        world.add(draft.clone()).await;
    }
}

pub async fn a_rewrite_of_large_events_does_them_all(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let ids = world.add_large(5_000).await;
    let mut rewritings = Vec::new();
    for id in &ids {
        rewritings.push(world.rewriting(*id, "small now").await);
    }
    assert_eq!(world.rewrite(rewritings).await, MANY);
    let payload = Payload::from(vec![b'y'; BATCH_BYTES / 2 + 1]);
    let mut rewritings = Vec::new();
    for id in &ids[..2] {
        let small = world.rewriting(*id, "").await;
        let payload = payload.clone();
        rewritings.push(Rewriting { payload, ..small });
    }
    let refused = world.try_op(StoreOp::rewrite(rewritings)).await;
    assert_eq!(
        refused.expect_err("too many bytes").kind(),
        ErrorKind::Invalid
    );
    world.advance(secs(6));
    world.move_due().await;
    let (fetched, ..) = world.fetch_some(&world.fetching(A, BATCH_MAX)).await;
    assert_eq!(fetched.len(), MANY);
}
