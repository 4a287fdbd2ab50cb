//! What an account of processes finds, and what it must not complain about.
//!
//! Each promise that a history can break is broken here by one line too many, too few, or wrong.

use duly::event::State as EventState;
use duly::records::Outcome;
use duly::time::Timestamp;
use duly_conformance::history::{ClientChecker, Entry, EntryKind, Promise, PushResult};

use crate::history::kit::{
    answered, asked, cancel_told, entry, found, good, id, recorded, report, started,
};

#[test]
fn a_history_that_fits_is_clean_and_counted() {
    let report = report(&good());
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.pushed, report.answered), (1, 1));
    assert_eq!((report.handled, report.starts), (1, 2));
    assert_eq!((report.handled_again, report.leases_lost), (1, 0));
}

/// What is found in a history.
fn broken(entries: &[Entry]) -> Promise {
    let report = report(entries);
    assert!(!report.is_clean());
    assert_eq!(report.broken.len(), 1, "{report}");
    report.broken[0].promise
}

/// The good history with one entry changed.
fn with(at: usize, entry: Entry) -> Vec<Entry> {
    let mut entries = good();
    entries[at] = entry;
    entries
}

#[test]
fn an_accepted_event_of_which_nothing_is_known_is_lost() {
    let report = report(&[asked(), answered(PushResult::Accepted)]);
    assert_eq!((report.lost, report.unaccounted), (1, 0));
    assert_eq!(report.broken[0].promise, Promise::Accepted);
}

#[test]
fn an_event_that_never_ends_is_unaccounted() {
    let mut entries = good();
    entries.truncate(5);
    entries.remove(3);
    assert_eq!(broken(&entries), Promise::Accepted);
}

#[test]
fn a_start_before_the_due_time_is_early() {
    let entries = with(2, started(9, 1));
    assert_eq!(broken(&entries), Promise::NeverEarly);
    assert_eq!(report(&entries).early, 1);
}

#[test]
fn a_delivery_of_what_the_store_has_lost_is_not_early_for_the_push_that_came_after() {
    let mut entries = good();
    let due = Some(Timestamp::from_millis(20));
    let again = EntryKind::PushAnswered {
        verdict: PushResult::Accepted,
        payload: 5,
        due,
    };
    entries.insert(2, entry(9, again));
    assert_eq!(report(&entries).early, 0);
    let still = EntryKind::PushAnswered {
        verdict: PushResult::Duplicate,
        payload: 5,
        due,
    };
    entries[2] = entry(9, still);
    assert_eq!(report(&entries).early, 1);
}

#[test]
fn a_start_after_a_confirmed_cancel_is_a_lie() {
    let mut entries = good();
    entries.insert(2, cancel_told());
    assert_eq!(broken(&entries), Promise::Truth);
}

#[test]
fn a_cancelled_event_that_ends_as_something_else_is_a_lie() {
    let mut entries = good();
    entries.insert(6, cancel_told());
    assert_eq!(broken(&entries), Promise::Truth);
}

#[test]
fn one_attempt_more_than_allowed_is_too_many() {
    let mut entries = good();
    entries.insert(4, started(50, 3));
    entries.insert(6, recorded(3, Outcome::Retried));
    assert_eq!(broken(&entries), Promise::Attempts);
}

#[test]
fn two_records_of_one_attempt_are_one_too_many() {
    let mut entries = good();
    entries.insert(4, recorded(1, Outcome::Retried));
    assert_eq!(broken(&entries), Promise::Attempts);
}

#[test]
fn a_start_without_a_record_and_a_record_without_a_start_do_not_fit() {
    let mut entries = good();
    entries.remove(4);
    assert_eq!(broken(&entries), Promise::Records);
    let mut entries = good();
    entries.remove(3);
    assert_eq!(broken(&entries), Promise::Records);
}

#[test]
fn a_state_that_is_not_what_the_last_record_says_does_not_fit() {
    assert_eq!(broken(&with(6, found(EventState::Dead))), Promise::Records);
}

#[test]
fn two_starts_under_one_lease_are_one_too_many() {
    let mut entries = good();
    entries.insert(3, started(11, 1));
    assert_eq!(broken(&entries), Promise::LostWorkers);
}

#[test]
fn a_refused_push_that_happened_was_not_refused() {
    assert_eq!(
        broken(&with(1, entry(2, EntryKind::PushRefused))),
        Promise::Doubt
    );
}

#[test]
fn what_nobody_pushed_must_not_happen() {
    assert_eq!(broken(&good()[2..]), Promise::Doubt);
}

#[test]
fn a_push_without_an_answer_may_or_may_not_have_happened() {
    let unknown = entry(2, EntryKind::Unknown);
    assert!(report(&[asked(), unknown]).is_clean());
    assert!(report(&with(1, unknown)).is_clean());
    let mut account = ClientChecker::new();
    account.read(&asked());
    account.read(&unknown);
    assert_eq!(account.open().collect::<Vec<_>>(), [(id(), 5, 2)]);
}

#[test]
fn what_a_store_may_forget_is_counted_and_not_held_against_it() {
    let entries = [asked(), answered(PushResult::Accepted)];
    let mut account = ClientChecker::new().allow_lost_tail();
    entries.iter().for_each(|entry| account.read(entry));
    let report = account.close();
    assert_eq!((report.lost, report.broken.len()), (1, 0));
}
