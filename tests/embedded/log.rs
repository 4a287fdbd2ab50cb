//! The log that is left behind when the power goes: what it holds is there, or its damage is found.

use std::fs;

use duly::store::{EmbeddedOptions, EmbeddedStore};

use crate::embedded::damage::{bits_to_flip, copy_with, is_said_well};
use crate::embedded::harness::*;

/// A reserve with which no test's log is copied.
const LARGE: u64 = 16 << 20;
/// One with which it is soon.
const SMALL: u64 = 4_096;

fn with_reserve(place: &Place, reserve: u64) -> EmbeddedStore {
    let options = place.options().reserve_bytes(reserve);
    EmbeddedStore::open_with(place.path(), options).expect("a store")
}

/// The data file and the log of a store that pushed so many events, one a transaction, and whose
/// power went then.
fn left_by(events: u64, reserve: u64) -> (Vec<u8>, Vec<u8>) {
    let place = Place::new();
    let store = with_reserve(&place, reserve);
    (1..=events).for_each(|n| push_now(&store, n));
    let read = |suffix: &str| {
        let name = format!("duly.db{suffix}");
        fs::read(place.directory.path().join(name)).expect("a file")
    };
    (read(""), read("-wal"))
}

/// The store on copies of both, and where they lie.
fn open(data: &[u8], log: &[u8]) -> duly::Result<(EmbeddedStore, Place)> {
    let copy = copy_with(data, |_| {});
    fs::write(copy.directory.path().join("duly.db-wal"), log).expect("a log");
    let options = EmbeddedOptions::inline().clock(copy.clock.clone());
    let store = EmbeddedStore::open_with(copy.path(), options.reserve_bytes(0))?;
    Ok((store, copy))
}

/// How many events there are; they must be the first that were pushed, as they were pushed.
fn first_of(store: &EmbeddedStore, case: &str) -> usize {
    let deliveries = fetch(store, 1);
    for (delivery, n) in deliveries.iter().zip(1..) {
        assert_eq!(delivery.id, id(n), "{case}");
        assert_eq!(delivery.body.payload, payload(n), "{case}");
    }
    deliveries.len()
}

#[test]
fn a_log_cut_anywhere_loses_the_youngest_events_and_nothing_else() {
    let (data, log) = left_by(40, LARGE);
    let mut seen = Vec::new();
    for len in (0..=log.len()).step_by(4_001).chain([log.len()]) {
        let Ok((store, _place)) = open(&data, &log[..len]) else {
            continue; // not even the tables were there: found at once
        };
        seen.push(first_of(&store, &format!("cut to {len}")));
    }
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(seen.last(), Some(&40), "the whole log has everything");
}

/// How many events make a store copy its log into the file, just after the last of them.
fn until_it_is_copied() -> u64 {
    let place = Place::new();
    let store = with_reserve(&place, SMALL);
    let len = || fs::metadata(place.path()).expect("the file").len();
    let (before, mut events) = (len(), 0);
    while len() == before {
        events += 1;
        assert!(events < 1_000, "the log is never copied");
        push_now(&store, events);
    }
    events
}

/// Only within the last transaction nobody can tell rot from a power cut.
fn costs_at_most_the_last_transaction(events: u64, reserve: u64) {
    let (data, log) = left_by(events, reserve);
    let (_, shorter) = left_by(events - 1, reserve);
    let last = shorter.len();
    let mut found = 0;
    let last_bits = (last..log.len()).step_by(61).map(|byte| byte * 8 + 3);
    let header = 0..32 * 8;
    let bits = bits_to_flip(log.len() * 8)
        .into_iter()
        .chain(header)
        .chain(last_bits);
    for bit in bits {
        let mut log = log.clone();
        log[bit / 8] ^= 1 << (bit % 8);
        let case = format!("{events} events, byte {} of {last} and more", bit / 8);
        match open(&data, &log) {
            Ok((store, _place)) => {
                let there = first_of(&store, &case) as u64;
                let lost_last = bit / 8 >= last && there == events - 1;
                assert!(lost_last || there == events, "{case}: {there} events");
            }
            Err(error) => {
                is_said_well(&error, &case);
                found += 1;
            }
        }
    }
    assert!(found > 200, "{found} were found");
}

#[test]
fn a_flipped_bit_in_the_log_costs_at_most_the_last_transaction_or_is_found() {
    costs_at_most_the_last_transaction(12, LARGE);
}

#[test]
fn a_flipped_bit_in_a_log_that_was_copied_costs_at_most_the_last_transaction_or_is_found() {
    costs_at_most_the_last_transaction(until_it_is_copied(), SMALL);
}

/// The first transaction is the one that makes the tables; a log of nothing else is one, too.
#[test]
fn a_log_whose_header_is_gone_is_found() {
    for events in [0, 3] {
        let (data, mut log) = left_by(events, LARGE);
        log[12..16].fill(0xFF); // what it says of its rounds; its sum does not hold any more
        let error = open(&data, &log).err().expect("it was synced");
        is_said_well(&error, "the header");
    }
}

/// A process may die, or the power go, while the header of the next round is written.
#[test]
fn a_header_that_was_half_written_when_a_copied_log_began_anew_costs_nothing() {
    let events = until_it_is_copied();
    let (data, old) = left_by(events, SMALL);
    let round = u32::from_be_bytes(old[12..16].try_into().expect("four bytes"));
    let salt = u32::from_be_bytes(old[16..20].try_into().expect("four bytes"));
    let mut new = old[..32].to_vec();
    new[12..16].copy_from_slice(&(round + 1).to_be_bytes());
    new[16..20].copy_from_slice(&salt.wrapping_add(1).to_be_bytes());
    new[20..].fill(0x5A);
    for len in 0..=32 {
        let mut log = old.clone();
        log[..len].copy_from_slice(&new[..len]);
        let case = format!("{len} bytes of the new header");
        let (store, _place) = open(&data, &log).expect(&case);
        assert_eq!(first_of(&store, &case) as u64, events, "{case}");
    }
}
