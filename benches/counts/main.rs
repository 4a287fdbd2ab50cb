//! A comparison of what an event costs in counts, which a busy machine does not disturb.
//!
//! ```text
//! cargo test --bench counts                 # fails if a count grew beyond its tolerance
//! ```
//!
//! The expected counts are in `benches/counts.toml`. It counts the allocations of the thread that
//! publishes, pushes and runs the handlers; those of the mover and of the embedded store's own
//! threads are not among them.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]

mod measure;

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;

/// What goes wrong in a benchmark ends it.
type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The file of expected counts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// How far a count may be above or below what is expected.
    tolerance: f64,
    /// Allocations an event, by workload.
    allocations: BTreeMap<String, f64>,
}

fn main() -> Result {
    let expected: Expected = toml::from_str(include_str!("../counts.toml"))?;
    let measured = measure::all()?;
    let mut wrong = Vec::new();
    for name in expected.allocations.keys() {
        if !measured.contains_key(name.as_str()) {
            wrong.push(format!("{name} is expected, but not measured"));
        }
    }
    for (name, count) in measured {
        let expected_count = expected.allocations.get(name).copied();
        println!(
            "{name}: {count:.3} allocations an event, expected {}",
            expected_count.map_or("nothing".to_owned(), |count| count.to_string())
        );
        match expected_count {
            Some(limit) if (count - limit).abs() <= expected.tolerance => {}
            Some(limit) => wrong.push(format!(
                "{name}: {count:.3} allocations an event, expected {limit} ± {}",
                expected.tolerance
            )),
            None => wrong.push(format!("{name} is measured, but not expected")),
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let words = format!(
        "{}; mend what grew, or write into benches/counts.toml what is right now",
        wrong.join("; ")
    );
    Err(io::Error::other(words).into())
}
