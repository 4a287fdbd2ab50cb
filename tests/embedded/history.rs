//! Records, and what a close and a new start keep.

use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use duly::journal::Keep;
use duly::records::{MinuteQuery, MinuteStats, Outcome, Query};
use duly::store::operation::{AttemptOutcome, PushOutcome, Reply, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::{Clock, Timestamp, When};
use futures_util::FutureExt;

use crate::embedded::damage::{handle, history, meddle};
use crate::embedded::harness::*;

fn page(store: &EmbeddedStore, query: Query) -> duly::records::Page<duly::records::Record> {
    let page = duly::testing::records(store, query).now_or_never();
    page.expect("an inline store answers at once")
        .expect("a page")
}

/// Records stay for so long, and so many of them.
fn keep(store: &EmbeddedStore, age: Option<Duration>, count: u64) {
    let table = store.records().expect("it keeps its records");
    table.keep(Keep {
        age,
        count: Some(count),
        ..Keep::default()
    });
}

fn ack_all(store: &EmbeddedStore, request: u64) {
    for delivery in fetch(store, request) {
        assert!(settle(store, &delivery, AttemptOutcome::Ack).expect("a settle"));
    }
}

/// Pushes the `n`th event under an id of now: one of days ago is too old.
fn push_new(place: &Place, store: &EmbeddedStore, n: u64) {
    let mut new = event(n, When::Now, 3);
    let now = Timestamp::from_micros_up(place.clock.wall_us());
    Arc::make_mut(&mut new.envelope).id = EventId::from_parts(now, key().bucket, n);
    assert_eq!(verdict(store, new), PushOutcome::Accepted);
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
    let store = place.open();
    keep(&store, None, 10);
    (1..=25).for_each(|n| push_now(&store, n));
    let minute = Duration::from_secs(60);
    push(&store, event(26, minute.into(), 3)).expect("a push");
    ack_all(&store, 1);
    assert_eq!(history(&store), (16..=25).collect::<Vec<_>>());
    drop(store);
    // How many there are is known to a new start as well.
    let store = place.open();
    keep(&store, None, 5);
    place.clock.advance(minute);
    ack_all(&store, 2);
    assert_eq!(history(&store), (22..=26).collect::<Vec<_>>());
}

#[test]
fn a_lowered_bound_is_reached_in_steps() {
    let place = Place::new();
    let store = place.open();
    for batch in 0..2 {
        (1..=500).for_each(|n| push_now(&store, batch * 500 + n));
        ack_all(&store, batch + 1);
    }
    keep(&store, None, 100);
    let mut left = 1_000;
    for n in 1_001..=1_010 {
        handle(&store, n, 1);
        let now = count(&store);
        // A push and a settle, each of which removes some.
        assert!(left - now <= 402, "from {left} to {now}");
        left = now;
    }
    assert_eq!(left, 100);
}

fn count(store: &EmbeddedStore) -> u64 {
    let (mut count, mut after) = (0, None);
    loop {
        let found = page(
            store,
            Query {
                after,
                limit: Some(1_000),
                ..Query::default()
            },
        );
        count += found.items.len() as u64;
        after = found.next;
        if after.is_none() {
            return count;
        }
    }
}

/// An age counts back from the newest record; in an hour no more goes than two hours' worth.
#[test]
fn records_are_kept_for_so_long_and_no_clock_empties_the_store() {
    const HOUR: Duration = Duration::from_hours(1);
    let place = Place::new();
    let store = place.open();
    keep(&store, Some(4 * HOUR), 1_000);
    for n in 1..=10 {
        handle(&store, n, 1);
        place.clock.advance(HOUR);
    }
    assert_eq!(history(&store), (6..=10).collect::<Vec<_>>());
    // A clock that jumps ahead: all of it is too old, and most of it stays.
    place.clock.advance(1_000 * HOUR);
    push_new(&place, &store, 11);
    ack_all(&store, 11);
    let left = history(&store);
    assert!((3..=6).contains(&left.len()), "{left:?}");
}

/// An open writes records of attempts that a dead process left open, and nobody has said by then what
/// is kept.
#[test]
fn an_open_removes_nothing_before_it_is_known_what_is_kept() {
    const DAY: Duration = Duration::from_hours(24);
    let everything = Keep {
        age: None,
        count: None,
        minutes: None,
        at_once: true,
    };
    for (days, interrupted) in [40, 500]
        .into_iter()
        .flat_map(|days| [0, 1, 3].map(|it| (days, it)))
    {
        let place = Place::new();
        let store = place.open();
        store.records().expect("its records").keep(everything);
        handle(&store, 1, 10);
        place.clock.advance(days * DAY);
        push_new(&place, &store, 11);
        ack_all(&store, 11);
        let mut left: Vec<_> = (1..=11).collect();
        let mut minutes = vec![10, 1];
        drop(store);
        for request in 12..15 {
            let store = place.open();
            store.records().expect("its records").keep(everything);
            let more = 10 * request..10 * request + interrupted;
            more.clone().for_each(|n| push_new(&place, &store, n));
            for delivery in fetch(&store, request) {
                if more.contains(&delivery.id.entropy()) {
                    store.starting(&key().queue, &[&delivery]).expect("a note");
                }
            }
            drop(store);
            let store = place.open();
            left.extend(more);
            minutes[1] += interrupted;
            let case = format!("{days} days, {interrupted} interrupted");
            assert_eq!(history(&store), left, "{case}");
            assert_eq!(totals(&store), minutes, "{case}");
        }
    }
}

#[test]
fn a_damaged_count_of_records_removes_none_of_them() {
    let place = Place::new();
    let store = place.open();
    handle(&store, 1, 20);
    drop(store);
    meddle(&place, "UPDATE parts SET records = 1 << 60");
    let store = place.open();
    keep(&store, None, 50);
    handle(&store, 21, 5);
    assert_eq!(history(&store), (1..=25).collect::<Vec<_>>());
}

/// Minutes and records come with the outcome, and go with it where it is not written.
#[test]
fn counts_by_minute_are_those_of_the_records() {
    let place = Place::new();
    let store = place.open();
    handle(&store, 1, 5);
    place.clock.advance(Duration::from_secs(60));
    handle(&store, 6, 3);
    drop(store);
    let store = place.open();
    assert_eq!(totals(&store), [5, 3]);
}

fn totals(store: &EmbeddedStore) -> Vec<u64> {
    let table = store.records().expect("it keeps its records");
    let minutes = table.minutes(MinuteQuery::default()).now_or_never();
    let minutes = minutes.expect("ready").expect("minutes");
    minutes.iter().map(MinuteStats::total).collect()
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
