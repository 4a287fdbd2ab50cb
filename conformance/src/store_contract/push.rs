//! Promises of push: acceptance, due times, ids.

use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, EventDraft, World, bury, ms, retry, secs};
use duly::event::{BucketId, State};
use duly::store::operation::{AttemptOutcome, BATCH_MAX, PushOutcome, StoreOp};
use duly::time::DELAY_MAX;
use duly::{ErrorKind, EventId, Unique};

pub async fn an_event_without_delay_is_ready_at_once(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    assert_eq!(world.state(id).await, Some(State::Ready));
    assert_eq!(world.move_due().await, 0, "it never touches the delay set");
}

pub async fn an_event_with_a_delay_is_scheduled(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event().when(secs(60));
    let pushed = world.push_all(std::slice::from_ref(&draft)).await[0];
    assert_eq!(pushed.verdict, PushOutcome::Accepted);
    assert_eq!(pushed.due, world.now() + secs(60));
    let found = world.get(draft.id()).await.expect("it was accepted");
    assert_eq!((found.state, found.due), (State::Scheduled, pushed.due));
}

pub async fn a_fraction_of_a_millisecond_rounds_up(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let start = world.now();
    world.advance(Duration::from_micros(300));
    let draft = world.event().when(Duration::from_micros(701));
    let pushed = world.push_all(&[draft]).await[0];
    assert_eq!(pushed.due, start + ms(2), "1.001 ms after the millisecond");
    // Not only the receipt: the event falls due then.
    let moved = world.op(StoreOp::move_due(10, false)).await;
    assert_eq!((moved.moved, moved.next_due), (0, Some(start + ms(2))));
}

pub async fn an_instant_that_is_past_means_at_once(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(world.now() - secs(5))).await;
    assert_eq!(world.state(id).await, Some(State::Ready));
}

pub async fn answers_come_in_the_order_of_the_events(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let (known, fresh) = (world.event(), world.event());
    world.add(known.clone()).await;
    let pushed = world.push_all(&[fresh, known.clone(), world.event()]).await;
    let verdicts: Vec<_> = pushed.iter().map(|pushed| pushed.verdict).collect();
    let duplicate = PushOutcome::Duplicate(known.id());
    assert_eq!(
        verdicts,
        [PushOutcome::Accepted, duplicate, PushOutcome::Accepted]
    );
}

/// Brings an event into each state, in a world each.
async fn in_every_state(harness: &dyn StoreHarness) -> Vec<(World, EventDraft, State)> {
    let mut all = Vec::new();
    for state in State::ALL {
        let world = World::new(harness).await;
        let draft = match state {
            State::Scheduled => world.event().when(secs(9)),
            State::Expired => world.event().expires(world.now()),
            _ => world.event(),
        };
        let id = world.add(draft.clone()).await;
        match state {
            State::Cancelled => drop(world.cancel(id).await),
            State::Scheduled | State::Ready => {}
            State::Expired => assert!(world.fetch(A).await.is_empty()),
            State::Leased => drop(world.take(A).await),
            State::Done | State::Dead | State::Discarded => {
                let delivery = world.take(A).await;
                let verdict = match state {
                    State::Done => AttemptOutcome::Ack,
                    State::Discarded => AttemptOutcome::Discard(None),
                    _ => bury(),
                };
                assert!(world.settle(A, &delivery, verdict).await);
            }
            other => panic!("nothing here brings an event into the state {other:?}"),
        }
        assert_eq!(world.state(id).await, Some(state));
        all.push((world, draft, state));
    }
    all
}

pub async fn the_same_id_again_changes_nothing_in_any_state(harness: &dyn StoreHarness) {
    for (world, draft, state) in in_every_state(harness).await {
        let (before, records) = (world.get(draft.id()).await, world.records(draft.id()).await);
        world.advance(secs(1));
        let again = world.push_all(&[draft.clone().when(secs(3))]).await[0];
        assert_eq!(again.verdict, PushOutcome::Duplicate(draft.id()), "{state}");
        assert_eq!(
            Some(again.due),
            before.as_ref().map(|found| found.due),
            "{state}"
        );
        assert_eq!(world.get(draft.id()).await, before);
        assert_eq!(world.records(draft.id()).await, records);
    }
}

pub async fn another_payload_under_the_same_id_is_a_conflict_in_any_state(
    harness: &dyn StoreHarness,
) {
    for (world, draft, state) in in_every_state(harness).await {
        let before = world.get(draft.id()).await;
        let other = draft.clone().payload("another");
        assert_eq!(world.push(&other).await, PushOutcome::Conflict, "{state}");
        assert_eq!(world.get(draft.id()).await, before);
    }
}

pub async fn the_same_id_twice_in_one_push_is_one_event(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event();
    let pushed = world
        .push_all(&[draft.clone(), draft.clone(), draft.clone().payload("x")])
        .await;
    let verdicts: Vec<_> = pushed.iter().map(|pushed| pushed.verdict).collect();
    let duplicate = PushOutcome::Duplicate(draft.id());
    assert_eq!(
        verdicts,
        [PushOutcome::Accepted, duplicate, PushOutcome::Conflict]
    );
    assert_eq!(world.fetch(A).await.len(), 1);
}

pub async fn an_event_of_another_bucket_is_refused_and_its_batch_with_it(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let good = world.event();
    let elsewhere = EventId::from_parts(world.now(), BucketId(4), 1);
    let queue = "another".parse().expect("a legal name");
    for bad in [
        world.event().with(|envelope| envelope.id = elsewhere),
        world.event().with(|envelope| envelope.queue = queue),
        world.event().attempts(0),
        world.event().when(DELAY_MAX + ms(1)),
        world.event().unique(&"x".repeat(1_025), Unique::Keep),
    ] {
        let push = StoreOp::push(vec![good.0.clone(), bad.0]);
        let error = world
            .try_op(push)
            .await
            .expect_err("it can never be accepted");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(world.state(good.id()).await, None, "nothing was changed");
    }
}

pub async fn a_push_of_the_most_events_is_accepted_and_one_more_is_not(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut drafts: Vec<_> = (0..=BATCH_MAX).map(|_| world.event().0).collect();
    let error = world.try_op(StoreOp::push(drafts.clone())).await;
    assert_eq!(error.expect_err("too many").kind(), ErrorKind::Invalid);
    assert_eq!(world.stats().await.ready, 0);
    drafts.pop();
    world.op(StoreOp::push(drafts)).await;
    assert_eq!(world.stats().await.ready, BATCH_MAX);
}

pub async fn a_waiting_event_is_never_forgotten_and_never_too_old(harness: &dyn StoreHarness) {
    let world = World::remembering(harness, 1).await;
    let waiting = world.event().when(secs(60));
    world.add(waiting.clone()).await;
    for _ in 0..3 {
        world.advance(ms(1));
        world.add(world.event()).await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    }
    assert_eq!(
        world.push(&waiting).await,
        PushOutcome::Duplicate(waiting.id())
    );
    assert_eq!(world.state(waiting.id()).await, Some(State::Scheduled));
}

pub async fn a_push_again_after_a_failed_attempt_is_a_duplicate(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event();
    world.add(draft.clone()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(secs(5))).await);
    assert_eq!(world.push(&draft).await, PushOutcome::Duplicate(draft.id()));
    assert_eq!(
        world.get(draft.id()).await.map(|found| found.tries),
        Some(1)
    );
}
