//! Crash tests: processes killed with `kill -9`, and a full account of every event.
//!
//! A child process pushes, cancels and handles on the embedded store, and writes the results of its
//! calls and its starts into its own log. It is killed at a random moment, one to three times in a
//! row. Then the file is opened once more and drained, and the log, the store and the records must
//! agree: see [`nodes::account`].
//!
//! `DULY_CRASH_CASES` sets the number of cases, `DULY_CRASH_SEED` selects them; the seed of each is
//! printed.

use std::env;
use std::thread;
use std::time::Duration;

use crate::nodes::{Memory, Role, Site, account};
use duly_conformance::history::Report;

/// How many cases are run when nobody says otherwise.
const CASES: u64 = 12;

#[test]
#[allow(clippy::print_stdout)] // it tells which seed to run again
fn killed_at_any_moment_nothing_is_lost_early_or_tried_too_often() {
    let cases = number("DULY_CRASH_CASES").unwrap_or(CASES);
    let first = number("DULY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut sum = Report::default();
    for seed in first..first + cases {
        println!("DULY_CRASH_SEED={seed} DULY_CRASH_CASES=1");
        let site = Site::embedded();
        let mut random = fastrand::Rng::with_seed(seed);
        for kill in 0..random.u64(1..=3) {
            let role = Role {
                seed: seed * 10 + kill,
                ..Role::default()
            };
            let node = site.spawn(&role);
            // While it opens the file, or works.
            thread::sleep(Duration::from_micros(random.u64(1_000..400_000)));
            node.kill();
            sum.kills += 1;
        }
        sum += account(&site, Memory::Keeps);
    }
    println!("{cases} cases\n{sum}");
    assert!(
        sum.pushed > 0 && sum.starts > 0,
        "the children did nothing: {sum:?}"
    );
    assert_eq!(sum.refused, 0, "a healthy disk refuses nothing: {sum:?}");
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}
