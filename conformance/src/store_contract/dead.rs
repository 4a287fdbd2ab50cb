//! Promises of dead letters: kept, listed, revived, dropped.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, World, bury, ms, retry, secs};
use duly::event::{Payload, State};
use duly::records::{BY_BYTES_MAX, NodeId, Outcome, Record, Stages};
use duly::store::operation::{AttemptOutcome, DeadLetterEdit, PushOutcome, StoreOp};
use duly::{CancelOutcome, ChangeOutcome, ErrorKind, EventId, LatePolicy, Unique};

pub async fn a_dead_letter_is_kept_whole_and_is_not_started(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world
        .event()
        .with(|envelope| envelope.key = Some("k".into()));
    let id = world.dead(draft.clone()).await;
    world.advance(secs(86_400));
    assert_eq!(world.move_due().await, 0);
    assert_eq!(world.fetch(A).await, []);
    world.reap(Vec::new(), 100).await;
    let found = world.get(id).await.expect("it is kept");
    assert_eq!(found.state, State::Dead);
    assert_eq!(found.body.as_deref(), Some(&*draft.0.envelope));
    assert_eq!(world.read_dead(None, 10).await, [id]);
    assert_eq!(world.stats().await.dead, 1);
}

pub async fn dead_letters_are_read_by_id_and_by_page(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    world.take(A).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(world.dead(world.event()).await);
    }
    for delay in [0, 60] {
        world.add(world.event().when(secs(delay))).await;
    }
    all.sort_unstable();
    assert_eq!(world.read_dead(None, 100).await, all);
    assert_eq!(world.read_dead(None, 2).await, all[..2]);
    assert_eq!(world.read_dead(Some(all[1]), 2).await, all[2..4]);
    assert_eq!(world.read_dead(Some(all[3]), 2).await, all[4..]);
    assert_eq!(world.read_dead(Some(all[4]), 2).await, []);
    assert_eq!(world.read_dead(None, 0).await, all[..1], "one at least");
}

pub async fn a_revived_event_is_ready_and_has_all_its_attempts(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.dead(world.event().attempts(2)).await;
    world.advance(secs(60));
    assert_eq!(world.revive(&[id]).await, 1);
    assert_eq!(world.state(id).await, Some(State::Ready));
    for attempt in [1, 2] {
        let delivery = world.take(A).await;
        assert_eq!((delivery.attempt, delivery.due), (attempt, world.now()));
        assert!(world.settle(A, &delivery, retry(secs(0))).await);
    }
    assert_eq!(world.state(id).await, Some(State::Dead));
    let all_records: Vec<_> = world.records(id).await;
    let all_records = all_records.iter().map(|it| (it.attempt, it.outcome));
    let (buried, revived, retried) = (Outcome::Buried, Outcome::Revived, Outcome::Retried);
    assert_eq!(
        all_records.collect::<Vec<_>>(),
        [(1, buried), (0, revived), (1, retried), (2, buried)],
        "a revive is no attempt"
    );
}

pub async fn a_revived_event_that_was_haunted_still_is(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().attempts(1)).await;
    world.take(A).await;
    world.reap_node(A).await;
    assert_eq!(world.revive(&[id]).await, 1);
    assert_eq!(world.cancel(id).await, CancelOutcome::CancelledAfterAttempt);
}

pub async fn a_dropped_event_is_gone_with_a_record(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event();
    let id = world.dead(draft.clone()).await;
    assert_eq!(world.drop_dead(&[id]).await, 1);
    let found = world.get(id).await.expect("its id is remembered");
    assert_eq!((found.state, found.body), (State::Cancelled, None));
    let records = world.records(id).await;
    let last = records.last().expect("a drop leaves a record");
    assert_eq!((last.outcome, last.attempt), (Outcome::Dropped, 0));
    assert_eq!(last.node, NodeId::default());
    assert_eq!(world.push(&draft).await, PushOutcome::Duplicate(id));
    assert_eq!(world.drop_dead(&[id]).await, 0, "only once");
    assert_eq!(world.stats().await.dead, 0);
}

pub async fn what_is_not_dead_is_neither_revived_nor_dropped(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let scheduled = world.add(world.event().when(secs(5))).await;
    let leased = world.add(world.event()).await;
    let delivery = world.take(A).await;
    let ready = world.add(world.event()).await;
    let ids = [scheduled, leased, ready, world.event().id()];
    assert_eq!(world.revive(&ids).await, 0);
    assert_eq!(world.drop_dead(&ids).await, 0);
    assert_eq!(world.state(scheduled).await, Some(State::Scheduled));
    assert_eq!(world.state(ready).await, Some(State::Ready));
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
}

pub async fn a_dead_letter_can_be_mended_and_revived(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.dead(world.event()).await;
    let changed = world.update(id, "mended").await;
    assert!(matches!(changed, ChangeOutcome::Changed(_)), "{changed:?}");
    assert_eq!(world.state(id).await, Some(State::Dead));
    assert_eq!(world.revive(&[id]).await, 1);
    assert_eq!(world.take(A).await.body.payload.as_bytes(), b"mended");
}

pub async fn a_dead_letter_is_edited_and_revived_in_one_step(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.dead(world.event().attempts(1)).await;
    let was = fingerprint(&world, id).await;
    world.advance(secs(9));
    let changed = edit_and_revive(&world, id, was).await;
    assert_eq!(changed, ChangeOutcome::Changed(world.now()));
    assert_eq!(world.state(id).await, Some(State::Ready));
    assert_eq!(world.stats().await.dead, 0);
    let records = world.records(id).await;
    let records: Vec<_> = records
        .iter()
        .map(|it| (it.outcome, it.by.as_deref()))
        .collect();
    let (edited, revived) = (Outcome::Edited, Outcome::Revived);
    let expected = [
        (Outcome::Buried, None),
        (edited, Some("ann")),
        (revived, Some("ann")),
    ];
    assert_eq!(records, expected);
    let delivery = world.take(A).await;
    assert_eq!(delivery.attempt, 1);
    assert_eq!(delivery.body.payload.as_bytes(), b"mended");
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    // Its tombstone has the fingerprint of what was delivered.
    let again = edit_and_revive(&world, id, was).await;
    assert_eq!(again, ChangeOutcome::TooLate(State::Done));
}

pub async fn a_dead_letter_that_has_changed_is_neither_edited_nor_revived(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    let id = world.dead(world.event()).await;
    let was = fingerprint(&world, id).await;
    let _ = world.update(id, "of another").await;
    let changed = edit_and_revive(&world, id, was).await;
    assert_eq!(changed, ChangeOutcome::TooLate(State::Dead));
    let found = world.get(id).await.expect("it is kept");
    assert_eq!(found.state, State::Dead);
    let body = found.body.expect("it has a body");
    assert_eq!(body.payload.as_bytes(), b"of another");

    // What is not dead is left alone, also as it was read.
    let scheduled = world.add(world.event().when(secs(5))).await;
    let revived = world.dead(world.event()).await;
    assert_eq!(world.revive(&[revived]).await, 1);
    for (id, state) in [(scheduled, State::Scheduled), (revived, State::Ready)] {
        let was = fingerprint(&world, id).await;
        let before = world.get(id).await;
        let changed = edit_and_revive(&world, id, was).await;
        assert_eq!(changed, ChangeOutcome::TooLate(state));
        assert_eq!(world.get(id).await, before);
    }
    let unknown = edit_and_revive(&world, world.event().id(), 0).await;
    assert_eq!(unknown, ChangeOutcome::NotFound);
}

/// A policy of lateness counts from the revival; an expiry is a time of its own.
pub async fn a_dead_letter_that_has_expired_stays_dead(harness: &dyn StoreHarness) {
    let tolerance = secs(1);
    for late in [
        LatePolicy::Deliver,
        LatePolicy::Expire(tolerance),
        LatePolicy::Bury(tolerance),
    ] {
        let world = World::new(harness).await;
        let at = world.now() + secs(5);
        let draft = |key: &str| world.event().late(late).unique(key, Unique::Keep);
        let in_time = world.dead(draft("a").expires(at)).await;
        let expired = world.dead(draft("b").expires(at)).await;
        let endless = world.dead(draft("c")).await;
        world.advance(secs(5) - ms(1));
        assert_eq!(world.revive(&[in_time]).await, 1, "{late:?}");
        world.advance(ms(1));
        assert_eq!(world.state(in_time).await, Some(State::Expired));

        let was = fingerprint(&world, expired).await;
        let (before, records) = (world.get(expired).await, world.records(expired).await);
        let edited = edit_and_revive(&world, expired, was).await;
        assert_eq!(edited, ChangeOutcome::TooLate(State::Expired));
        let stale = edit_and_revive(&world, expired, was ^ 1).await;
        assert_eq!(stale, ChangeOutcome::TooLate(State::Dead));
        assert_eq!(world.revive(&[expired, endless, expired]).await, 1);
        assert_eq!(world.get(expired).await, before, "{late:?}");
        assert_eq!(world.records(expired).await, records);
        let stats = world.stats().await;
        assert_eq!((stats.dead, stats.ready), (1, 1), "{late:?}");
        assert_eq!(world.take(A).await.id, endless);
        assert_eq!(world.push(&draft("b")).await, PushOutcome::Accepted);

        let changed = world.update(expired, "other").await;
        assert!(matches!(changed, ChangeOutcome::Changed(_)), "{changed:?}");
        assert_eq!(world.drop_dead(&[expired]).await, 1);
    }
}

async fn fingerprint(world: &World, id: EventId) -> u64 {
    let found = world.get(id).await.expect("it is there");
    found.body.expect("it has a body").fingerprint()
}

async fn edit_and_revive(world: &World, id: EventId, was: u64) -> ChangeOutcome {
    let edit = DeadLetterEdit {
        id,
        was,
        payload: Payload::from(b"mended".as_slice()),
        by: Some("ann".to_owned()),
    };
    world.op(StoreOp::edit_and_revive(edit)).await
}

pub async fn what_is_not_dead_is_not_edited(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let done = world.add(world.event()).await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    let revived = world.dead(world.event()).await;
    assert_eq!(world.revive(&[revived]).await, 1);
    let delivery = world.take(A).await;
    let scheduled = world.add(world.event().when(secs(5))).await;
    let ready = world.add(world.event()).await;
    let edit = async |id| {
        let payload = Payload::from(b"mended".as_slice());
        world.op(StoreOp::edit(id, payload, None)).await
    };
    for (id, state) in [
        (done, State::Done),
        (revived, State::Leased),
        (scheduled, State::Scheduled),
        (ready, State::Ready),
    ] {
        let found = world.get(id).await;
        assert_eq!(edit(id).await, ChangeOutcome::TooLate(state));
        assert_eq!(world.get(id).await, found, "nothing of it has changed");
        let edits = world.records(id).await;
        assert!(edits.iter().all(|it| it.outcome != Outcome::Edited));
    }
    assert_eq!(edit(world.event().id()).await, ChangeOutcome::NotFound);
    assert!(world.settle(A, &delivery, bury()).await);
    let edited = edit(revived).await;
    assert!(matches!(edited, ChangeOutcome::Changed(_)), "{edited:?}");
}

pub async fn what_is_done_to_a_dead_letter_is_on_record_with_who_did_it(
    harness: &dyn StoreHarness,
) {
    for by in [None, Some("ops".to_owned()), Some("b".repeat(BY_BYTES_MAX))] {
        let world = World::new(harness).await;
        let draft = world
            .event()
            .with(|envelope| envelope.key = Some("k".into()));
        let id = world.dead(draft.clone()).await;
        let due = world.now();
        world.advance(secs(1));
        let payload = Payload::from(b"mended".as_slice());
        let _ = world.op(StoreOp::edit(id, payload, by.clone())).await;
        world.op(StoreOp::revive(vec![id], by.clone())).await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, bury()).await);
        world.op(StoreOp::drop_dead(vec![id], by.clone())).await;

        let mut records = world.records(id).await;
        assert_eq!(records.len(), 5);
        for buried in [3, 0] {
            let buried = records.remove(buried);
            assert_eq!((buried.outcome, buried.by), (Outcome::Buried, None));
        }
        let now = world.now();
        for (record, (outcome, due)) in records.into_iter().zip([
            (Outcome::Edited, due),
            (Outcome::Revived, now),
            (Outcome::Dropped, now),
        ]) {
            let expected = Record {
                id,
                queue: world.bucket.queue.clone(),
                key: Some("k".into()),
                attempt: 0,
                outcome,
                cause: None,
                due,
                stages: Stages {
                    finished_us: now.as_micros(),
                    ..Stages::default()
                },
                node: NodeId::default(),
                error: None,
                trace: None,
                payload: None,
                by: by.clone(),
            };
            assert_eq!(record, expected);
        }
    }
}

pub async fn a_name_that_is_too_long_is_refused_and_nothing_happens(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event();
    let id = world.dead(draft.clone()).await;
    let by = Some("b".repeat(BY_BYTES_MAX + 1));
    let ids = vec![id];
    for op in [
        StoreOp::Revive {
            ids: ids.clone(),
            by: by.clone(),
        },
        StoreOp::Drop {
            ids,
            by: by.clone(),
        },
        StoreOp::Update {
            id,
            payload: Payload::from(b"mended".as_slice()),
            by,
            dead_only: false,
        },
    ] {
        assert_eq!(world.refused(op).await, ErrorKind::Invalid);
    }
    let found = world.get(id).await.expect("it is there");
    assert_eq!(found.state, State::Dead);
    assert_eq!(found.body.as_deref(), Some(&*draft.0.envelope));
    assert_eq!(world.record(id).await.outcome, Outcome::Buried);
}
