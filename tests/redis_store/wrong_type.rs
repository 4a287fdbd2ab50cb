//! Keys of ours that somebody overwrote with a text.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::event::{Envelope, Payload, State};
use duly::records::{Outcome, Query, Record};
use duly::store::Store;
use duly::store::operation::StoreOp;
use duly::time::When;

use crate::redis_store::kit::until;
use crate::redis_store::overwritten::{Overwritten, opened};

/// Events are pushed, moved, fetched and settled before, while and after a key is not ours.
async fn loses_nothing(part: &str) {
    let (server, prefix, bare) = opened().await;
    let mut ids = BTreeSet::new();
    // Equal events wait in pages: the move below takes one part whole, and divides another one.
    for (count, ms) in [(7, 0), (3, 1), (40, 2)] {
        let run = bare.new_run(count);
        let when = When::from(Duration::from_millis(ms));
        let events = run.iter().map(|id| bare.plain(*id, when)).collect();
        bare.apply(StoreOp::Push(events)).await.unwrap();
        ids.extend(run);
    }
    for number in 0..30 {
        let id = bare.new_id();
        let when = match number % 3 {
            0 => When::from(Duration::from_millis(1)),
            _ => When::Now,
        };
        bare.push(id, when).await.unwrap();
        ids.insert(id);
    }
    let first = bare.fetch(1, 5).await.unwrap();
    let second = bare.fetch(2, 5).await.unwrap();
    assert_eq!((first.len(), second.len()), (5, 5));
    bare.ack(2, &second[..2]).await.unwrap();
    let due_us = bare.store.now_us() + 2_000;
    until("the delayed ones are due", async || {
        bare.store.now_us() > due_us
    })
    .await;

    let overwritten = Overwritten::new(server, &prefix, part);
    let (now, later) = (bare.new_id(), bare.new_id());
    let answers = [
        bare.push(now, When::Now).await.err(),
        bare.push(later, Duration::from_millis(1)).await.err(),
        bare.apply(StoreOp::MoveDue {
            limit: 5,
            calls: false,
        })
        .await
        .err(),
        bare.fetch(3, 5).await.err(),
        bare.ack(1, &first).await.err(),
    ];
    assert!(
        answers.iter().any(Option::is_some),
        "{part}: nobody noticed"
    );
    overwritten.put_right();

    // Every operation can be repeated, whatever had become of it.
    bare.push(now, When::Now).await.expect(part);
    bare.push(later, Duration::from_millis(1))
        .await
        .expect(part);
    ids.extend([now, later]);
    let acked = bare.ack(1, &first).await.expect(part);
    assert!(acked.into_iter().all(|so| so), "{part}: {answers:?}");
    let mut request = 0;
    let mut ended: BTreeSet<_> = second[..2].iter().chain(&first).copied().collect();
    until(&format!("all are handled after {part}"), async || {
        bare.apply(StoreOp::MoveDue {
            limit: 1_000,
            calls: true,
        })
        .await
        .expect(part);
        request += 1;
        let held = bare.fetch(request, 1_000).await.expect(part);
        let settled = bare.ack(request, &held).await.expect(part);
        let settled = held.iter().zip(settled).filter(|(_, so)| *so);
        ended.extend(settled.map(|(id, _)| *id));
        ended.len() >= ids.len() || request > 500
    })
    .await;
    assert_eq!(ended, ids, "{part}: {answers:?}");

    // Whatever came of its outcome, the record is there: it is written first.
    let query = Query {
        limit: Some(Query::LIMIT_MAX),
        ..Query::default()
    };
    let page = duly::testing::records(&bare.store, query)
        .await
        .expect(part);
    let recorded: BTreeSet<_> = page.items.into_iter().map(|record| record.id).collect();
    assert_eq!(recorded, ids, "{part}: {answers:?}");
}

/// Dead letters are revived, dropped and edited while and after a key is not ours: each of it
/// happens, and is on record.
async fn loses_no_dead_letter(part: &str) {
    let (server, prefix, bare) = opened().await;
    let mut ids = Vec::new();
    for number in 0..9 {
        let keys = |event: &mut Envelope| {
            event.key = Some(part.to_owned());
            event.unique = Some(format!("{part} {number}"));
        };
        ids.push(bare.push_with(keys).await);
    }
    ids.sort_unstable();
    bare.bury(1).await;
    let (revived, others) = ids.split_at(4);
    let (dropped, edited) = others.split_at(4);
    let by = || Some("ada".to_owned());
    let acts = || {
        let payload = Payload::from(&b"mended"[..]);
        [
            StoreOp::Revive {
                ids: revived.to_vec(),
                by: by(),
            },
            StoreOp::Drop {
                ids: dropped.to_vec(),
                by: by(),
            },
            StoreOp::Update {
                id: edited[0],
                payload,
                by: by(),
                dead_only: false,
            },
        ]
    };

    let overwritten = Overwritten::new(server, &prefix, part);
    let mut failed = 0;
    for act in acts() {
        failed += usize::from(bare.apply(act).await.is_err());
    }
    assert!(failed > 0, "{part}: nobody noticed");
    overwritten.put_right();

    for act in acts() {
        bare.apply(act).await.expect(part);
    }
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0], "{part}");
    let mut held = bare.fetch(2, 100).await.unwrap();
    held.sort_unstable();
    assert_eq!(held, revived, "{part}");
    for (ids, outcome) in [
        (revived, Outcome::Revived),
        (dropped, Outcome::Dropped),
        (edited, Outcome::Edited),
    ] {
        for id in ids {
            let state = match outcome {
                Outcome::Revived => State::Leased,
                Outcome::Dropped => State::Cancelled,
                _ => State::Dead,
            };
            assert_eq!(bare.state(*id).await, state, "{part}");
            let records = bare.records(*id).await;
            let is_told = |it: &Record| it.outcome == outcome && it.by == by();
            assert!(records.iter().any(is_told), "{part}: {records:?}");
        }
    }
}

mod on_its_way {
    use crate::redis_store::overwritten::of_each;

    of_each!(
        loses_nothing: meta, body, delay, ready, state, sizes, held, nodes, past, outbox,
    );
}

mod of_dead_letters {
    use crate::redis_store::overwritten::of_each;

    of_each!(loses_no_dead_letter: meta, body, delay, ready, state, dead, unique, by_key, past, outbox);
}
