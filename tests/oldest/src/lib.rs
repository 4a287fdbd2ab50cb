//! The embedded store and the journal in a file on the oldest rusqlite that duly allows: what both
//! promise, and their own tests.

#![cfg(test)]
#![allow(clippy::unwrap_used)]

#[path = "../../embedded/mod.rs"]
mod embedded;
mod journal;
mod store_contract;

/// What a table of a lock says of a package.
fn locked(lock: &str, package: &str) -> Vec<String> {
    let name = format!("\nname = \"{package}\"\nversion = \"");
    let tables = lock.split("[[package]]");
    let versions = tables.filter_map(|table| table.strip_prefix(&name)?.split('"').next());
    versions.map(str::to_owned).collect()
}

#[test]
fn the_lock_has_the_oldest_that_is_allowed() {
    let manifest = include_str!("../../../Cargo.toml");
    let oldest = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rusqlite = { version = \">="))
        .and_then(|range| range.split(',').next())
        .expect("a range");
    let is = locked(include_str!("../Cargo.lock"), "rusqlite");
    assert_eq!(is.len(), 1, "{is:?}");
    // `tests/long.sh` runs the others.
    let asked = std::env::var("DULY_RUSQLITE").unwrap_or_else(|_| oldest.to_owned());
    assert!(
        is[0].starts_with(&format!("{asked}.")),
        "{is:?}, not {asked}"
    );
}
