//! What records tell, and that a damaged one hides no other.

use std::sync::Arc;
use std::time::Duration;

use duly::event::{BucketId, BucketKey};
use duly::journal::Keep;
use duly::records::{Page, Query, Record};
use duly::store::operation::{AttemptOutcome, StartMark, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::When;
use futures_util::FutureExt;

use crate::embedded::damage::{handle, history, meddle};
use crate::embedded::harness::*;

fn page(store: &EmbeddedStore, limit: u32) -> Page<Record> {
    let query = Query {
        limit: Some(limit),
        ..Query::default()
    };
    let page = duly::testing::records(store, query).now_or_never();
    page.expect("an inline store answers at once")
        .expect("a page")
}

#[test]
fn damaged_records_are_passed_over_and_hide_none_of_the_others() {
    let place = Place::new();
    let store = place.open();
    handle(&store, 1, 4);
    drop(store);
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    let damage = "UPDATE records SET attempt = 9 WHERE number <= 2";
    assert_eq!(file.execute(damage, []).expect("a change"), 2);
    drop(file);
    assert_eq!(history(&place.open()), [3, 4]);
}

#[test]
fn a_queue_whose_name_is_damaged_has_no_records_and_stops_nobody() {
    let place = Place::new();
    let store = place.open();
    handle(&store, 1, 4);
    drop(store);
    meddle(&place, "UPDATE queues SET name = 'order-clos'");
    let store = place.open();
    handle(&store, 5, 1);
    assert_eq!(history(&store), [5]);
}

#[test]
fn what_a_record_tells_is_covered_by_its_checksum() {
    for damage in [
        "payload = x'00'",
        "payload = NULL",
        "trace = x'0102030405060708090a0b0c0d0e0f10'",
        "trace = NULL",
        "by = 'nobody'",
        "key = 'other'",
        "error = 'none'",
        "due = due + 1",
        "node = node + 1",
    ] {
        let place = Place::new();
        let store = place.open();
        push(&store, telling(1, 3)).expect("a push");
        let delivery = fetch(&store, 1).remove(0);
        assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
        drop(store);
        let record = page(&place.open(), 1).items.remove(0);
        assert_eq!(record.payload, Some(payload(1)));
        meddle(&place, &format!("UPDATE records SET {damage}"));
        let page = page(&place.open(), 1);
        assert_eq!(page.items, [], "{damage}");
    }
}

#[test]
fn a_damaged_envelope_has_nothing_to_tell_and_stops_nobody() {
    let place = Place::new();
    let store = place.open();
    for n in 1..=2 {
        push(&store, telling(n, 3)).expect("a push");
    }
    let deliveries = fetch(&store, 1);
    meddle(
        &place,
        "UPDATE events SET body = zeroblob(100) WHERE row = 1",
    );
    for delivery in &deliveries {
        assert!(settle(&store, delivery, AttemptOutcome::Ack).expect("a settle"));
    }
    let told = page(&store, 10).items;
    let told: Vec<_> = told.into_iter().map(|it| (it.payload, it.trace)).collect();
    let trace = telling(2, 3).envelope.trace();
    assert_eq!(told, [(None, None), (Some(payload(2)), trace)]);
}

/// An event of the batch that is written may be gone before its record is.
#[tokio::test]
async fn a_record_tells_the_payload_of_its_time() {
    let place = Place::new();
    let clock = std::sync::Arc::clone(&place.clock) as std::sync::Arc<dyn duly::time::Clock>;
    let options = EmbeddedOptions::new().clock(clock).reserve_bytes(4_096);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    let ask = |op| store.apply(&key(), op);
    ask(StoreOp::Push(vec![telling(1, 1)]))
        .await
        .expect("a push");
    let fetched = ask(fetch_op(1)).await.expect("a fetch").reply;
    let duly::store::operation::Reply::Fetched(duly::store::operation::FetchReport {
        deliveries,
        ..
    }) = fetched
    else {
        panic!("a fetch was answered with {fetched:?}");
    };
    let failing = duly::store::operation::FailureReason {
        cause: duly::records::Cause::Failed,
        error: None,
    };
    let settlements = vec![settlement(&deliveries[0], AttemptOutcome::Bury(failing))];
    // All of it decided at once, so that one transaction may hold it.
    let mut answers = vec![ask(StoreOp::Settle {
        node: NODE,
        settlements,
        started: StartMark::default(),
    })];
    for n in 2..=3 {
        answers.push(ask(StoreOp::Update {
            id: id(1),
            payload: payload(n),
            by: None,
            dead_only: false,
        }));
    }
    let ids = vec![id(1)];
    answers.push(ask(StoreOp::Drop { ids, by: None }));
    for answer in answers {
        answer.await.expect("an answer");
    }
    let page = duly::testing::records(&store, Query::default()).await;
    let page = page.expect("a page");
    let told: Vec<_> = page.items.into_iter().map(|it| it.payload).collect();
    assert_eq!(told, [1, 2, 3, 3].map(|n| Some(payload(n))));
}

/// Beside a queue that stays; some names come back when nothing is known of them any more.
#[test]
fn a_queue_of_which_nothing_is_kept_leaves_the_file() {
    let place = Place::new();
    let store = place.open();
    store.records().expect("its own").keep(Keep {
        age: None,
        count: Some(3),
        minutes: Some(Duration::from_secs(60)),
        at_once: true,
    });
    for n in 1..=300_u64 {
        let names = ["work".to_owned(), format!("queue-{}", n % 40)];
        for (number, name) in (2 * n..).zip(&names) {
            let bucket = BucketKey::new(name.parse().expect("a legal name"), BucketId(0));
            let apply = |op| store.apply(&bucket, op).now_or_never().expect("ready");
            let mut new = event(number, When::After(Duration::from_secs(60)), 3);
            Arc::make_mut(&mut new.envelope).queue = bucket.queue.clone();
            apply(StoreOp::Push(vec![new])).expect("a push");
            apply(StoreOp::Cancel { id: id(number) }).expect("a cancel");
            let last = page(&store, 10).items.pop().expect("a record");
            assert_eq!((last.id, &*last.queue), (id(number), name.as_str()));
        }
        place.clock.advance(Duration::from_secs(7));
    }
    drop(store);
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    for table in ["queues", "tenths"] {
        let count = format!("SELECT count(*) FROM {table}");
        let rows: i64 = file
            .query_row(&count, [], |row| row.get(0))
            .expect("a count");
        // Those of two minutes.
        assert!((1..=20).contains(&rows), "{table} has {rows} rows");
    }
    let store = place.open();
    assert_eq!(page(&store, 10).items.len(), 3);
}
