//! Bodies that cannot be read while the store is open: for a moment, or for good.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::ErrorKind;
use duly::store::EmbeddedStore;
use duly::store::operation::{Fetch, Reply, StoreOp};

use crate::embedded::damage::{damaged, is_said_well};
use crate::embedded::full::big;
use crate::embedded::harness::*;
use crate::embedded::subscriber::AtEachLine;

/// A store that reads each body from its file.
fn without_a_cache(place: &Place) -> EmbeddedStore {
    let options = place.options().cache_bytes(0);
    EmbeddedStore::open_with(place.path(), options).expect("a store")
}

/// Somebody else at the file, while a store has it open.
fn execute(place: &Place, sql: &str) {
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    file.execute_batch(sql).expect("it is done");
}

#[test]
fn a_subscriber_may_ask_the_store_that_tells_it_of_damage() {
    let place = Place::new();
    let store = Arc::new(without_a_cache(&place));
    (1..=3).for_each(|n| push_now(&store, n));
    execute(
        &place,
        "UPDATE events SET body = zeroblob(100) WHERE row = 2",
    );
    let leased = Arc::new(AtomicUsize::new(0));
    let asks = (Arc::downgrade(&store), Arc::clone(&leased));
    let _heard = AtEachLine::call(move || {
        if let Some(store) = asks.0.upgrade() {
            let leased = stats(&store).leased; // for ever, under the lock of its bucket
            asks.1.store(leased, Ordering::Relaxed);
        }
    });
    let delivered: Vec<_> = fetch(&store, 1).iter().map(|it| it.id).collect();
    assert_eq!(delivered, [id(1), id(3)]);
    assert_eq!(
        leased.load(Ordering::Relaxed),
        2,
        "it was asked, and the damaged one is gone"
    );
}

#[test]
fn a_fetch_whose_bodies_could_not_be_read_is_unknown_and_its_repeat_returns_the_events() {
    let place = Place::new();
    let store = without_a_cache(&place);
    (1..=3).for_each(|n| push_now(&store, n));
    ask(
        &store,
        StoreOp::MoveDue {
            limit: 9,
            calls: false,
        },
    )
    .expect("a move");
    let fetch = || {
        let hold = Some(Duration::from_secs(60));
        let fetch = Fetch {
            hold,
            ..fetch_of(1)
        };
        ask(&store, StoreOp::Fetch(fetch))
    };
    execute(&place, "ALTER TABLE events RENAME TO away");
    let error = fetch().expect_err("there are no bodies");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    // Nothing of a look happened.
    let error = ask(&store, StoreOp::Get { id: id(1) }).expect_err("there is no body");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    execute(&place, "ALTER TABLE away RENAME TO events");
    let Reply::Fetched(fetched) = fetch().expect("a fetch") else {
        panic!("no fetch")
    };
    let fetched = fetched.deliveries.iter();
    let fetched: Vec<_> = fetched.map(|one| (one.id, one.attempt)).collect();
    assert_eq!(fetched, [1, 2, 3].map(|n| (id(n), 1)));
}

/// Else its bucket would ask for the same page for ever.
#[test]
fn a_page_that_cannot_be_read_stops_the_store() {
    let place = Place::new();
    let store = without_a_cache(&place);
    for n in 1..=3 {
        push(&store, big(n)).expect("a push");
    }
    execute(&place, "PRAGMA wal_checkpoint(TRUNCATE)");
    // The second event goes on in a page that says which one is next.
    let bytes = fs::read(place.path()).expect("the file");
    let is_its = |page: &[u8]| page[4..].iter().all(|byte| *byte == 2);
    let page = bytes.chunks(4_096).position(is_its).expect("a page of it");
    let mut file = OpenOptions::new()
        .write(true)
        .open(place.path())
        .expect("the file");
    file.seek(SeekFrom::Start(page as u64 * 4_096))
        .expect("its page");
    file.write_all(&[0xff; 4]).expect("a change");

    let error = try_fetch(&store, 1).expect_err("it has a damaged page");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(error.to_string().contains("stopped itself"), "{error}");
    let error = try_fetch(&store, 1).expect_err("it has stopped");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    drop(store);
    is_said_well(&place.open_error(), "a damaged page");
}

/// Each operation ends leases that are past their deadline; one that is damaged is in the way of none.
#[test]
fn a_lease_past_its_deadline_of_a_damaged_row_is_in_the_way_of_nothing() {
    for (attempts, damage) in [
        (1, "UPDATE events SET body = zeroblob(100) WHERE row = 2"),
        (3, "UPDATE events SET body = zeroblob(100) WHERE row = 2"),
    ] {
        let place = Place::new();
        let store = without_a_cache(&place);
        for n in 1..=3 {
            push(&store, telling(n, attempts)).expect("a push");
        }
        let hold = Some(Duration::from_secs(5));
        let fetch_one = Fetch {
            hold,
            ..fetch_of(1)
        };
        ask(&store, StoreOp::Fetch(fetch_one)).expect("a fetch");
        execute(&place, damage);
        place.clock.advance(Duration::from_secs(5));
        let counts = stats(&store);
        let dead = if attempts == 1 { 3 } else { 0 };
        assert_eq!(
            (counts.ready, counts.dead, counts.leased),
            (3 - dead, dead, 0),
            "{damage}"
        );
        ask(
            &store,
            StoreOp::ReadDead {
                after: None,
                limit: 9,
            },
        )
        .expect("a page");
        ask(
            &store,
            StoreOp::MoveDue {
                limit: 9,
                calls: false,
            },
        )
        .expect("a move");
        assert!(get(&store, 2).is_some(), "{damage}");
        push_now(&store, 4);
        let delivered: Vec<_> = fetch(&store, 2).iter().map(|it| it.id).collect();
        let expected = if attempts == 1 {
            vec![id(4)]
        } else {
            vec![id(1), id(3), id(4)]
        };
        assert_eq!(delivered, expected, "{damage}");
        let is_listed = !damaged(&store).is_empty();
        assert!(is_listed || attempts == 1, "{damage}");
        drop(store);
        // At the latest by a start: nothing that is damaged is believed.
        assert!(!damaged(&place.open()).is_empty(), "{damage}");
    }
}
