//! A benchmark of handing events to a queue's workers, and of its effect on other queues.
//!
//! ```text
//! cargo bench --bench ring              # about two minutes
//! cargo bench --bench ring -- --quick   # a few seconds, for a first look
//! cargo bench --bench ring -- duly      # only the cases whose names contain all words
//! ```
//!
//! It asserts nothing: every table names its baseline, and the last column is relative to it. Runs
//! on a runtime of two threads on any machine.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]

mod contenders;
mod neighbours;
mod pool;
mod table;

use std::hint::black_box;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;

use crate::contenders::{async_channel, duly, flume, kanal, tokio_spawn, tokio_workers};
use crate::neighbours::{backlog, isolation};
use crate::table::Table;

const WORKERS: usize = 64;
const CAPACITY: usize = 1_024;
const BATCH: usize = 64;
const LIMIT: Duration = Duration::from_secs(5);

fn main() {
    // `cargo test` runs a benchmark without this argument, just to see that it runs.
    let benching = std::env::args().any(|arg| arg == "--bench");
    let quick = std::env::args().any(|arg| arg == "--quick") || !benching;
    let plan = if quick {
        Plan {
            passes: 1,
            pass: Duration::from_millis(60),
            paced: 500,
        }
    } else {
        Plan {
            passes: 5,
            pass: Duration::from_millis(600),
            paced: 10_000,
        }
    };
    ready_handlers(plan);
    suspending_handlers(plan);
    if wanted("backlog") {
        backlog(plan);
    }
    if wanted("isolation") {
        isolation(plan);
    }
}

/// Whether a case was asked for: its name holds every word that was given.
fn wanted(name: &str) -> bool {
    std::env::args()
        .skip(1)
        .all(|word| word.starts_with("--") || name.contains(&word))
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    /// Passes of each case; the table shows the median.
    passes: usize,
    /// How long a pass should take.
    pass: Duration,
    /// Events of a paced queue.
    paced: usize,
}

/// An event as the pool sees it: 48 bytes.
#[derive(Clone, Default)]
struct Event {
    id: u64,
    _rest: [u64; 5],
}

impl Event {
    fn new(id: usize) -> Self {
        Self {
            id: id as u64,
            ..Self::default()
        }
    }
}

async fn ready(event: Event) {
    black_box(event.id);
}

async fn suspend_once(event: Event) {
    yield_now().await;
    black_box(event.id);
}

async fn within_limit(event: Event) {
    let _ = black_box(timeout(LIMIT, suspend_once(event)).await);
}

fn ready_handlers(plan: Plan) {
    let mut table = Table::new(
        "hand-over, handlers that finish at once",
        "tokio mpsc + Mutex",
    );
    table.measure(plan, "tokio mpsc + Mutex", |events| {
        tokio_workers(events, ready)
    });
    table.measure(plan, "tokio mpsc + spawn", |events| {
        tokio_spawn(events, ready)
    });
    table.measure(plan, "async-channel", |events| async_channel(events, ready));
    table.measure(plan, "flume", |events| flume(events, ready));
    table.measure(plan, "kanal", |events| kanal(events, ready));
    table.measure(plan, "duly, one by one", |events| {
        duly(events, 1, None, ready)
    });
    table.measure(plan, "duly, batches of 64", |events| {
        duly(events, BATCH, None, ready)
    });
    table.print();
}

fn suspending_handlers(plan: Plan) {
    let base = "tokio mpsc + Mutex + timeout";
    let mut table = Table::new("hand-over, handlers that suspend once, limit of 5 s", base);
    table.measure(plan, base, |events| tokio_workers(events, within_limit));
    let name = "tokio mpsc + spawn + timeout";
    table.measure(plan, name, |events| tokio_spawn(events, within_limit));
    table.measure(plan, "async-channel + timeout", |events| {
        async_channel(events, within_limit)
    });
    table.measure(plan, "flume + timeout", |events| {
        flume(events, within_limit)
    });
    table.measure(plan, "kanal + timeout", |events| {
        kanal(events, within_limit)
    });
    let limit = Some(LIMIT);
    table.measure(plan, "duly, no limit", |events| {
        duly(events, 1, None, suspend_once)
    });
    table.measure(plan, "duly, one by one", |events| {
        duly(events, 1, limit, suspend_once)
    });
    table.measure(plan, "duly, batches of 64", |events| {
        duly(events, BATCH, limit, suspend_once)
    });
    table.print();
}
