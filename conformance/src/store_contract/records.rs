//! Promises of records: one for each attempt and each end, complete, in order.

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, bury, failed, ms, retry, secs};
use duly::event::{Payload, TRACE_HEADER, TraceId};
use duly::records::{Cause, ERROR_BYTES_MAX, Outcome, PAYLOAD_KEPT_MAX, Query, Record, Stages};
use duly::store::operation::{AttemptOutcome, Settlement, StoreOp};
use duly::time::Clock;

pub async fn a_record_tells_everything_about_its_attempt(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event().when(ms(10));
    let id = world
        .add(draft.with(|envelope| envelope.key = Some("order:7".into())))
        .await;
    world.advance(ms(12));
    world.move_due().await;
    let moved_us = world.clock.wall_us();
    world.advance(ms(3));
    let delivery = world.fetch(A).await.remove(0);
    let fetched_us = world.clock.wall_us();
    let failing = failed("no such order");
    let settlement = Settlement {
        id,
        request: delivery.request,
        verdict: AttemptOutcome::Retry(secs(1), failing),
        started_us: fetched_us + 2_000,
        fetched_us,
    };
    world.advance(ms(9));
    assert_eq!(world.settle_all(A, vec![settlement]).await, [true]);
    let expected = Record {
        id,
        queue: world.bucket.queue.clone(),
        key: Some("order:7".into()),
        attempt: 1,
        outcome: Outcome::Retried,
        cause: Some(Cause::Failed),
        due: delivery.due,
        stages: Stages {
            moved_us,
            fetched_us,
            started_us: fetched_us + 2_000,
            finished_us: world.clock.wall_us(),
        },
        node: A,
        error: Some("no such order".into()),
        trace: None,
        payload: None,
        by: None,
    };
    assert_eq!(world.record(id).await, expected);
}

pub async fn a_long_error_is_cut(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event()).await;
    let delivery = world.take(A).await;
    let long = "ä".repeat(ERROR_BYTES_MAX);
    assert!(
        world
            .settle(A, &delivery, AttemptOutcome::Discard(Some(long)))
            .await
    );
    let error = world.record(id).await.error.expect("it is kept");
    assert_eq!(error.len(), ERROR_BYTES_MAX);
}

pub async fn records_are_read_in_their_order_and_by_page(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.add(world.event()).await);
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let query = Query {
            queue: Some(world.bucket.queue.clone()),
            outcomes: vec![Outcome::Acked],
            after,
            limit: Some(2),
            ..Query::default()
        };
        let page = duly::testing::records(&*world.store(), query)
            .await
            .expect("they can be read");
        assert!(page.items.len() <= 2);
        seen.extend(page.items.into_iter().map(|record| record.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids);
}

pub async fn every_lease_that_ends_leaves_one_record(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().attempts(9)).await;
    for verdict in [
        retry(secs(0)),
        AttemptOutcome::Snooze(secs(0)),
        retry(secs(0)),
    ] {
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, verdict).await);
        world.take(B).await;
        world.reap_node(B).await;
        // B is notified before it gets more.
        let fetch = world.fetching(B, 1);
        assert!(world.try_op(StoreOp::fetch(fetch)).await.is_err());
    }
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, bury()).await);
    let records = world.records(id).await;
    let recorded: Vec<_> = records
        .iter()
        .map(|record| (record.attempt, record.outcome))
        .collect();
    let (retried, lost) = (Outcome::Retried, Outcome::LeaseLost);
    let snoozed = Outcome::Snoozed;
    assert_eq!(
        recorded,
        [
            (1, retried),
            (2, lost),
            (3, snoozed),
            (3, lost),
            (4, retried),
            (5, lost),
            (6, Outcome::Buried)
        ]
    );
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub async fn records_tell_the_trace_of_their_event(harness: &dyn StoreHarness) {
    for (header, trace) in [
        (TRACE, TraceId::of_header(TRACE)),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736", None),
        ("", None),
    ] {
        let world = World::new(harness).await;
        let draft = world.event().attempts(9).with(|envelope| {
            envelope.headers = vec![
                ("a".into(), "b".into()),
                (TRACE_HEADER.to_owned(), header.to_owned()),
            ];
        });
        let id = world.add(draft).await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, retry(secs(0))).await);
        world.take(B).await;
        world.reap_node(B).await;
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, bury()).await);
        world.revive(&[id]).await;
        let _ = world.cancel(id).await;
        let records = world.records(id).await;
        let recorded: Vec<_> = records.iter().map(|it| (it.outcome, it.trace)).collect();
        let expected = [
            Outcome::Retried,
            Outcome::LeaseLost,
            Outcome::Buried,
            Outcome::Revived,
            Outcome::Cancelled,
        ];
        assert_eq!(recorded, expected.map(|outcome| (outcome, trace)));
        assert!(records.iter().all(|record| record.payload.is_none()));
    }
}

pub async fn a_payload_is_kept_only_where_it_is_asked_for_and_up_to_its_bound(
    harness: &dyn StoreHarness,
) {
    for (keeps, bytes, is_kept) in [
        (false, 7, false),
        (true, 0, true),
        (true, 7, true),
        (true, PAYLOAD_KEPT_MAX, true),
        (true, PAYLOAD_KEPT_MAX + 1, false),
    ] {
        let world = World::new(harness).await;
        let payload = Payload::from(vec![b'p'; bytes]);
        let draft = world.event().with(|envelope| {
            envelope.keeps_payload = keeps;
            envelope.payload = payload.clone();
        });
        let id = world.add(draft).await;
        let delivery = world.take(A).await;
        assert_eq!(delivery.body.payload, payload);
        assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
        let kept = world.record(id).await.payload;
        assert_eq!(kept, is_kept.then_some(payload), "{keeps} {bytes}");
    }
}

pub async fn records_tell_the_payload_of_their_time(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event().payload("first");
    let id = world
        .dead(draft.with(|envelope| envelope.keeps_payload = true))
        .await;
    let _ = world.update(id, "second").await;
    world.revive(&[id]).await;
    let _ = world.update(id, "third").await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
    let records = world.records(id).await;
    let recorded = records.iter().map(|record| {
        let payload = record.payload.as_ref().expect("it is kept");
        (record.outcome, payload.as_bytes())
    });
    assert_eq!(
        recorded.collect::<Vec<_>>(),
        [
            (Outcome::Buried, b"first".as_slice()),
            (Outcome::Edited, b"second"),
            (Outcome::Revived, b"second"),
            (Outcome::Acked, b"third"),
        ]
    );
}
