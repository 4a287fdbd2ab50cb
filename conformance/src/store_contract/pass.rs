//! Promises of a scan of all events that have not ended, page by page.

use std::collections::{BTreeMap, BTreeSet};

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, bury, retry, secs};
use duly::event::State;
use duly::records::NodeId;
use duly::store::operation::{AttemptOutcome, BATCH_MAX, PeekBy, PeekCursor, StoreOp};
use duly::{ErrorKind, EventId};

/// The page size.
const PAGE: usize = 20;
/// More pages than any scan here can have.
const PAGES_MAX: usize = 1_000;

pub async fn a_pass_reads_everything_that_is_not_over_as_it_stands(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut expected = BTreeMap::new();
    for verdict in [
        AttemptOutcome::Ack,
        AttemptOutcome::Expire,
        AttemptOutcome::Discard(None),
    ] {
        world.add(world.event()).await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, verdict).await);
    }
    let cancelled = world.add(world.event()).await;
    let _ = world.cancel(cancelled).await;
    for _ in 0..3 {
        expected.insert(world.dead(world.event()).await, State::Dead);
    }
    for _ in 0..3 {
        expected.insert(world.add(world.event()).await, State::Leased);
    }
    assert_eq!(world.fetch(A).await.len(), 3);
    for delay in [0, 0, 0, 30, 20, 10] {
        let id = world.add(world.event().when(secs(delay))).await;
        let state = match delay {
            0 => State::Ready,
            _ => State::Scheduled,
        };
        expected.insert(id, state);
    }
    for limit in [0, 1, 5, 12, BATCH_MAX] {
        let (mut from, mut seen) = (None, BTreeMap::new());
        for pages in 1.. {
            assert!(pages < PAGES_MAX, "it comes to no end");
            let (events, next) = world.peek(from, limit).await;
            for event in events {
                assert_eq!(world.get(event.id).await.as_ref(), Some(&event));
                seen.insert(event.id, event.state);
            }
            from = next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
}

pub async fn a_pass_over_nothing_is_one_page(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    assert_eq!(world.peek(None, PAGE).await, (Vec::new(), None));
}

pub async fn a_pass_sees_what_stays_though_everything_moves_and_others_come_and_end(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let draft = |number: u64| {
        let event = world.event().attempts(4).when(secs(number % 7));
        event.payload(&"long enough not to lie in a short list ".repeat(3))
    };
    let drafts: Vec<_> = (0..400).map(draft).collect();
    world.push_all(&drafts).await;
    let staying = drafts.iter().step_by(2);
    let staying: BTreeSet<EventId> = staying.map(super::world::EventDraft::id).collect();
    let (mut from, mut seen, mut dead) = (None, BTreeSet::new(), Vec::new());
    for page in 0.. {
        assert!(page < PAGES_MAX, "it comes to no end");
        let (events, next) = world.peek(from, PAGE).await;
        assert!(events.len() <= 5 * PAGE, "{} on one page", events.len());
        seen.extend(events.into_iter().map(|event| event.id));
        from = next;
        if from.is_none() {
            break;
        }
        world.advance(secs(1));
        world.move_due().await;
        world.revive(&std::mem::take(&mut dead)).await;
        let node = NodeId(100 + page as u64); // the previous one is silent
        let mut fetching = world.fetching(node, 40);
        fetching.ahead = secs(1);
        fetching.ahead_limit = 20;
        let mut settlements = Vec::new();
        for (number, delivery) in world.fetch_by(&fetching).await.into_iter().enumerate() {
            let verdict = match number % 6 {
                _ if !staying.contains(&delivery.id) => AttemptOutcome::Ack,
                0 => retry(secs(number as u64 / 6)),
                1 => AttemptOutcome::Snooze(secs(2)),
                2 => AttemptOutcome::Release,
                3 => {
                    dead.push(delivery.id);
                    bury()
                }
                4 => retry(secs(0)),
                _ => continue, // until it is reaped
            };
            settlements.push(world.ended(&delivery, verdict));
        }
        world.settle_all(node, settlements).await;
        world.reap_node(node).await;
        world.fetch_by(&world.fetching(B, 5)).await;
        for other in drafts.iter().skip(1 + 8 * page).step_by(2).take(4) {
            let _ = world.cancel(other.id()).await;
        }
        let others: Vec<_> = (0..4).map(draft).collect();
        world.push_all(&others).await;
        let put_off = others.iter().chain(&drafts).nth(page * 13 % 404);
        let _ = world
            .reschedule(put_off.expect("there are so many").id(), secs(3))
            .await;
    }
    let missed = staying.difference(&seen).count();
    assert_eq!(
        missed,
        0,
        "of {} that were there all the time",
        staying.len()
    );
}

pub async fn a_place_that_the_store_has_not_said_misleads_nobody(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    for words in [
        "",
        "nowhere",
        "somewhere 12",
        "0123456789abcdef0123456789abcdef01234567 77",
    ] {
        let from = Some(PeekCursor::new(words.as_bytes()));
        let (by, limit) = (PeekBy::All, 9);
        match world.try_op(StoreOp::peek(by, from, limit)).await {
            Ok(page) => assert_eq!(page.events[0].id, id, "{words:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{words:?}"),
        }
    }
}
