//! The journal contract, run over each journal.
//!
//! Each promise is one function named after it, in a file of this folder; `suite.rs` lists them. A
//! journal takes part by a harness and one line; one that outlives its process adds the second
//! line. `DULY_JOURNAL_CASES` sets the number of random cases that are compared with the oracle
//! (default 48).

mod erase;
mod file;
mod filters;
mod gone;
mod guide;
mod harness;
mod minutes;
mod oracle;
mod pages;
mod parts;
mod pooled;
mod postgres;
mod postgres_faults;
mod postgres_prune;
mod postgres_rights;
mod postgres_tables;
mod prune;
mod reopened;
mod sample;
mod sqlite;
mod suite;
mod together;
mod unused;
mod upgrades;
mod views;
mod whole;

mod memory {
    use crate::journal::harness::MemoryHarness;
    use crate::journal::suite::journal_tests;

    journal_tests!(MemoryHarness);
}

/// A promise that the macro does not list would never be played.
#[test]
fn every_promise_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/journal");
    let read = |file: &str| {
        std::fs::read_to_string(std::path::Path::new(folder).join(file)).expect("a file")
    };
    let listed = read("suite.rs");
    for room in [
        "erase", "filters", "minutes", "oracle", "pages", "prune", "reopened", "together", "whole",
    ] {
        let text = read(&format!("{room}.rs"));
        let promises = text
            .lines()
            .filter_map(|line| line.strip_prefix("pub(crate) async fn "));
        for name in promises.filter_map(|line| line.split('(').next()) {
            let is_listed = listed.lines().any(|line| line.trim() == name);
            assert!(is_listed, "{room}::{name} is not listed in suite.rs");
        }
    }
}
