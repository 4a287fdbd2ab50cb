//! One store for one file, whatever leads to it; and none for a file that nothing leads to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use duly::ErrorKind;
use duly::event::State;
use duly::store::operation::StoreOp;
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::When;

use crate::embedded::child::{self, Running};
use crate::embedded::harness::*;

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Another name for the data file of a place, in the folder of another one.
fn linked(place: &Place) -> Place {
    let other = Place::new();
    let to = other.path();
    // Both in one file system: a hard link does not cross two.
    fs::hard_link(place.path(), to).expect("a link");
    other
}

/// Held by this process, and by another one.
#[test]
fn neither_a_removed_lock_nor_another_name_lets_a_second_store_in() {
    for is_elsewhere in [false, true] {
        let place = Place::new();
        let mut holder = is_elsewhere.then(|| {
            let mut holder = Running::start(child::command("file::holds_a_store", &place.path()));
            holder.next("holding").expect("the child holds it");
            holder
        });
        let own = (!is_elsewhere).then(|| place.open());
        fs::remove_file(beside(&place.path(), "-lock")).expect("the lock");
        let by_link = linked(&place);
        for error in [place.open_error(), by_link.open_error()] {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("open already"), "{error}");
        }
        if let Some(holder) = &mut holder {
            holder.kill();
        }
        drop(own);
        // Its log lies beside one of the names.
        let error = by_link.open_error();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("2 names"), "{error}");
        fs::remove_file(by_link.path()).expect("the link");
        drop(place.open());
    }
}

/// Needs the right to mount, as root or in a user namespace.
#[test]
fn a_file_that_is_mounted_twice_is_opened_once() {
    let (place, mount) = (Place::new(), Place::new());
    let _held = place.open();
    let own = child::command("moved::is_kept_out", &mount.path());
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" \"$1\" && rm \"$1/duly.db-lock\" && shift && exec \"$@\"";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command.args([place.directory.path(), mount.directory.path()]);
    command.arg(own.get_program()).args(own.get_args());
    for (name, value) in own.get_envs() {
        command.env(name, value.expect("set, not removed"));
    }
    let mut child = Running::start({
        command.stdout(Stdio::piped());
        command
    });
    let said = child.next("kept out: ").expect("it says so");
    assert!(said.contains("open already"), "{said}");
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn is_kept_out() {
    let Some(path) = child::path() else { return };
    let error = EmbeddedStore::open(path).expect_err("another process has it");
    println!("kept out: {error}");
}

/// What SQLite itself locks is lost when any descriptor of the file is closed, also one of an open
/// that was refused: then another process would take the log away at its end.
#[test]
fn a_refused_open_takes_no_lock_of_the_store_that_has_the_file() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    place.open_error();
    linked(&place).open_error();
    let mut child = Running::start(child::command("moved::looks_into_it", &place.path()));
    assert_eq!(child.next("there are ").as_deref(), Some("1"));
    assert!(child.child.wait().expect("its end").success());
    assert!(beside(&place.path(), "-wal").exists(), "the log is gone");
    push_now(&store, 2);
    drop(store);
    assert_eq!(stats(&place.open()).ready, 2);
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn looks_into_it() {
    let Some(path) = child::path() else { return };
    let file = rusqlite::Connection::open(path).expect("the file");
    let count = "SELECT count(*) FROM events";
    let count = file.query_row(count, [], |row| row.get::<_, i64>(0));
    println!("there are {}", count.expect("a count"));
}

/// What is done to the files of a store that is open, in a folder of its own.
type Harm = fn(&Path);

const HARMS: [(&str, Harm); 7] = [
    ("deleted", |path| {
        for suffix in ["", "-wal", "-shm", "-lock", "-starts"] {
            fs::remove_file(beside(path, suffix)).expect("a file");
        }
    }),
    ("deleted", |path| {
        fs::remove_file(beside(path, "-wal")).expect("the log");
    }),
    ("deleted", |path| {
        fs::remove_file(beside(path, "-shm")).expect("the index");
    }),
    ("moved", |path| {
        fs::rename(path, beside(path, "-away")).expect("the file");
    }),
    ("moved", |path| {
        let folder = path.parent().expect("a folder");
        fs::rename(folder, folder.with_extension("away")).expect("the folder");
    }),
    ("replaced", |path| {
        // As a backup is put back: with its own log.
        let other = Place::new();
        let backup = other.open();
        push_now(&backup, 77);
        for suffix in ["", "-wal"] {
            let from = beside(&other.path(), suffix);
            let new = beside(path, "-new");
            fs::copy(from, &new).expect("a copy");
            fs::rename(new, beside(path, suffix)).expect("its place");
        }
    }),
    // As a backup is put back that is copied over it.
    ("cut", |path| cut(path)),
];

fn cut(path: &Path) {
    let file = fs::File::options().write(true).open(path);
    file.expect("the file").set_len(0).expect("it is cut");
}

#[tokio::test]
#[allow(clippy::disallowed_methods)] // real time: this is about a thread and a file
async fn a_store_whose_file_is_gone_stops_and_says_so_and_touches_no_other() {
    for (number, (word, harm)) in HARMS.into_iter().enumerate() {
        let place = Place::new();
        let path = place.directory.path().join("folder").join("duly.db");
        let options = || EmbeddedOptions::new().reserve_bytes(4_096);
        let store = EmbeddedStore::open_with(&path, options()).expect("a store");
        let push = async |n| {
            let op = StoreOp::Push(vec![event(n, When::Now, 3)]);
            store.apply(&key(), op).await
        };
        push(1).await.expect("a push");
        harm(&path);
        let began = std::time::Instant::now();
        let error = loop {
            match push(2 + began.elapsed().as_millis() as u64).await {
                Ok(_) => assert!(began.elapsed() < Duration::from_secs(30), "{number}"),
                Err(error) => break error,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let words = error.to_string();
        assert!(
            matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Closed),
            "{number}: {error}"
        );
        assert!(words.contains(word), "{number}: {words}");
        assert!(words.contains("while it was open"), "{number}: {words}");
        assert!(store.close().await.is_err(), "{number}: it closed well");
        drop(store);
        if word == "replaced" {
            let store = EmbeddedStore::open_with(&path, options()).expect("the backup");
            let look = store.apply(&key(), StoreOp::Get { id: id(77) }).await;
            let found = look.expect("a look").reply;
            let found = format!("{found:?}");
            assert!(found.contains("payload"), "its log was removed: {found}");
        }
    }
}

/// Before a second has passed, and although nothing is to write.
#[test]
fn a_stop_within_the_first_moment_touches_no_other_file_either() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    (HARMS[5].1)(&place.path());
    drop(store);
    let store = place.open();
    assert!(get(&store, 77).is_some(), "the log of the backup is gone");
    assert!(get(&store, 1).is_none());
}

/// A note that is written where a file was cut ends the process; what stood there is gone.
#[test]
fn notes_of_starts_that_are_cut_are_written_anew() {
    let place = Place::new();
    let store = place.open();
    let notes = beside(&place.path(), "-starts");
    for n in [1, 2, 3] {
        push_now(&store, n);
        let delivery = fetch(&store, n).remove(0);
        let starting = store.starting(&key().queue, &[&delivery]);
        starting.expect("a note");
        if n < 3 {
            cut(&notes);
            place.clock.advance(Duration::from_secs(1));
        }
    }
    let store = place.copied().open();
    let tries = [1, 2, 3].map(|n| get(&store, n).expect("it is kept").tries);
    assert_eq!(tries, [0, 0, 1]);
}

#[test]
fn notes_of_starts_that_are_removed_are_written_anew() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    let delivery = fetch(&store, 1).remove(0);
    let starting = store.starting(&key().queue, &[&delivery]);
    starting.expect("a note");
    let notes = beside(&place.path(), "-starts");
    fs::remove_file(&notes).expect("the notes");
    place.clock.advance(Duration::from_secs(1));
    push_now(&store, 2);
    assert!(notes.exists());
    let found = get(&place.copied().open(), 1).expect("it is kept");
    assert_eq!((found.state, found.tries), (State::Scheduled, 1));
}

impl Place {
    /// The files as a process leaves them that dies now.
    fn copied(&self) -> Self {
        let copy = Self::new();
        for file in fs::read_dir(self.directory.path()).expect("a folder") {
            let file = file.expect("a file");
            let to = copy.directory.path().join(file.file_name());
            fs::copy(file.path(), to).expect("a copy");
        }
        copy
    }
}
