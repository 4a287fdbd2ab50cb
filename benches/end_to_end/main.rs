//! A benchmark of throughput and lateness of the whole bus, from push to settlement, against
//! baselines.
//!
//! ```text
//! cargo bench --bench end_to_end              # about two minutes
//! cargo bench --bench end_to_end -- --quick   # some seconds, for a first look
//! cargo bench --bench end_to_end -- push idle # only the parts whose name contains one of these words
//! ```
//!
//! Parts: push, drain, records, late, burst, publish, idle, metrics. It asserts no time: every
//! table begins with its baseline, measured in the same run, and the last column is relative to it.
//! Ratios travel between machines, rates do not. It fails if an event was early or is missing,
//! since figures of such a bus are worthless.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]

mod bare;
mod burst;
mod drain;
mod idle;
mod late;
mod metrics;
mod publish;
mod push;
mod records;
mod scene;
mod table;
mod watch;

use std::io;

use scene::Plan;
use tokio::runtime::Builder;

/// What goes wrong in a benchmark ends it.
type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result {
    // `cargo test --benches` runs it without this argument, just to see that it runs.
    let benching = std::env::args().any(|arg| arg == "--bench");
    let quick = std::env::args().any(|arg| arg == "--quick") || !benching;
    let plan = if quick { Plan::QUICK } else { Plan::FULL };
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // In a task of the runtime, as an application would be.
    runtime.block_on(async move { tokio::spawn(run(plan)).await? })
}

async fn run(plan: Plan) -> Result {
    if wanted("push") {
        push::run(plan).await?;
    }
    if wanted("drain") {
        drain::run(plan).await?;
    }
    if wanted("records") {
        records::run(plan).await?;
    }
    if wanted("late") {
        late::run(plan).await?;
    }
    if wanted("burst") {
        burst::run(plan).await?;
    }
    if wanted("publish") {
        publish::run(plan).await?;
    }
    if wanted("idle") {
        idle::run(plan).await?;
    }
    // The last, since it has the process watched.
    if wanted("metrics") {
        metrics::run(plan).await?;
    }
    Ok(())
}

/// Whether a part was asked for: all are, unless words were given.
fn wanted(part: &str) -> bool {
    let words: Vec<_> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    words.is_empty() || words.iter().any(|word| part.contains(word.as_str()))
}

/// An error in words.
fn wrong(words: String) -> Box<dyn std::error::Error + Send + Sync> {
    io::Error::other(words).into()
}
