//! Records, and what a close and a new start keep.

use duly::records::{Outcome, Query};
use duly::store::operation::{AttemptOutcome, Reply, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::When;
use futures_util::FutureExt;

use crate::embedded::harness::*;

fn page(store: &EmbeddedStore, query: Query) -> duly::records::Page<duly::records::Record> {
    let page = duly::testing::records(store, query).now_or_never();
    page.expect("an inline store answers at once")
        .expect("a page")
}

fn ack_all(store: &EmbeddedStore, request: u64) {
    for delivery in fetch(store, request) {
        assert!(settle(store, &delivery, AttemptOutcome::Ack).expect("a settle"));
    }
}

#[test]
fn records_are_read_in_pages_and_survive_a_new_start() {
    let place = Place::new();
    let store = place.open();
    (1..=25).for_each(|n| push_now(&store, n));
    ack_all(&store, 1);
    drop(store);
    let store = place.open();
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let limit = Some(10);
        let found = page(
            &store,
            Query {
                after,
                limit,
                ..Query::default()
            },
        );
        seen.extend(found.items.iter().map(|record| record.id));
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, (1..=25).map(id).collect::<Vec<_>>());
    let one = page(
        &store,
        Query {
            id: Some(id(7)),
            ..Query::default()
        },
    );
    assert_eq!(one.items.len(), 1);
    assert_eq!(one.items[0].outcome, Outcome::Acked);
    let none = page(
        &store,
        Query {
            outcomes: vec![Outcome::Buried],
            ..Query::default()
        },
    );
    assert_eq!((none.items.len(), none.next), (0, None));
}

#[test]
fn only_so_many_records_are_kept() {
    let place = Place::new();
    let options = || place.options().records_max(10);
    let store = EmbeddedStore::open_with(place.path(), options()).expect("a store");
    (1..=25).for_each(|n| push_now(&store, n));
    ack_all(&store, 1);
    let kept = page(&store, Query::default());
    let ids: Vec<_> = kept.items.iter().map(|record| record.id).collect();
    assert_eq!(ids, (16..=25).map(id).collect::<Vec<_>>());
}

#[test]
fn a_finished_event_is_remembered_after_a_new_start() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    ack_all(&store, 1);
    drop(store);
    let store = place.open();
    let again = push(&store, event(1, When::Now, 3)).expect("a push");
    assert_eq!(
        again.verdict,
        duly::store::operation::PushOutcome::Duplicate(id(1))
    );
    assert_eq!(stats(&store), Default::default());
}

#[test]
fn an_updated_payload_is_the_one_that_is_delivered_also_after_a_new_start() {
    let place = Place::new();
    // Without a cache, so that the payload comes from the file.
    let options = || place.options().cache_bytes(0);
    let store = EmbeddedStore::open_with(place.path(), options()).expect("a store");
    push_now(&store, 1);
    let update = StoreOp::Update {
        id: id(1),
        payload: payload(99),
        by: None,
        dead_only: false,
    };
    assert!(matches!(ask(&store, update), Ok(Reply::Updated(_))));
    assert_eq!(fetch(&store, 1)[0].body.payload, payload(99));
    drop(store);
    let store = EmbeddedStore::open_with(place.path(), options()).expect("a store");
    assert_eq!(fetch(&store, 1)[0].body.payload, payload(99));
}

#[tokio::test]
async fn close_writes_what_nobody_waited_for() {
    let place = Place::new();
    let options = || EmbeddedOptions::new().reserve_bytes(4_096);
    let store = EmbeddedStore::open_with(place.path(), options()).expect("a store");
    let mut answers = Vec::new();
    for n in 1..=500 {
        answers.push(store.apply(&key(), StoreOp::Push(vec![event(n, When::Now, 1)])));
    }
    store.close().await.expect("a close");
    for answer in answers {
        answer.await.expect("it was decided before the close");
    }
    drop(store);
    let store = place.open();
    assert_eq!(stats(&store).scheduled, 500);
}
