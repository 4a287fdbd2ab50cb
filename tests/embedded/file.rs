//! Whose file it is, who may open it, and in which version.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use duly::ErrorKind;
use duly::store::{EmbeddedStore, Store};
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
fn another_format_is_refused_in_words_and_left_as_it_is() {
    for (format, words, advice) in [
        (
            9,
            "newer duly (format 9), this one reads format 8",
            "upgrade",
        ),
        (
            7,
            "older duly (format 7), this one reads format 8",
            "name another file",
        ),
    ] {
        let place = Place::new();
        drop(place.open());
        let file = rusqlite::Connection::open(place.path()).expect("the file");
        file.pragma_update(None, "user_version", format)
            .expect("a version");
        drop(file);
        let before = fs::read(place.path()).expect("the file");
        let error = place.open_error();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(advice), "{text}");
        assert_eq!(fs::read(place.path()).expect("the file"), before);
    }
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
    assert_eq!(stats(&store).ready, 1);
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
        files, 7,
        "the data, its log and index, lock, starts and the next ones, and reserve"
    );
}

#[cfg(unix)]
#[test]
fn no_link_is_followed() {
    for name in [
        "duly.db",
        "duly.db-lock",
        "duly.db-starts",
        "duly.db-starts-new",
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

/// A file system that compresses, or stores equal blocks once, would keep no room for anything else.
#[test]
fn the_reserve_takes_the_room_that_it_has() {
    let place = Place::new();
    let options = place.options().reserve_bytes(2 << 20);
    let _store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    let reserve = fs::read(place.directory.path().join("duly.db-reserve")).expect("the reserve");
    assert_eq!(reserve.len(), 2 << 20);
    let (blocks, _) = reserve.as_chunks::<4_096>();
    let mut starts = std::collections::HashSet::new();
    for block in blocks {
        let mut values = [false; 256];
        block
            .iter()
            .for_each(|byte| values[usize::from(*byte)] = true);
        let values = values.iter().filter(|is_there| **is_there).count();
        assert!(values > 240, "a block has {values} of 256 values");
        assert!(starts.insert(&block[..8]), "two blocks are equal");
    }
    // What is near enough to be compressed together.
    let (first, second) = (&reserve[64..4_096], &reserve[4_096..1 << 20]);
    assert!(!second.windows(64).any(|part| part == &first[..64]));
}
