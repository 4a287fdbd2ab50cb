//! Promises of the dedup window: which tombstones are kept, and how an id's creation time counts.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, EventDraft, World, ms, secs};
use duly::EventId;
use duly::event::BucketId;
use duly::store::operation::{AttemptOutcome, PushOutcome, StoreOp};
use duly::store::{DedupWindow, ID_AHEAD_MAX, KEEP_FOR};

/// Pushes an event and ends it, a millisecond after the one before.
async fn ended(world: &World) -> EventDraft {
    world.advance(ms(1));
    ended_as(world, world.event()).await
}

async fn ended_as(world: &World, draft: EventDraft) -> EventDraft {
    world.add(draft.clone()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    draft
}

pub async fn an_id_that_may_have_been_forgotten_is_too_old(harness: &dyn StoreHarness) {
    let world = World::remembering(harness, 2).await;
    let mut drafts = Vec::new();
    for _ in 0..3 {
        drafts.push(ended(&world).await);
    }
    assert_eq!(
        world.push(&drafts[0]).await,
        PushOutcome::TooOld,
        "it was forgotten"
    );
    for known in &drafts[1..] {
        assert_eq!(world.push(known).await, PushOutcome::Duplicate(known.id()));
    }
    let never_seen = world.event().with(|envelope| {
        envelope.id = EventId::from_parts(drafts[0].id().created(), BucketId(3), 99);
    });
    assert_eq!(
        world.push(&never_seen).await,
        PushOutcome::TooOld,
        "nobody can know"
    );
    world.add(world.event()).await;
}

pub async fn an_id_is_remembered_for_its_time_however_many_end_after_it(
    harness: &dyn StoreHarness,
) {
    let window = DedupWindow {
        max: 1,
        ..DedupWindow::default()
    };
    let world = World::within(harness, window).await;
    let first = ended(&world).await;
    let since = world.now();
    for _ in 0..20 {
        ended(&world).await;
    }
    world.advance(KEEP_FOR - world.now().since(since) - ms(2));
    ended(&world).await;
    assert_eq!(world.push(&first).await, PushOutcome::Duplicate(first.id()));
    let last = ended(&world).await;
    assert_eq!(world.now().since(since), KEEP_FOR);
    assert_eq!(
        world.push(&first).await,
        PushOutcome::TooOld,
        "its time is over"
    );
    assert_eq!(world.push(&last).await, PushOutcome::Duplicate(last.id()));
}

pub async fn no_more_ids_are_remembered_than_the_cap_allows(harness: &dyn StoreHarness) {
    let window = DedupWindow {
        max: 1,
        cap: 3,
        ..DedupWindow::default()
    };
    let world = World::within(harness, window).await;
    let mut drafts = Vec::new();
    for _ in 0..5 {
        drafts.push(ended(&world).await);
    }
    for (at, draft) in drafts.iter().enumerate() {
        let verdict = match at {
            0 | 1 => PushOutcome::TooOld,
            _ => PushOutcome::Duplicate(draft.id()),
        };
        assert_eq!(world.push(draft).await, verdict, "event {at} of five");
    }
}

pub async fn the_look_forgets_what_ended_long_ago(harness: &dyn StoreHarness) {
    let window = DedupWindow {
        max_age: secs(300),
        ..DedupWindow::default()
    };
    let world = World::within(harness, window).await;
    let look = || StoreOp::reap(Vec::new(), 10);
    let draft = ended(&world).await;
    world.advance(secs(299));
    world.op(look()).await;
    assert_eq!(world.push(&draft).await, PushOutcome::Duplicate(draft.id()));
    world.advance(secs(1));
    world.op(look()).await;
    assert_eq!(world.push(&draft).await, PushOutcome::TooOld);
    assert_eq!(world.state(draft.id()).await, None);
    ended(&world).await;
}

pub async fn an_id_from_the_future_is_too_new(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let furthest = world.event_made(world.now() + ID_AHEAD_MAX);
    let beyond = world.event_made(world.now() + ID_AHEAD_MAX + ms(1));
    let pushed = world
        .push_all(&[beyond.clone(), world.event(), furthest])
        .await;
    let verdicts: Vec<_> = pushed.iter().map(|pushed| pushed.verdict).collect();
    assert_eq!(
        verdicts,
        [
            PushOutcome::TooNew,
            PushOutcome::Accepted,
            PushOutcome::Accepted
        ],
        "the others of the batch are not refused with it"
    );
    assert_eq!(world.state(beyond.id()).await, None);
    let microseconds =
        world.event_made(duly::time::Timestamp::from_millis(world.now().as_micros()));
    assert_eq!(world.push(&microseconds).await, PushOutcome::TooNew);
    world.advance(ms(1));
    assert_eq!(world.push(&beyond).await, PushOutcome::Accepted);
}

pub async fn an_id_that_was_made_ahead_closes_the_bucket_to_nobody(harness: &dyn StoreHarness) {
    let window = DedupWindow {
        max: 0,
        ..DedupWindow::default()
    };
    let world = World::within(harness, window).await;
    let ahead = world.event_made(world.now() + ID_AHEAD_MAX);
    let ahead = ended_as(&world, ahead).await;
    for _ in 0..3 {
        ended(&world).await;
        world.advance(KEEP_FOR);
    }
    assert_eq!(world.push(&ahead).await, PushOutcome::TooOld);
    ended(&world).await;
}

pub async fn an_id_that_was_made_ahead_closes_no_busy_bucket(harness: &dyn StoreHarness) {
    for ahead_of in [ms(1), secs(50), ID_AHEAD_MAX] {
        let world = World::remembering(harness, 3).await;
        let mut ahead = Vec::new();
        for at in 0..20 {
            if at % 7 == 0 {
                world.advance(ms(1));
                let draft = world.event_made(world.now() + ahead_of);
                ahead.push((ended_as(&world, draft).await, world.now()));
            }
            ended(&world).await;
            for (draft, since) in &ahead {
                if world.now().since(*since) < ahead_of {
                    let again = world.push(draft).await;
                    assert_eq!(again, PushOutcome::Duplicate(draft.id()), "{ahead_of:?}");
                }
            }
        }
        world.advance(ahead_of);
        for _ in 0..8 {
            ended(&world).await;
        }
        for (draft, _) in &ahead {
            assert_eq!(world.push(draft).await, PushOutcome::TooOld, "{ahead_of:?}");
        }
    }
}

pub async fn many_ids_that_were_made_ahead_close_no_bucket(harness: &dyn StoreHarness) {
    let world = World::remembering(harness, 2).await;
    let made_ahead = || world.event_made(world.now() + secs(50));
    let mut ahead: Vec<_> = (0..10).map(|_| made_ahead()).collect();
    for draft in &ahead {
        world.add(draft.clone()).await;
    }
    for delivery in world.fetch(A).await {
        world.advance(ms(1));
        assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    }
    // Twice the cap are known; of others of their time nobody can know.
    let at = ahead[0].id().created();
    ahead.push(world.event_made(at));
    for (at, draft) in ahead.iter().enumerate() {
        let verdict = match at {
            6..10 => PushOutcome::Duplicate(draft.id()),
            _ => PushOutcome::TooOld,
        };
        assert_eq!(world.push(draft).await, verdict, "event {at}");
    }
    // None of a later time was forgotten: `ended_as` asserts that its push is accepted.
    ended_as(&world, world.event_made(at + ms(1))).await;
    // Whoever's clock is right has what it had.
    for _ in 0..60 {
        ended(&world).await;
        ended(&world).await;
        world.advance(secs(1));
    }
    assert_eq!(world.push(&ahead[9]).await, PushOutcome::TooOld);
    ended_as(&world, made_ahead()).await;
}

pub async fn an_id_of_any_shape_is_one_event_that_ends(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let now = world.now();
    let at = |created, entropy| {
        let id = EventId::from_parts(created, BucketId(3), entropy);
        world.event().with(|envelope| envelope.id = id)
    };
    let none = duly::time::Timestamp::EPOCH;
    let mut drafts = Vec::new();
    for created in [none, none + ms(1), now, now + secs(50)] {
        for entropy in [0, 1, 127, 128, 129, 191, 192, 255, u64::MAX, u64::MAX - 64] {
            drafts.push(at(created, entropy));
        }
    }
    for when in [ms(0), secs(1)] {
        let draft = |draft: &EventDraft| draft.clone().when(when);
        for alone in [true, false] {
            let world = World::new(harness).await;
            let drafts: Vec<_> = drafts.iter().map(draft).collect();
            if alone {
                for draft in &drafts {
                    world.add(draft.clone()).await;
                }
            } else {
                world.push_all(&drafts).await;
            }
            world.advance(when);
            world.move_due().await;
            let deliveries = world.fetch(A).await;
            assert_eq!(deliveries.len(), drafts.len());
            for delivery in &deliveries {
                assert!(
                    world.settle(A, delivery, AttemptOutcome::Ack).await,
                    "{}",
                    delivery.id
                );
            }
            assert!(world.fetch(A).await.is_empty(), "they have ended");
            for draft in &drafts {
                assert_eq!(world.push(draft).await, PushOutcome::Duplicate(draft.id()));
            }
        }
    }
}

pub async fn all_that_one_operation_forgets_is_too_old(harness: &dyn StoreHarness) {
    // In which order the ids of a batch were made: the watermark is that of the latest of them.
    for order in [
        [0, 1, 2, 3, 4, 5],
        [5, 4, 3, 2, 1, 0],
        [2, 0, 3, 5, 1, 4],
        [0, 5, 1, 4, 2, 3],
    ] {
        let world = World::remembering(harness, 6).await;
        world.advance(secs(1));
        let made = |place: u64| world.event_made(world.now() - secs(1) + ms(place));
        let drafts = order.map(made);
        for _ in 0..2 {
            world.push_all(&drafts).await;
            let deliveries = world.fetch(A).await;
            let acks = deliveries
                .iter()
                .map(|it| world.ended(it, AttemptOutcome::Ack));
            world.settle_all(A, acks.collect()).await;
        }
        let others: Vec<_> = (0..6).map(|_| world.event()).collect();
        world.push_all(&others).await;
        let deliveries = world.fetch(A).await;
        let acks = deliveries
            .iter()
            .map(|it| world.ended(it, AttemptOutcome::Ack));
        world.settle_all(A, acks.collect()).await;
        for draft in &drafts {
            assert_eq!(world.push(draft).await, PushOutcome::TooOld, "{order:?}");
        }
    }
}
