//! Processes that are killed with `kill -9`, and then a full account of every event.
//!
//! A child process pushes, cancels and handles on the embedded store, and writes what it was
//! answered and what it started into a log of its own, one plain `write` a line. It is killed at a
//! random moment, one to three times in a row. Then the file is opened once more and worked off,
//! and the log, the store and the records must tell one story: see [`account`].
//!
//! `DULY_CRASH_CASES` says how many cases, `DULY_CRASH_SEED` which; the seed of each is printed.

#![allow(clippy::print_stdout)] // a seed that is not printed cannot be run again

mod account;
mod child;
mod log;

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use account::account;

/// Tells a child where its files are; without it the test for the child does nothing.
const FOLDER: &str = "DULY_CRASH_FOLDER";
/// Tells a child which numbers to draw.
const SEED: &str = "DULY_CRASH_CHILD_SEED";
/// How many cases are run when nobody says otherwise.
const CASES: u64 = 12;

/// Not a test by itself: it is what a child process runs.
#[test]
fn child() {
    if let Ok(folder) = env::var(FOLDER) {
        let seed = number(SEED).expect("a child is given a seed");
        child::live(Path::new(&folder), seed);
    }
}

#[test]
#[allow(clippy::print_stdout)] // it tells which seed to run again
fn killed_at_any_moment_nothing_is_lost_early_or_tried_too_often() {
    let cases = number("DULY_CRASH_CASES").unwrap_or(CASES);
    let first = number("DULY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut sum = account::Sum::default();
    for seed in first..first + cases {
        println!("DULY_CRASH_SEED={seed} DULY_CRASH_CASES=1");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut random = fastrand::Rng::with_seed(seed);
        let kills = random.u64(1..=3);
        for kill in 0..kills {
            run_and_kill(folder.path(), seed * 10 + kill, &mut random);
        }
        sum += account(folder.path());
    }
    println!("{cases} cases: {sum:?}");
    assert!(
        sum.pushed > 0 && sum.starts > 0,
        "the children did nothing: {sum:?}"
    );
}

/// Starts a child and kills it at some moment: while it opens the file, or works.
fn run_and_kill(folder: &Path, seed: u64, random: &mut fastrand::Rng) {
    let mut child = Command::new(env::current_exe().expect("this program has a path"))
        .args(["--exact", "child", "--nocapture"])
        .env(FOLDER, folder)
        .env(SEED, seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child can be started");
    thread::sleep(Duration::from_micros(random.u64(1_000..400_000)));
    child.kill().expect("a child can be killed");
    let status = child.wait().expect("a child can be waited for");
    assert!(!status.success(), "a child ends by a kill only");
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}
