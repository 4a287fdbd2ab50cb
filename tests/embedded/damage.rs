//! Damaged bytes are found, never delivered; everything else goes on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use duly::ErrorKind;
use duly::store::operation::{AttemptOutcome, PushOutcome};
use duly::store::{DamagedRow, EmbeddedStore, Setting, Store};
use duly::time::When;
use futures_util::FutureExt;

use crate::embedded::harness::*;

pub(crate) fn damaged(store: &EmbeddedStore) -> Vec<DamagedRow> {
    let listed = store.damaged().now_or_never();
    listed
        .expect("an inline store answers at once")
        .expect("a list")
}

/// Somebody else at the file, while no store has it open.
pub(crate) fn meddle(place: &Place, sql: &str) {
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    assert_eq!(file.execute(sql, []).expect("a change"), 1);
}

/// What `sql` did to the second of three events; the other two must not notice.
fn one_of_three_is_damaged_by(sql: &str) {
    let place = Place::new();
    let store = place.open();
    (1..=3).for_each(|n| push_now(&store, n));
    drop(store);
    meddle(&place, sql);
    let store = place.open();
    let found = damaged(&store);
    assert!(!found.is_empty(), "{sql}");
    let delivered: Vec<_> = fetch(&store, 1).iter().map(|d| d.id).collect();
    assert_eq!(delivered, [id(1), id(3)], "{sql}");
    drop(store);
    // It was set aside once, and stays listed.
    let store = place.open();
    assert_eq!(damaged(&store), found, "{sql}");
}

#[test]
fn a_damaged_row_is_set_aside_and_the_others_go_on() {
    one_of_three_is_damaged_by("UPDATE events SET body = zeroblob(100) WHERE row = 2");
    one_of_three_is_damaged_by(
        "UPDATE events SET body = CAST(body || x'00' AS BLOB) WHERE row = 2",
    );
    one_of_three_is_damaged_by("UPDATE events SET due = due - 1 WHERE row = 2");
    one_of_three_is_damaged_by("UPDATE events SET tries = 1 WHERE row = 2");
    one_of_three_is_damaged_by("UPDATE events SET dead = 7 WHERE row = 2");
    one_of_three_is_damaged_by("UPDATE events SET row = 9 WHERE row = 2");
}

#[test]
fn what_was_set_of_a_queue_is_not_believed_when_it_is_damaged() {
    let place = Place::new();
    let store = place.open();
    for queue in ["one", "two"] {
        let queue = queue.parse().expect("a legal name");
        let set = store.set(&queue, Setting::Rate(Some(7.0))).now_or_never();
        set.expect("ready").expect("it is set");
    }
    drop(store);
    meddle(
        &place,
        "UPDATE controls SET rate = 70.0 WHERE queue = 'one'",
    );
    let store = place.open();
    let controls = store.controls().now_or_never();
    let controls = controls.expect("ready").expect("they can be read");
    assert_eq!(
        controls
            .keys()
            .map(|queue| queue.as_str())
            .collect::<Vec<_>>(),
        ["two"]
    );
    assert!(damaged(&store)[0].why.contains("one"));
    drop(store);
    assert_eq!(damaged(&place.open()).len(), 1, "it is found once");
}

#[test]
fn a_unique_key_that_stayed_taken_is_not_believed_when_it_is_damaged() {
    let place = Place::new();
    let store = place.open();
    push(&store, unique(1)).expect("a push");
    let delivery = fetch(&store, 1).remove(0);
    assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
    drop(store);
    // Also where the damage is in what names its row.
    for change in ["until = until + 1", "queue = CAST(x'ff' AS TEXT)"] {
        let found = damaged(&place.open()).len();
        meddle(&place, &format!("UPDATE uniques SET {change}"));
        let store = place.open();
        assert_eq!(damaged(&store).len(), found + 1);
        let n = 2 + found as u64;
        end(&store, unique(n)); // the key is free, and is taken again
        drop(store);
        assert_eq!(damaged(&place.open()).len(), found + 1, "it is found once");
    }
}

#[test]
fn a_row_that_vanished_is_noticed() {
    one_of_three_is_damaged_by("DELETE FROM events WHERE row = 2");
}

#[test]
fn damage_that_happens_while_the_store_is_open_is_never_delivered() {
    let place = Place::new();
    let options = place.options().cache_bytes(0);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    (1..=3).for_each(|n| push_now(&store, n));
    meddle(
        &place,
        "UPDATE events SET body = zeroblob(100) WHERE row = 2",
    );
    assert!(get(&store, 2).expect("it is still there").body.is_none());
    let delivered: Vec<_> = fetch(&store, 1).iter().map(|d| d.id).collect();
    assert_eq!(delivered, [id(1), id(3)]);
    assert_eq!(damaged(&store).len(), 1);
    assert_eq!(stats(&store).leased, 2);
    drop(store);
    let store = place.open();
    assert_eq!(stats(&store).ready, 2);
    assert_eq!(damaged(&store).len(), 1);
}

#[test]
fn an_envelope_in_the_row_of_another_event_is_never_delivered() {
    let swap = "UPDATE events SET body = (SELECT body FROM events WHERE row = 1) WHERE row = 2";
    one_of_three_is_damaged_by(swap);
    let place = Place::new();
    let options = place.options().cache_bytes(0);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    (1..=3).for_each(|n| push_now(&store, n));
    meddle(&place, swap);
    for delivery in fetch(&store, 1) {
        assert_eq!(delivery.body.id, delivery.id);
        assert_eq!(delivery.body.payload, payload(delivery.id.entropy()));
    }
    assert_eq!(damaged(&store).len(), 1);
}

/// A flipped bit made one row's number that of its neighbour, and the wrong one was found.
#[test]
fn two_rows_of_one_number_are_not_taken_for_each_other() {
    let place = Place::new();
    let events = small_store(&place);
    let bytes = fs::read(place.path()).expect("the file");
    let mut flips = 0;
    for n in events.keys() {
        // In its leaf a row begins with its length, then its number, both in a byte each.
        let envelope = id(*n).to_bytes();
        let mut found = bytes.windows(16).enumerate();
        let Some((at, _)) = found.find(|(_, window)| *window == envelope) else {
            panic!("event {n} is not in the file");
        };
        let number = *n as u8; // rows are numbered in order of arrival, from one
        let Some(cell) = bytes[at - 48..at].iter().rposition(|byte| *byte == number) else {
            continue;
        };
        for bit in 0..6 {
            let copy = copy_with(&bytes, |bytes| bytes[at - 48 + cell] ^= 1 << bit);
            check(
                &copy,
                &events,
                &format!("bit {bit} of the number of event {n}"),
            );
            flips += 1;
        }
    }
    assert!(flips > 100, "{flips} numbers were found");
}

#[test]
fn a_damaged_record_is_not_history() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    let delivery = fetch(&store, 1).remove(0);
    assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
    drop(store);
    meddle(&place, "UPDATE records SET outcome = 6");
    let store = place.open();
    let page = duly::testing::records(&store, Default::default()).now_or_never();
    assert_eq!(page.expect("ready").expect("a page").items, []);
}

#[test]
fn a_name_that_is_no_text_any_more_keeps_no_store_from_opening() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    let queue = "one".parse().expect("a legal name");
    let set = store.set(&queue, Setting::Paused(true)).now_or_never();
    set.expect("ready").expect("it is set");
    drop(store);
    meddle(
        &place,
        "UPDATE controls SET queue = CAST(x'ff6e65' AS TEXT)",
    );
    let store = place.open();
    let controls = store.controls().now_or_never().expect("ready");
    assert!(controls.expect("they can be read").is_empty());
    let found = damaged(&store).len();
    assert!(found > 0);
    assert_eq!(fetch(&store, 1).len(), 1);
    drop(store);
    assert_eq!(damaged(&place.open()).len(), found, "it is found once");
}

/// Handles `many` events.
pub(crate) fn handle(store: &EmbeddedStore, from: u64, many: u64) {
    for n in from..from + many {
        push_now(store, n);
        let delivery = fetch(store, n).remove(0);
        assert!(settle(store, &delivery, AttemptOutcome::Ack).expect("a settle"));
    }
}

pub(crate) fn history(store: &EmbeddedStore) -> Vec<u64> {
    let page = duly::testing::records(store, Default::default()).now_or_never();
    let page = page.expect("ready").expect("a page");
    page.items.iter().map(|it| it.id.entropy()).collect()
}

/// Whatever the number of a record has become, those after it are written, those before it are
/// read, and what is over is still known to be.
#[test]
fn a_damaged_number_of_a_record_costs_that_record_alone() {
    for (old, new) in [
        (3, 1_i64 << 50),
        (3, i64::MAX),
        (1, i64::MIN),
        (1, -1),
        (2, 0),
    ] {
        let place = Place::new();
        let store = place.open();
        handle(&store, 1, 3);
        drop(store);
        meddle(
            &place,
            &format!("UPDATE records SET number = {new} WHERE number = {old}"),
        );
        let store = place.open();
        handle(&store, 4, 3);
        let mut expected = vec![1, 2, 3, 4, 5, 6];
        expected.retain(|number| *number != old);
        assert_eq!(history(&store), expected, "{old} became {new}");
        let kept = if old == 1 { 2 } else { 1 };
        let again = push(&store, event(kept, When::Now, 3)).expect("an answer");
        assert_eq!(again.verdict, PushOutcome::Duplicate(id(kept)));
        drop(store);
        assert_eq!(history(&place.open()), expected, "{old} became {new}");
    }
}

/// Events of a small file, and what each of them is.
fn small_store(place: &Place) -> BTreeMap<u64, When> {
    let store = place.open();
    let mut events = BTreeMap::new();
    for n in 1..=40 {
        let when = When::from(Duration::from_secs(n % 4 * 60));
        push(&store, event(n, when, 3)).expect("a push");
        events.insert(n, when);
    }
    for delivery in fetch(&store, 1).into_iter().take(3) {
        assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
        events.remove(&delivery.id.entropy());
    }
    events
}

/// Whether a store, whatever was done to its file, tells no lie: what it delivers is what was
/// pushed, when it is due, and what is missing is reported.
fn check(place: &Place, events: &BTreeMap<u64, When>, case: &str) {
    let store = match place.try_open() {
        Ok(store) => store,
        Err(error) => return is_said_well(&error, case), // found at once
    };
    let mut left = events.clone();
    for minutes in 0..4 {
        let Ok(deliveries) = try_fetch(&store, minutes + 1) else {
            return; // it stopped itself, and said so
        };
        for delivery in deliveries {
            let n = delivery.id.entropy();
            let when = left.remove(&n);
            let Some(when) = when else {
                panic!("{case}: event {n} was delivered, which was over or never was");
            };
            assert_eq!(delivery.body.payload, payload(n), "{case}: event {n}");
            let delay = match when {
                When::After(delay) => delay,
                _ => Duration::ZERO,
            };
            assert_eq!(delivery.due, START + delay, "{case}: event {n}");
            assert!(
                delay.as_secs() <= minutes * 60,
                "{case}: event {n} is early"
            );
        }
        place.clock.advance(Duration::from_secs(60));
    }
    // A list that cannot be read is not silence either.
    let listed = store.damaged().now_or_never();
    let listed = listed.expect("an inline store answers at once");
    let silent = listed.is_ok_and(|damaged| damaged.is_empty());
    assert!(
        left.is_empty() || !silent,
        "{case}: {left:?} vanished in silence"
    );
}

/// A file that is refused is called damaged, and whoever reads that is told what to do.
pub(crate) fn is_said_well(error: &duly::Error, case: &str) {
    let words = error.to_string();
    let advice = [
        "restore it",
        "recover it",
        "name another file",
        "name a file",
        "upgrade duly",
    ];
    let advised = advice.iter().any(|advice| words.contains(advice));
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{case}: {words}");
    assert!(advised, "{case}: {words}");
}

/// A place with the same file, changed by `change`; in memory, as nothing here is about syncing.
pub(crate) fn copy_with(bytes: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Place {
    let memory = Path::new("/dev/shm");
    let place = Place {
        directory: if memory.is_dir() {
            tempfile::tempdir_in(memory).expect("a directory")
        } else {
            tempfile::tempdir().expect("a directory")
        },
        clock: Hand::at(START),
    };
    let mut bytes = bytes.to_vec();
    change(&mut bytes);
    fs::write(place.path(), bytes).expect("a copy");
    place
}

/// Which of so many bits are flipped: `DULY_FLIPS` says how many by chance, or `all`, or `bytes` for
/// one by chance of each byte.
pub(crate) fn bits_to_flip(bits: usize) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(11);
    match std::env::var("DULY_FLIPS").as_deref() {
        Ok("all") => (0..bits).collect(),
        Ok("bytes") => (0..bits / 8).map(|at| at * 8 + random.usize(..8)).collect(),
        flips => {
            let flips = flips.map_or(400, |flips| flips.parse().expect("a number or a word"));
            (0..flips).map(|_| random.usize(..bits)).collect()
        }
    }
}

#[test]
fn no_flipped_bit_delivers_a_wrong_payload_or_loses_an_event_in_silence() {
    let place = Place::new();
    let events = small_store(&place);
    let bytes = fs::read(place.path()).expect("the file");
    let bits = bytes.len() * 8;
    for bit in bits_to_flip(bits) {
        let copy = copy_with(&bytes, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        check(&copy, &events, &format!("bit {bit} of {bits}"));
    }
}

#[test]
fn a_data_file_cut_anywhere_is_noticed() {
    let place = Place::new();
    let events = small_store(&place);
    let bytes = fs::read(place.path()).expect("the file");
    let odd = (1..bytes.len()).step_by(977);
    let pages = (1..bytes.len() / 4_096).map(|page| page * 4_096);
    for len in odd.chain(pages) {
        let copy = copy_with(&bytes, |bytes| bytes.truncate(len));
        check(&copy, &events, &format!("cut to {len} of {}", bytes.len()));
    }
}
