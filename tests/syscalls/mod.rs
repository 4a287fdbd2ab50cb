//! A child that is killed at each of its system calls, and the account of every event after it.
//!
//! A process changes the world only by its system calls, so a `kill -9` at any instruction leaves
//! the same state as a kill at the entry of the next call that changes something. A child runs a
//! short script on the embedded store (see [`script`]): under `strace` it is killed at the first
//! such call, another one at the second, and so on until a child finishes. After each death the
//! store is opened once more and drained, and the diary, the store and the records must agree on
//! every event: see [`account`].
//!
//! Covered are: every call that can change a file or a folder, by name, of every thread, on every
//! file of the store and on the diary, while the store is created, used, closed, and recovered from
//! an earlier kill. `strace` counts by thread and by call, so a *point* is the n-th time that a
//! thread makes a call on a file; where two threads make the same call on the same file, which only
//! calls without an effect do, it is the first of them. Calls that change nothing have no point of
//! their own: they leave the same state as the next point.
//!
//! Two files are changed without calls. The index of the write-ahead log is shared memory: after
//! each death it is overwritten, or removed, or left. The notes of starts are written through a
//! mapping; a child makes a call of its own before each such write and in the middle of it, which
//! are points as any other: see [`child::MAPPING`].
//!
//! The same points are used for promise 11: the call is not made and returns an error instead.
//!
//! `DULY_SYSCALLS=all` takes every point of every part; by default each part takes a random sample.
//! `DULY_SYSCALLS` with a point as it is printed takes that one alone.

mod account;
mod child;
mod diary;
mod script;
mod story;
mod strace;
mod sweep;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tempfile::TempDir;

use child::{IN_HASTE, MAPPING, OPENING, SCRIPT};
use diary::{Answer, Ask, Diary, Line};
use strace::{Call, Deed, Point, points, run_with, watch, watch_all};
use sweep::{Sweep, copy};

/// Calls that write, or that say that what was written is on disk.
const WRITING: [&str; 6] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
];

/// Not a test by itself: it is what a child process runs.
#[test]
fn child() {
    child::child();
}

#[test]
fn killed_at_any_call_of_the_script_nothing_is_lost_early_or_unrecorded() {
    let template = closed_store();
    let calls = script(template.path());
    let mut sweep = Sweep::of("script", template.path(), SCRIPT, Deed::Kill);
    sweep.every = 8;
    let tally = sweep.covers(&points(&calls));
    assert!(
        [tally.nothing, tally.whole, tally.leases_lost]
            .iter()
            .all(|count| *count > 0)
            || takes_one(),
        "none died before a commit, or after it, or in a handler: {tally}"
    );
}

/// Whatever the call is, and whether it is one on a file: what is said above of those that change
/// nothing is not only said.
#[test]
fn killed_at_any_call_of_any_kind_nothing_is_lost_early_or_unrecorded() {
    let template = closed_store();
    let folder = copy(template.path());
    let calls = watch_all(folder.path(), SCRIPT);
    let mut sweep = Sweep::of("script-any", template.path(), SCRIPT, Deed::Kill);
    sweep.every = 60;
    sweep.covers(&points(&calls));
}

/// A kill may also come within a call: then a part of what it writes is written.
#[test]
fn killed_within_any_write_nothing_is_lost_early_or_unrecorded() {
    let template = closed_store();
    let mut points = writing(&script(template.path()));
    points.retain(|point| ["write", "pwrite64"].contains(&point.call.as_str()));
    let mut sweep = Sweep::of("script-cut", template.path(), SCRIPT, Deed::Cut);
    sweep.every = 16;
    sweep.covers(&points);

    let template = folder();
    let mut points = writing(&opening(template.path()));
    points.retain(|point| ["write", "pwrite64"].contains(&point.call.as_str()));
    let mut sweep = Sweep::of("first-opening-cut", template.path(), OPENING, Deed::Cut);
    sweep.every = 16;
    sweep.covers(&points);
}

#[test]
fn killed_at_any_call_of_the_first_opening_the_next_one_makes_the_store() {
    let template = folder();
    let calls = opening(template.path());
    let mut sweep = Sweep::of("first-opening", template.path(), OPENING, Deed::Kill);
    sweep.every = 10;
    sweep.covers(&points(&calls));
}

#[test]
fn killed_at_any_call_of_a_recovery_the_next_one_does_the_same() {
    let template = closed_store();
    let calls = script(template.path());
    let (log, notes) = ("store/duly.db-wal", "store/duly.db-starts-new");
    let writes = calls
        .iter()
        .filter(|call| call.file == log && call.name == "pwrite64");
    let writes = writes.count();
    let mut lost = 0;
    for (name, file, call, nth) in [
        ("recovery-1", log, "pwrite64", writes / 3),
        // While a handler runs.
        ("recovery-2", notes, "write", 1),
        ("recovery-3", log, "pwrite64", writes * 7 / 8),
    ] {
        let killed = killed(template.path(), file, call, nth);
        let calls = opening(killed.path());
        let mut sweep = Sweep::of(name, killed.path(), OPENING, Deed::Kill);
        sweep.deaths = 1;
        sweep.every = 10;
        lost += sweep.covers(&points(&calls)).leases_lost;
    }
    assert!(lost > 0 || takes_one(), "no handler died");
}

#[test]
fn after_any_call_that_fails_nothing_is_acknowledged_any_more() {
    let template = closed_store();
    let calls = script(template.path());
    let points = writing(&calls);
    for (name, deed, every) in [
        ("eio", Deed::Fail("EIO"), 20),
        ("eio-on", Deed::FailOn("EIO"), 80),
    ] {
        let mut sweep = Sweep::of(name, template.path(), SCRIPT, deed);
        sweep.every = every;
        sweep.check = stopped;
        sweep.covers(&points);
    }
}

#[test]
fn a_disk_that_is_full_at_any_call_loses_nothing_that_was_acknowledged() {
    let template = closed_store();
    for (name, part, deed, every) in [
        ("enospc", SCRIPT, Deed::Fail("ENOSPC"), 40),
        ("enospc-on", IN_HASTE, Deed::FailOn("ENOSPC"), 80),
    ] {
        let points = writing(&calls_of(template.path(), part));
        let mut sweep = Sweep::of(name, template.path(), part, deed);
        sweep.every = every;
        sweep.covers(&points);
    }
}

/// A shortage is no doubt: whoever is refused may ask again, and nobody is told that it is unknown.
#[test]
fn a_call_that_is_refused_for_want_of_something_stops_nobody() {
    let template = closed_store();
    let calls = script(template.path());
    let of = |names: &[&str]| {
        let points = points(&calls).into_iter();
        let points = points.filter(|point| point.file.starts_with("store/"));
        let points: Vec<_> = points
            .filter(|point| names.contains(&point.call.as_str()))
            .collect();
        assert!(!points.is_empty(), "{names:?}");
        points
    };
    for (name, error, calls, every) in [
        ("edquot", "EDQUOT", &["write", "pwrite64"][..], 80),
        ("efbig", "EFBIG", &["write", "pwrite64"], 80),
        ("enospc-write", "ENOSPC", &["write", "pwrite64"], 80),
        ("emfile", "EMFILE", &["openat"], 5),
        ("enfile", "ENFILE", &["openat"], 5),
        ("enomem", "ENOMEM", &["openat", "mmap"], 5),
    ] {
        let mut sweep = Sweep::of(name, template.path(), SCRIPT, Deed::Fail(error));
        sweep.every = every;
        sweep.check = goes_on;
        sweep.covers(&of(calls));
    }
}

#[test]
fn any_call_that_fails_while_the_store_is_opened_is_told_and_opening_it_again_helps() {
    let template = folder();
    let points = writing(&opening(template.path()));
    let mut sweep = Sweep::of("opening-eio", template.path(), OPENING, Deed::Fail("EIO"));
    sweep.every = 8;
    sweep.check = |folder, point| {
        // SQLite does not look whether a folder was synced; the store syncs it once more.
        match (point.file.as_str(), point.call.as_str()) {
            ("store", "fsync") => Vec::new(),
            _ => stopped(folder, point),
        }
    };
    sweep.covers(&points);
    // Without room for its reserve it opens, and refuses pushes.
    let full = Deed::Fail("ENOSPC");
    let mut sweep = Sweep::of("opening-enospc", template.path(), OPENING, full);
    sweep.every = 8;
    sweep.covers(&points);
}

/// What the points rest on: nothing but calls reaches a file, with two exceptions: SQLite's index of
/// the log, and the notes of starts, before each write of which there is a call. And a point is one
/// thread's alone, but for calls that change nothing.
#[test]
fn only_calls_change_files_and_each_is_one_threads() {
    let template = closed_store();
    let calls = script(template.path());
    let mapped = calls
        .iter()
        .filter(|call| call.line.contains("MAP_SHARED") && call.line.contains("PROT_WRITE"));
    let mapped: BTreeSet<_> = mapped.map(|call| call.file.as_str()).collect();
    let legal = ["-shm", "-starts", "-starts-new"].map(|file| format!("store/duly.db{file}"));
    assert_eq!(mapped, legal.iter().map(String::as_str).collect());

    // Of each file of notes that is used there are some.
    let writes = calls.iter().filter(|call| call.file == MAPPING).count();
    assert!(
        writes > 20,
        "{writes} points between writes through a mapping"
    );

    let mut threads: BTreeMap<(&str, &str), BTreeSet<u32>> = BTreeMap::new();
    for call in &calls {
        let threads = threads.entry((&call.file, &call.name)).or_default();
        threads.insert(call.thread);
    }
    threads.retain(|_, threads| threads.len() > 1);
    let shared: Vec<_> = threads.into_keys().collect();
    // The reader opens what is there; the writer syncs the folder when it has closed the file, and
    // gives back the locks that the opening thread took.
    let legal = [
        ("store", "fsync"),
        ("store", "openat"),
        ("store/duly.db", "flock"),
        ("store/duly.db-lock", "flock"),
        ("store/duly.db-wal", "fchown"),
        ("store/duly.db-wal", "openat"),
    ];
    let others: Vec<_> = shared.iter().filter(|call| !legal.contains(call)).collect();
    assert!(others.is_empty(), "two threads do {others:?}");
}

/// Whether the environment wants one point alone.
fn takes_one() -> bool {
    std::env::var("DULY_SYSCALLS").is_ok_and(|wanted| wanted != "all")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A folder with a store that was made, closed, and never used.
fn closed_store() -> TempDir {
    let template = folder();
    drop(child::open(template.path()).expect("a store"));
    template
}

/// A folder in which a script died at such a call: the `nth`, or an earlier one where it makes
/// fewer of them, for what is asked at the same time is written together.
fn killed(template: &Path, file: &str, call: &str, mut nth: usize) -> TempDir {
    loop {
        let folder = copy(template);
        let (file, call) = (file.to_owned(), call.to_owned());
        let point = Point { file, call, nth };
        if run_with(folder.path(), SCRIPT, &point, Deed::Kill).was_killed {
            return folder;
        }
        nth = nth * 7 / 8;
        assert!(nth > 0, "a script comes past {point}");
    }
}

/// The calls of a script that comes to its end.
fn script(template: &Path) -> Vec<Call> {
    calls_of(template, SCRIPT)
}

/// The calls of the shortest of some runs: what is asked at the same time is written together, so
/// one run makes fewer of them than another.
fn calls_of(template: &Path, part: &str) -> Vec<Call> {
    let runs = (0..3).map(|_| one_run(template, part));
    runs.min_by_key(Vec::len).expect("three runs")
}

fn one_run(template: &Path, part: &str) -> Vec<Call> {
    let folder = copy(template);
    let calls = watch(folder.path(), part);
    let last = Diary::read(folder.path()).pop();
    assert!(matches!(last, Some(Line::Ended(None))), "it ends: {last:?}");
    calls
}

/// The calls until a store is open.
fn opening(template: &Path) -> Vec<Call> {
    let folder = copy(template);
    let lines = Diary::read(folder.path()).len();
    let calls = watch(folder.path(), OPENING);
    let opened = Diary::read(folder.path()).into_iter().nth(lines);
    assert!(matches!(opened, Some(Line::Opened)), "{opened:?}");
    let is_diary = |call: &Call| call.file == Diary::NAME && call.name == "write";
    let until = calls.iter().position(is_diary).expect("it says so");
    let calls: Vec<_> = calls.into_iter().take(until).collect();
    let threads: BTreeSet<_> = calls.iter().map(|call| call.thread).collect();
    assert_eq!(threads.len(), 1, "one thread opens a store");
    calls
}

fn writing(calls: &[Call]) -> Vec<Point> {
    let points = points(calls).into_iter();
    let is_of_store = |point: &Point| point.file.starts_with("store");
    let writes = |point: &Point| WRITING.contains(&point.call.as_str());
    points
        .filter(|one| is_of_store(one) && writes(one))
        .collect()
}

/// Nobody was told that it is not known what happened, or that the store has stopped.
fn goes_on(folder: &Path, _: &Point) -> Vec<String> {
    let is_wrong = |line: &Line| match line {
        Line::Answered { answer, .. }
        | Line::Rate {
            answer: Some(answer),
            ..
        } => match answer {
            Answer::Unknown => true,
            Answer::Refused(kind) => !["Full", "Unavailable"].contains(&kind.as_str()),
            _ => false,
        },
        Line::NotOpened(kind) => !["Full", "Unavailable"].contains(&kind.as_str()),
        Line::Ended(error) => error.is_some(),
        _ => false,
    };
    let lines = Diary::read(folder).into_iter();
    let wrong = lines.filter(|line| is_wrong(line));
    wrong.map(|line| format!("stopped: {line:?}")).collect()
}

/// Nothing was answered with yes that was asked after the first doubt, and somebody was told of it.
///
/// Of what was asked at the same time some may have been on disk before.
fn stopped(folder: &Path, _: &Point) -> Vec<String> {
    let (mut is_in_doubt, mut asked_late) = (false, Vec::new());
    let mut wrong = Vec::new();
    for line in Diary::read(folder) {
        let (id, ask, answer) = match &line {
            Line::Pushing { id, .. } => (Some(*id), Some(Ask::Push), None),
            Line::Asking { id, ask } => (Some(*id), Some(*ask), None),
            Line::Answered { id, ask, answer } => (Some(*id), Some(*ask), Some(answer)),
            Line::Rate { answer, .. } => (None, None, answer.as_ref()),
            Line::NotOpened(_) | Line::Ended(Some(_)) => (None, None, Some(&Answer::Unknown)),
            _ => continue,
        };
        match answer {
            None if is_in_doubt => asked_late.push((id, ask)),
            Some(Answer::Yes { .. }) if asked_late.contains(&(id, ask)) => {
                wrong.push(format!("acknowledged after a doubt: {line:?}"));
            }
            Some(Answer::Unknown | Answer::Refused(_)) => is_in_doubt = true,
            _ => {}
        }
    }
    if !is_in_doubt {
        wrong.push("nobody was told".to_owned());
    }
    wrong
}
