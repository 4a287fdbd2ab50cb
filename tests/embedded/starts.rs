//! A handler that kills its process has used an attempt; a lease alone has not.

use std::sync::Arc;
use std::time::Duration;

use duly::event::State;
use duly::records::{Cause, Outcome, Query, Record};
use duly::store::operation::{AttemptOutcome, Delivery, FailureReason, StartMark, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::{Clock, When};
use futures_util::FutureExt;

use crate::embedded::child::{self, Running};
use crate::embedded::harness::*;

fn note(store: &EmbeddedStore, deliveries: &[Delivery]) {
    let started: Vec<_> = deliveries.iter().collect();
    store.starting(&key().queue, &started).expect("a note");
}

/// How many notes there are in a file of them.
fn written(notes: &std::path::Path) -> usize {
    let bytes = std::fs::read(notes).expect("the notes");
    let (notes, _) = bytes.as_chunks::<32>();
    notes.iter().filter(|note| **note != [0; 32]).count()
}

fn records(store: &EmbeddedStore) -> Vec<Record> {
    let page = duly::testing::records(store, Query::default()).now_or_never();
    page.expect("ready").expect("a page").items
}

#[test]
fn a_handler_that_kills_its_process_uses_an_attempt_and_ends_as_a_dead_letter() {
    let place = Place::new();
    let store = place.open();
    push(&store, event(1, When::Now, 3)).expect("a push");
    drop(store);
    for tries in 1..=3 {
        let mut victim =
            Running::start(child::command("starts::dies_in_its_handler", &place.path()));
        victim.next("started").expect("its handler starts");
        victim.child.wait().expect("its end");
        let store = place.open();
        let state = if tries < 3 {
            State::Scheduled
        } else {
            State::Dead
        };
        let found = get(&store, 1).expect("it is kept");
        assert_eq!((found.state, found.tries), (state, tries));
        let records = records(&store);
        assert_eq!(records.len(), usize::from(tries));
        let last = records.last().expect("a record an attempt");
        assert_eq!((last.outcome, last.attempt), (Outcome::LeaseLost, tries));
    }
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn dies_in_its_handler() {
    let Some(path) = child::path() else { return };
    let place = Place::new();
    let store = EmbeddedStore::open_with(path, place.options()).expect("a store");
    let deliveries = fetch(&store, 1);
    assert_eq!(deliveries.len(), 1);
    note(&store, &deliveries);
    println!("started");
    std::process::abort();
}

#[test]
fn an_event_that_was_merely_leased_loses_nothing() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    assert_eq!(fetch(&store, 1).len(), 1);
    drop(store);
    let store = place.open();
    assert_eq!(get(&store, 1).expect("it is there").tries, 0);
    assert_eq!(fetch(&store, 1)[0].attempt, 1);
    assert_eq!(records(&store), []);
}

#[test]
fn an_attempt_is_counted_once_however_often_the_store_is_opened() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    note(&store, &fetch(&store, 1));
    let notes = place.directory.path().join("duly.db-starts");
    let kept = std::fs::read(&notes).expect("the notes");
    drop(store);
    for _ in 0..3 {
        // As if every start before had died before it cleared the notes.
        std::fs::write(&notes, &kept).expect("the notes");
        let store = place.open();
        assert_eq!(get(&store, 1).expect("it is there").tries, 1);
    }
}

#[test]
fn a_snoozed_attempt_is_not_counted() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    let deliveries = fetch(&store, 1);
    note(&store, &deliveries);
    let later = AttemptOutcome::Snooze(Duration::from_secs(60));
    assert!(settle(&store, &deliveries[0], later).expect("a settle"));
    drop(store);
    let store = place.open();
    assert_eq!(get(&store, 1).expect("it is there").tries, 0);
}

fn revive_op() -> StoreOp {
    StoreOp::Revive {
        ids: vec![id(1)],
        by: None,
    }
}

/// Fetches and starts event 1, and leaves it so.
fn begin(store: &EmbeddedStore, request: u64) -> Delivery {
    let mut deliveries = fetch(store, request);
    assert_eq!(deliveries.len(), 1);
    note(store, &deliveries);
    deliveries.remove(0)
}

fn bury(store: &EmbeddedStore, delivery: &Delivery) {
    let failing = FailureReason {
        cause: Cause::Failed,
        error: None,
    };
    let buried = settle(store, delivery, AttemptOutcome::Bury(failing));
    assert!(buried.expect("a settle"));
}

#[test]
fn what_an_event_did_before_its_revive_does_not_count_after_it() {
    let place = Place::new();
    let store = place.open();
    push(&store, event(1, When::Now, 2)).expect("a push");
    for request in 1..=2 {
        let delivery = begin(&store, request);
        let failing = FailureReason {
            cause: Cause::Failed,
            error: None,
        };
        let failed = match request {
            1 => AttemptOutcome::Retry(Duration::ZERO, failing),
            _ => AttemptOutcome::Bury(failing),
        };
        assert!(settle(&store, &delivery, failed).expect("a settle"));
        place.clock.advance(Duration::from_millis(5));
    }
    ask(&store, revive_op()).expect("a revive");
    begin(&store, 3);
    drop(store);
    let store = place.open();
    let found = get(&store, 1).expect("it is there");
    assert_eq!((found.state, found.tries), (State::Scheduled, 1));
    let outcomes: Vec<_> = records(&store).iter().map(|it| it.outcome).collect();
    use Outcome::{Buried, LeaseLost, Retried, Revived};
    assert_eq!(outcomes, [Retried, Buried, Revived, LeaseLost]);
}

#[test]
fn what_started_before_a_revive_is_over_although_its_record_is_damaged() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    bury(&store, &begin(&store, 1));
    place.clock.advance(Duration::from_millis(5));
    ask(&store, revive_op()).expect("a revive");
    drop(store);
    crate::embedded::damage::meddle(&place, "UPDATE records SET due = due + 1 WHERE number = 1");
    let store = place.open();
    assert_eq!(get(&store, 1).expect("it is there").tries, 0);
    let outcomes: Vec<_> = records(&store).iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Outcome::Revived]);
}

/// Its row is all that is left of it.
#[test]
fn the_record_of_an_attempt_that_died_with_its_process_tells_what_its_event_has_to_tell() {
    let place = Place::new();
    let store = place.open();
    push(&store, telling(1, 3)).expect("a push");
    begin(&store, 1);
    drop(store);
    let store = place.open();
    let record = records(&store).pop().expect("a record");
    assert_eq!(record.outcome, Outcome::LeaseLost);
    assert_eq!(record.payload, Some(payload(1)));
    assert_eq!(record.trace, telling(1, 3).envelope.trace());
}

/// Lets an event start by what `change` did, and takes the file back to before the change.
fn starts_by_what_was_never_written(place: &Place, change: StoreOp) -> EmbeddedStore {
    let data = place.path();
    let before = std::fs::read(&data).expect("a closed store is one file");
    let store = place.open();
    ask(&store, change).expect("a change");
    begin(&store, 7);
    let notes = place.directory.path().join("duly.db-starts");
    let begun = std::fs::read(&notes).expect("the notes");
    drop(store);
    std::fs::write(&data, before).expect("the file");
    std::fs::write(&notes, begun).expect("the notes");
    place.open()
}

#[test]
fn a_start_counts_although_the_revive_before_it_was_never_written() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    bury(&store, &begin(&store, 1));
    drop(store);
    place.clock.advance(Duration::from_millis(5));
    let store = starts_by_what_was_never_written(&place, revive_op());
    let found = get(&store, 1).expect("it is there");
    assert_eq!((found.state, found.tries), (State::Scheduled, 1));
    let last = records(&store).pop().expect("a record");
    assert_eq!((last.outcome, last.attempt), (Outcome::LeaseLost, 1));
}

#[test]
fn a_start_counts_although_the_reschedule_before_it_was_never_written() {
    let place = Place::new();
    let store = place.open();
    let hour = Duration::from_secs(3_600);
    push(&store, event(1, When::After(hour), 3)).expect("a push");
    drop(store);
    let now = StoreOp::Reschedule {
        id: id(1),
        when: When::Now,
    };
    let store = starts_by_what_was_never_written(&place, now);
    let found = get(&store, 1).expect("it is there");
    assert_eq!((found.tries, found.due), (1, START + hour));
    let last = records(&store).pop().expect("a record");
    assert_eq!((last.outcome, last.due), (Outcome::LeaseLost, START));
}

#[test]
fn half_a_note_is_no_note() {
    let place = Place::new();
    let store = place.open();
    (1..=2).for_each(|n| push_now(&store, n));
    note(&store, &fetch(&store, 1));
    let notes = place.directory.path().join("duly.db-starts");
    let mut bytes = std::fs::read(&notes).expect("the notes");
    drop(store);
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("a note");
    bytes.truncate((end + 1).next_multiple_of(32) - 5);
    std::fs::write(&notes, bytes).expect("the notes");
    let store = place.open();
    let tries = |n| get(&store, n).expect("it is there").tries;
    assert_eq!((tries(1), tries(2)), (1, 0));
}

#[test]
fn the_notes_do_not_grow_with_what_is_over() {
    let place = Place::new();
    let store = place.open();
    push(&store, event(1, When::Now, 3)).expect("a push");
    let first = fetch(&store, 1);
    note(&store, &first);
    // One long handler, and very many short ones beside it.
    for round in 2..=60_u64 {
        let batch: Vec<_> = (0..1_000)
            .map(|n| event(round * 1_000 + n, When::Now, 1))
            .collect();
        ask(&store, duly::store::operation::StoreOp::Push(batch)).expect("a push");
        let deliveries = fetch(&store, round);
        note(&store, &deliveries);
        let settlements = deliveries
            .iter()
            .map(|d| settlement(d, AttemptOutcome::Ack))
            .collect();
        ask(
            &store,
            duly::store::operation::StoreOp::Settle {
                node: NODE,
                settlements,
                started: StartMark::default(),
            },
        )
        .expect("a settle");
    }
    let notes = place.directory.path().join("duly.db-starts");
    let len = std::fs::metadata(notes).expect("the notes").len();
    assert!(
        len < 300_000,
        "{len} bytes of notes for one running handler"
    );
    drop(store);
    let store = place.open();
    assert_eq!(get(&store, 1).expect("it is there").tries, 1);
}

#[tokio::test]
async fn an_attempt_stays_noted_while_the_outcome_of_the_one_before_is_written() {
    let place = Place::new();
    let options = place.options();
    drop(place.open());
    let threaded = EmbeddedOptions::new().clock(Arc::clone(&place.clock) as Arc<dyn Clock>);
    let store = EmbeddedStore::open_with(place.path(), threaded.reserve_bytes(4_096));
    let store = store.expect("a store");
    let ask = |op| store.apply(&key(), op);
    ask(StoreOp::Push(vec![event(1, When::Now, 3)]))
        .await
        .expect("a push");
    let opened = &store;
    let begin = |request| async move {
        ask(StoreOp::MoveDue {
            limit: 10,
            calls: false,
        })
        .await
        .expect("a move");
        let fetched = StoreOp::fetch(fetch_of(request))
            .apply(opened, &key())
            .await;
        fetched.expect("a fetch").deliveries
    };
    let first = begin(1).await;
    note(&store, &first);
    let failing = FailureReason {
        cause: Cause::Failed,
        error: None,
    };
    let settled = ask(StoreOp::Settle {
        node: NODE,
        settlements: vec![settlement(
            &first[0],
            AttemptOutcome::Retry(Duration::ZERO, failing),
        )],
        started: StartMark::default(),
    });
    // Decided, and not yet on disk.
    let second = begin(2).await;
    note(&store, &second);
    settled.await.expect("a settle");
    let mut nobody = second[0].clone();
    nobody.id = id(99);
    let notes = place.directory.path().join("duly.db-starts");
    let before = written(&notes);
    for _ in 0..10 {
        note(&store, &vec![nobody.clone(); 1_000]);
    }
    assert!(
        written(&notes) < before + 10_000,
        "the notes were written anew"
    );
    drop(store);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    assert_eq!(get(&store, 1).expect("it is there").tries, 2);
}

#[test]
fn a_lease_that_its_holder_released_is_not_counted() {
    let place = Place::new();
    let store = place.open();
    (1..=3).for_each(|n| push_now(&store, n));
    for request in 1..=2 {
        let deliveries = fetch(&store, request);
        note(&store, &deliveries);
        for delivery in &deliveries {
            assert!(settle(&store, delivery, AttemptOutcome::Release).expect("a settle"));
        }
    }
    // The second of three is leased once more, and runs when the process ends.
    let again = fetch(&store, 3);
    note(&store, &again[1..2]);
    drop(store);
    let store = place.open();
    let tries = |event: usize| get(&store, event as u64 + 1).expect("it is there").tries;
    let ran = (0..3).find(|event| again[1].id == id(*event as u64 + 1));
    let counted: Vec<_> = (0..3).filter(|event| tries(*event) == 1).collect();
    assert_eq!(counted, [ran.expect("one of them")]);
}

#[test]
fn a_repeated_release_does_not_hand_back_the_lease_after_it() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    let released = begin(&store, 1);
    let release = || settle(&store, &released, AttemptOutcome::Release).expect("a settle");
    assert!(release());
    begin(&store, 2);
    release();
    drop(store);
    let store = place.open();
    assert_eq!(get(&store, 1).expect("it is there").tries, 1);
}
