//! A comparison of what an event costs in counts, which a busy machine does not disturb.
//!
//! ```text
//! cargo test --bench counts                     # fails if a count has grown beyond its tolerance
//! cargo test --bench counts -- redis embedded   # only what has one of these words in its name
//! cargo test --bench counts -- --accept         # writes what was counted into the file
//! ```
//!
//! The expected counts and their tolerances are in `benches/counts.toml`. Allocations are those of
//! the thread that publishes, pushes and runs the handlers. Everything else is counted of a process
//! of its own, which does a workload once with few events and once with more: the difference is
//! what an event costs, without the start and the end. Instructions are counted by valgrind, of
//! this process and of the Redis server, and system calls by strace.
//!
//! Redis's microseconds are printed and compared with nothing, since they are timed.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]

mod allocations;
mod expected;
mod process;
mod server;
#[path = "../../tests/servers/mod.rs"]
mod servers;
mod work;

use std::collections::BTreeMap;

use expected::Expected;
use work::Work;

/// What goes wrong in a benchmark ends it.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T = (), E = Error> = std::result::Result<T, E>;

/// What was counted: of each kind, by workload.
type Counts = BTreeMap<&'static str, BTreeMap<String, f64>>;

fn main() -> Result {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, work, url, events] = &words[..]
        && first == process::CHILD
    {
        return Work::named(work)?.run(url, events.parse()?);
    }
    let mut names = words
        .iter()
        .filter(|word| !word.starts_with("--"))
        .peekable();
    let all = names.peek().is_none();
    let names: Vec<_> = names.collect();
    let wanted = |name: &str| all || names.iter().any(|word| name.contains(&word[..]));

    let mut counts = Counts::new();
    let mut add = |kind: &'static str, work: &str, count: f64| {
        counts
            .entry(kind)
            .or_default()
            .insert(work.to_owned(), count);
    };
    for (work, count) in allocations::all(wanted)? {
        add("allocations", work, count);
    }
    for work in Work::ALL.into_iter().filter(|work| wanted(work.name())) {
        for (kind, count) in process::count(work)? {
            add(kind, work.name(), count);
        }
    }
    for (work, us) in counts.remove("redis_us").unwrap_or_default() {
        println!("{work}: {us:.2} µs of Redis an event, by its clock");
    }

    let expected = Expected::read()?;
    let changes = expected.compare(&counts, wanted);
    if words.iter().any(|word| word == "--accept") {
        return expected::accept(&changes);
    }
    // What fell is no fault, and the batches of some workloads are larger in one run than in others.
    let (fell, changes): (Vec<_>, Vec<_>) = changes.into_iter().partition(expected::Change::fell);
    for change in &fell {
        println!("{}; `-- --accept` keeps it so", change.in_words());
    }
    if changes.is_empty() {
        return Ok(());
    }
    let mut report = format!("{} counts have grown:\n", changes.len());
    for change in &changes {
        report += &format!("  {}\n", change.in_words());
    }
    for tool in expected.other_tools() {
        report += &format!("  {tool}\n");
    }
    println!(
        "\n{report}Mend what grew, or accept it and say in the commit why:\n  \
         cargo test --workspace --all-features --bench counts -- --accept"
    );
    Err("counts have grown".into())
}
