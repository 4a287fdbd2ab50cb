//! Releases: a power cut may take the note of one, and a subscriber may hear that it failed.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use duly::store::Store;
use duly::store::operation::{AttemptOutcome, StoreOp};
use duly::time::When;

use crate::embedded::harness::*;
use crate::embedded::subscriber::AtEachLine;

#[test]
fn an_event_that_was_rescheduled_is_not_early_though_its_release_was_lost() {
    let week = Duration::from_secs(7 * 24 * 3_600);
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    let leased = fetch(&store, 1).remove(0);
    store.starting(&key().queue, &[&leased]).expect("a note");
    let notes = place.directory.path().join("duly.db-starts");
    let synced = std::fs::read(&notes).expect("the notes");
    assert!(settle(&store, &leased, AttemptOutcome::Release).expect("a release"));
    let later = StoreOp::Reschedule {
        id: id(1),
        when: When::At(START + week),
    };
    ask(&store, later).expect("a reschedule");
    drop(store);
    for _ in 0..2 {
        // Nor where the start before died before it cleared the notes.
        std::fs::write(&notes, &synced).expect("the notes");
        let store = place.open();
        let found = get(&store, 1).expect("it is there");
        assert_eq!((found.due, found.tries), (START + week, 1));
        assert!(fetch(&store, 2).is_empty());
    }
}

/// As a program does whose log lines are events of the same bucket.
#[test]
fn who_hears_that_a_release_could_not_be_noted_may_call_the_store() {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let place = Place::new();
        let store = Arc::new(place.open());
        push_now(&store, 1);
        let leased = fetch(&store, 1).remove(0);
        // Until there is room for no other one: the next needs a new file.
        let notes = place.directory.path().join("duly.db-starts");
        let room = std::fs::metadata(&notes).expect("the notes").len() / 32;
        for _ in 0..room / 64 {
            let starts = vec![&leased; 64];
            store.starting(&key().queue, &starts).expect("a note");
        }
        let elsewhere = tempfile::tempdir().expect("a directory");
        std::fs::rename(place.directory.path(), elsewhere.path().join("moved")).expect("it");
        let (says, lines) = mpsc::channel();
        let hears = Arc::clone(&store);
        let _heard = AtEachLine::call(move || {
            let found = ask(&hears, StoreOp::Get { id: id(1) });
            says.send(found.is_ok()).expect("the test listens");
        });
        let released = settle(&store, &leased, AttemptOutcome::Release);
        done.send((released.is_ok(), lines.try_iter().count()))
            .expect("the test waits");
    });
    let ended = ended.recv_timeout(Duration::from_secs(60));
    let (_, lines) = ended.expect("who hears of it does not wait for the bucket");
    assert!(lines > 0, "nothing was said");
}
