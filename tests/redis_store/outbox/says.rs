//! What records say beside how an attempt ended.

use duly::ErrorKind;
use duly::event::Payload;
use duly::records::Outcome;
use duly::store::operation::{Reply, StoreOp};

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::shared;

#[tokio::test]
async fn records_keep_a_payload_where_it_is_asked_for_and_short_enough() {
    let (url, _) = fresh(&shared().url());
    let bare = Bare::open(&url).await;
    let header = (
        "traceparent",
        "00-0102030405060708090a0b0c0d0e0f10-00f067aa0ba902b7-01",
    );
    let mut expected = Vec::new();
    for (len, keeps, traced) in [
        (3, false, false),
        (3, true, false),
        (3, false, true),
        (0, true, true),
        (64 << 10, true, true),
        ((64 << 10) + 1, true, false),
        ((64 << 10) + 1, true, true),
    ] {
        let payload = Payload::from(vec![b'x'; len]);
        let id = bare
            .push_with(|event| {
                (event.payload, event.keeps_payload) = (payload.clone(), keeps);
                event.attempts = 1;
                if traced {
                    let (name, value) = header;
                    event.headers.push((name.to_owned(), value.to_owned()));
                }
            })
            .await;
        let kept = keeps && len <= 64 << 10;
        expected.push((id, kept.then_some(payload), traced));
    }
    // Each way for an attempt to end, and each thing that is done by hand to what is dead.
    bare.bury(1).await;
    let ids: Vec<_> = expected.iter().map(|(id, ..)| *id).collect();
    let by = Some("ada".to_owned());
    let revive = StoreOp::Revive {
        ids: ids.clone(),
        by: by.clone(),
    };
    assert_eq!(bare.apply(revive).await.unwrap(), Reply::Counted(ids.len()));
    bare.bury(2).await;
    let drop = StoreOp::Drop {
        ids: ids.clone(),
        by,
    };
    assert_eq!(bare.apply(drop).await.unwrap(), Reply::Counted(ids.len()));

    let records = bare.rest(0, 3).await;
    assert_eq!(records.len(), 4 * ids.len());
    for (round, outcome) in [
        (0, Outcome::Buried),
        (1, Outcome::Revived),
        (2, Outcome::Buried),
        (3, Outcome::Dropped),
    ] {
        for (at, (id, payload, traced)) in expected.iter().enumerate() {
            let (_, record) = &records[round * ids.len() + at];
            assert_eq!((record.id, record.outcome), (*id, outcome));
            assert_eq!(record.payload, *payload);
            let trace = record.trace.map(|trace| trace.to_string());
            let said = traced.then_some("0102030405060708090a0b0c0d0e0f10");
            assert_eq!(trace.as_deref(), said);
            let by_hand = matches!(outcome, Outcome::Revived | Outcome::Dropped);
            assert_eq!(record.by.as_deref(), by_hand.then_some("ada"));
        }
    }
}

#[tokio::test]
async fn a_name_that_is_too_long_is_refused_before_anything_is_sent() {
    let (url, _) = fresh(&shared().url());
    let bare = Bare::open(&url).await;
    let id = bare.push_with(|_| ()).await;
    bare.bury(1).await;
    let name = |len: usize| Some("n".repeat(len));
    let payload = Payload::default();
    let all = |by: Option<String>| {
        let (update_by, revive_by) = (by.clone(), by.clone());
        let payload = payload.clone();
        [
            StoreOp::Update {
                id,
                payload,
                by: update_by,
                dead_only: false,
            },
            StoreOp::Revive {
                ids: vec![id],
                by: revive_by,
            },
            StoreOp::Drop { ids: vec![id], by },
        ]
    };
    for op in all(name(129)) {
        let error = bare.apply(op).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(bare.page(0, 0).await.next, 2, "only the bury is on record");
    for op in all(name(128)) {
        bare.apply(op).await.expect("a name of 128 bytes");
    }
    let records = bare.rest(1, 10).await;
    assert_eq!(records.len(), 2, "what is not dead any more is not dropped");
    let names = records.into_iter().map(|(_, record)| record.by);
    assert!(names.eq([name(128), name(128)]));
}
