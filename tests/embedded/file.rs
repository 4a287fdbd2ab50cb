//! Whose file it is, who may open it, and in which version.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use duly::event::State;
use duly::records::Outcome;
use duly::store::operation::PushOutcome;
use duly::store::{Control, EmbeddedStore, Outbox, OutboxPage, Setting, Store};
use duly::{ErrorKind, QueueName};
use futures_util::FutureExt;

use crate::embedded::child::{self, Running};
use crate::embedded::harness::*;

#[test]
fn a_file_that_is_no_store_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let text = b"this was somebody's diary, and it shall stay one".repeat(40);
    fs::write(place.path(), &text).expect("a file");
    let error = place.open_error();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("duly.db"), "{error}");
    assert_eq!(fs::read(place.path()).expect("the file"), text);
}

#[test]
fn a_sqlite_file_of_another_program_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let other = rusqlite::Connection::open(place.path()).expect("a file");
    other
        .execute_batch("CREATE TABLE diary (day TEXT); PRAGMA user_version = 1")
        .expect("a table");
    drop(other);
    let before = fs::read(place.path()).expect("the file");
    let error = place.open_error();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("another program"), "{error}");
    assert!(error.to_string().contains("duly.db"), "{error}");
    assert_eq!(fs::read(place.path()).expect("the file"), before);
}

#[test]
fn a_newer_format_asks_for_an_upgrade() {
    let place = Place::new();
    drop(place.open());
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    file.pragma_update(None, "user_version", 5)
        .expect("a version");
    drop(file);
    let error = place.open_error();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(
        text.contains("newer duly (format 5), this one reads up to 4"),
        "{text}"
    );
    assert!(text.contains("upgrade"), "{text}");
}

/// `tests/data/format-1.db` was written before there were controls.
#[test]
fn a_file_of_format_1_opens_for_ever() {
    let place = Place::new();
    fs::copy(golden("format-1.db"), place.path()).expect("the golden file");
    let store = place.open();
    holds_what_is_golden(&store);
    assert_eq!(controls(&store), Default::default());
    set(&store, Setting::Paused(true));
    drop(store);
    assert!(controls(&place.open())["order-close"].paused);
}

/// In `tests/data/format-2.db` its queue is paused, and has a rate and buckets.
#[test]
fn a_file_of_format_2_opens_for_ever() {
    let place = Place::new();
    fs::copy(golden("format-2.db"), place.path()).expect("the golden file");
    let store = place.open();
    holds_what_is_golden(&store);
    let page = outbox(&store);
    assert_eq!((page.first, page.next, page.records.len()), (1, 4, 3));
    has_what_was_set(&store);
}

/// `tests/data/format-2-dropped.db` is of a time when a drop by hand was called a discard.
#[test]
fn an_event_that_was_dropped_under_format_2_is_known_to_be_over() {
    let place = Place::new();
    fs::copy(golden("format-2-dropped.db"), place.path()).expect("the golden file");
    let store = place.open();
    assert_eq!(
        get(&store, 1).expect("it is remembered").state,
        State::Cancelled
    );
    let told = outbox(&store).records;
    let told: Vec<_> = told
        .iter()
        .map(|(_, it)| (it.attempt, it.outcome))
        .collect();
    assert_eq!(told, [(1, Outcome::Buried), (0, Outcome::Discarded)]);
}

/// In `tests/data/format-3.db` the first two records are in the journal; event 5 belongs to a trace
/// and keeps its payload, event 6 was dropped by hand.
#[test]
fn a_file_of_format_3_opens_for_ever() {
    let place = Place::new();
    fs::copy(golden("format-3.db"), place.path()).expect("the golden file");
    let store = place.open();
    holds_what_format_3_does(&store, 7);
    let pushed = push(&store, unique(8)).expect("a push");
    assert_eq!(pushed.verdict, PushOutcome::Accepted);
}

/// In `tests/data/format-4.db` event 7 is done as well, and its unique key stays taken for an hour.
#[test]
fn a_file_of_format_4_opens_for_ever() {
    let place = Place::new();
    if std::env::var_os("DULY_WRITE_GOLDEN").is_some() {
        write_golden(&place);
        fs::copy(place.path(), golden("format-4.db")).expect("a copy");
        fs::remove_file(place.path()).expect("the file");
    }
    fs::copy(golden("format-4.db"), place.path()).expect("the golden file");
    let store = place.open();
    holds_what_format_3_does(&store, 8);
    let pushed = push(&store, unique(8)).expect("a push");
    assert_eq!(pushed.verdict, PushOutcome::Duplicate(id(7)));
}

fn holds_what_format_3_does(store: &EmbeddedStore, next: u64) {
    holds_what_is_golden(store);
    has_what_was_set(store);
    let page = outbox(store);
    assert_eq!((page.first, page.next, page.damaged), (3, next, 0));
    let told = page.records.into_iter().map(|(number, it)| {
        let trace = it.trace.map(|trace| trace.to_string());
        (
            number,
            it.id.entropy(),
            it.outcome,
            trace,
            it.payload,
            it.by,
        )
    });
    let told = told.collect::<Vec<_>>();
    let trace = Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned());
    let by = Some("ops".to_owned());
    assert_eq!(
        told[..4],
        [
            (3, 4, Outcome::Acked, None, None, None),
            (4, 5, Outcome::Acked, trace, Some(payload(5)), None),
            (5, 6, Outcome::Buried, None, None, None),
            (6, 6, Outcome::Dropped, None, None, by),
        ]
    );
}

fn has_what_was_set(store: &EmbeddedStore) {
    let control = Control {
        paused: true,
        workers: None,
        rate: Some(2.5),
        buckets: Some(3),
    };
    assert_eq!(controls(store)["order-close"], control);
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn controls(store: &EmbeddedStore) -> BTreeMap<QueueName, Control> {
    let controls = store.controls().now_or_never();
    controls.expect("ready").expect("they can be read")
}

fn set(store: &EmbeddedStore, setting: Setting) {
    let done = store.set(&key().queue, setting).now_or_never();
    done.expect("ready").expect("it is set");
}

/// What every golden file holds: events 1 (ready, tried once), 2 (due an hour later), 3 (dead);
/// event 4 was acknowledged.
fn holds_what_is_golden(store: &EmbeddedStore) {
    let found = |n| get(store, n).expect("an event of the golden file");
    assert_eq!((found(1).state, found(1).tries), (State::Scheduled, 1));
    assert_eq!(found(2).due, START + std::time::Duration::from_secs(3_600));
    assert_eq!((found(3).state, found(3).tries), (State::Dead, 1));
    assert_eq!(found(4).state, State::Done);
    for n in 1..=3 {
        let body = found(n).body.expect("it is not over");
        assert_eq!(body.payload, payload(n));
    }
}

/// All records that wait.
fn outbox(store: &EmbeddedStore) -> OutboxPage {
    let page = store.read_outbox(&Outbox::Store, 0, 100).now_or_never();
    page.expect("ready").expect("a page")
}

fn write_golden(place: &Place) {
    use duly::records::Cause;
    use duly::store::operation::{AttemptOutcome, FailureReason, StoreOp};
    let store = place.open();
    for n in [1, 3, 4] {
        push_now(&store, n);
    }
    push(&store, telling(5, 3)).expect("a push");
    push_now(&store, 6);
    let hour = std::time::Duration::from_secs(3_600);
    push(&store, event(2, hour.into(), 3)).expect("a push");
    let why = FailureReason {
        cause: Cause::Failed,
        error: Some("no answer".to_owned()),
    };
    for delivery in fetch(&store, 1) {
        let verdict = match delivery.id.entropy() {
            1 => AttemptOutcome::Retry(std::time::Duration::ZERO, why.clone()),
            3 | 6 => AttemptOutcome::Bury(why.clone()),
            _ => AttemptOutcome::Ack,
        };
        assert!(settle(&store, &delivery, verdict).expect("a settle"));
    }
    let (ids, by) = (vec![id(6)], Some("ops".to_owned()));
    ask(&store, StoreOp::Drop { ids, by }).expect("a drop");
    push(&store, unique(7)).expect("a push");
    let fetched = fetch(&store, 2).into_iter();
    let delivery = fetched.last().expect("it came last");
    assert_eq!(delivery.id, id(7));
    assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
    let trimmed = store.trim_outbox(&Outbox::Store, 2).now_or_never();
    trimmed.expect("ready").expect("a trim");
    set(&store, Setting::Paused(true));
    set(&store, Setting::Rate(Some(2.5)));
    set(&store, Setting::Buckets(Some(3)));
}

#[test]
fn a_store_opens_once_in_a_process() {
    let place = Place::new();
    let store = place.open();
    let error = place.open_error();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.contains("duly.db"), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    drop(store);
    drop(place.open());
}

#[test]
fn a_store_opens_in_one_process_at_a_time_and_its_lock_dies_with_it() {
    let place = Place::new();
    let mut holder = Running::start(child::command("file::holds_a_store", &place.path()));
    holder.next("holding").expect("the child holds it");
    let error = place.open_error();
    let text = error.to_string();
    assert!(text.contains(&holder.child.id().to_string()), "{text}");
    holder.kill();
    drop(place.open());
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn holds_a_store() {
    let Some(path) = child::path() else { return };
    let _store = EmbeddedStore::open(path).expect("a store");
    println!("holding");
    std::thread::park();
}

#[test]
fn a_closed_store_can_be_opened_again_while_its_handle_lives() {
    let place = Place::new();
    let closed = place.open();
    push_now(&closed, 1);
    closed
        .close()
        .now_or_never()
        .expect("ready")
        .expect("a close");
    let error = push(&closed, event(2, duly::time::When::Now, 1)).expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
    let store = place.open();
    assert_eq!(stats(&store).scheduled, 1);
}

/// A child that is just being made has a copy of every open file, and so of the lock, until it
/// becomes another program.
#[test]
fn a_closed_store_can_be_opened_again_while_this_process_starts_others() {
    let place = Place::new();
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let child = Command::new("true").status();
                assert!(child.expect("a child").success());
            }
        });
        let opened = (0..100).find_map(|_| place.try_open().err());
        over.store(true, Ordering::Relaxed);
        assert!(opened.is_none(), "{opened:?}");
    });
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = directory.path().join("duly.db");
    let mut rights = fs::metadata(directory.path()).expect("it").permissions();
    rights.set_readonly(true);
    fs::set_permissions(directory.path(), rights).expect("a mode");
    if fs::write(directory.path().join("probe"), b"").is_ok() {
        // The owner of the machine may write everywhere but where nobody can.
        store = "/proc/self/duly.db".into();
    }
    let error = EmbeddedStore::open(&store).expect_err("nothing can be written there");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("duly.db"), "{error}");
    assert!(error.to_string().contains("may write"), "{error}");
}

#[cfg(unix)]
#[test]
fn files_and_directories_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let directory = place.directory.path().join("made/by/us");
    let store = EmbeddedStore::open_with(directory.join("duly.db"), place.options());
    let store = store.expect("a store");
    push_now(&store, 1);
    let mode = |path: &Path| fs::metadata(path).expect("it").permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let mut files = 0;
    for file in fs::read_dir(&directory).expect("a directory") {
        let file = file.expect("a file").path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        files += 1;
    }
    assert_eq!(
        files, 6,
        "the data, its log and index, lock, starts and reserve"
    );
}

#[cfg(unix)]
#[test]
fn no_link_is_followed() {
    for name in [
        "duly.db",
        "duly.db-lock",
        "duly.db-starts",
        "duly.db-reserve",
    ] {
        let place = Place::new();
        let victim = place.directory.path().join("victim");
        fs::write(&victim, b"").expect("a file");
        let link = place.directory.path().join(name);
        std::os::unix::fs::symlink(&victim, &link).expect("a link");
        place.open_error();
        assert_eq!(fs::read(&victim).expect("it"), b"", "through {name}");
    }
}

#[test]
fn a_data_file_that_was_cut_to_nothing_is_not_taken_for_a_new_one() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    let copy = Place::new();
    for suffix in ["", "-wal"] {
        let name = format!("duly.db{suffix}");
        let to = copy.directory.path().join(&name);
        fs::copy(place.directory.path().join(&name), to).expect("a copy");
    }
    fs::write(copy.path(), b"").expect("a cut");
    assert_eq!(copy.open_error().kind(), ErrorKind::Corrupt);
}
