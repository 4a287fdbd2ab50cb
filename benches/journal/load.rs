//! Loading as the recorder does when it catches up, and the bare bulk insert of the same rows.

use std::time::Duration;

use futures_util::future::try_join;

use duly::journal::Batch;
use duly::record::Numbered;
use tokio::time::Instant;

use crate::contender::Contender;
use crate::{Result, records};

/// How many records a batch has: as many as the recorder puts into one load at most.
const BATCH: u64 = 10_000;

pub(crate) async fn run(contender: &mut dyn Contender, many: u64) -> Result {
    let name = contender.name();
    println!("\nloading {many} records in batches of {BATCH}, two at a time");
    println!(
        "{:<26} {:>11} {:>14} {:>14} {:>7}",
        "", "records/s", "first tenth/s", "last tenth/s", "ratio"
    );
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    let (mut raw_work, mut our_work) = (Work::default(), Work::default());
    let journal = contender.journal();
    for from in (0..many).step_by(2 * BATCH as usize) {
        // Both of the same time, as those of two outboxes are.
        let every_second = |first: u64| -> Vec<Numbered> {
            let numbers = (first..many.min(from + 2 * BATCH)).step_by(2);
            numbers.map(records::record).collect()
        };
        let batches = [every_second(from), every_second(from + 1)];
        let of_outbox = |outbox: usize| {
            vec![Batch {
                outbox: format!("store/{outbox}"),
                records: batches[outbox].clone(),
            }]
        };
        let (first, second) = (of_outbox(0), of_outbox(1));
        // The first of the two pays for what the last round left behind; each is it in turn.
        let before = Work::so_far(contender);
        if raw.len() % 2 == 0 {
            raw.push(raw_load(contender, &batches).await?);
        }
        let between = Work::so_far(contender);
        let began = Instant::now();
        try_join(journal.load(first), journal.load(second)).await?;
        ours.push(began.elapsed());
        let after = Work::so_far(contender);
        if raw.len() < ours.len() {
            raw.push(raw_load(contender, &batches).await?);
        }
        raw_work.add(before, between);
        our_work.add(between, after);
        raw_work.add(after, Work::so_far(contender));
    }
    let base = line(&format!("{name}, bare bulk insert"), many, &raw, None);
    line(&format!("{name}, journal"), many, &ours, Some(base));
    println!("what processors worked for a record:");
    println!("{:<26} {}", "bare bulk insert", raw_work.of_each(many));
    println!("{:<26} {}", "journal", our_work.of_each(many));
    let worst = ours.iter().max().copied().unwrap_or_default();
    let bytes = contender.bytes().await?;
    println!(
        "longest two {:.0} ms; {} bytes a record on disk",
        worst.as_secs_f64() * 1e3,
        bytes / many.max(1)
    );
    Ok(())
}

/// How long processors have worked, here and in the server.
#[derive(Clone, Copy, Default)]
struct Work {
    here: Duration,
    server: Option<Duration>,
}

impl Work {
    fn so_far(contender: &dyn Contender) -> Self {
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
        let of = |thread: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
            let told = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            told.split_whitespace().next()?.parse().ok()
        };
        Self {
            here: Duration::from_nanos(threads.filter_map(of).sum()),
            server: contender.server_time(),
        }
    }

    /// A process that has ended in between takes its time with it, so that a little may be missing.
    fn add(&mut self, before: Self, after: Self) {
        self.here += after.here.saturating_sub(before.here);
        if let (Some(before), Some(after)) = (before.server, after.server) {
            let server = self.server.unwrap_or_default();
            self.server = Some(server + after.saturating_sub(before));
        }
    }

    fn of_each(self, many: u64) -> String {
        let us = |time: Duration| time.as_secs_f64() * 1e6 / many as f64;
        let server = self
            .server
            .map(|time| format!(", {:.2} us in the server", us(time)));
        format!("{:.2} us here{}", us(self.here), server.unwrap_or_default())
    }
}

/// One after the other, on one connection.
async fn raw_load(contender: &mut dyn Contender, batches: &[Vec<Numbered>]) -> Result<Duration> {
    let mut took = Duration::ZERO;
    for batch in batches {
        took += contender.raw_load(batch).await?;
    }
    Ok(took)
}

fn line(name: &str, many: u64, took: &[Duration], base: Option<f64>) -> f64 {
    let rate = |took: &[Duration], many: f64| many / took.iter().sum::<Duration>().as_secs_f64();
    let tenth = took.len().div_ceil(10);
    let of_tenth = many as f64 * tenth as f64 / took.len() as f64;
    let all = rate(took, many as f64);
    let (first, last) = (&took[..tenth], &took[took.len() - tenth..]);
    println!(
        "{name:<26} {all:>11.0} {:>14.0} {:>14.0} {:>6.2}x",
        rate(first, of_tenth),
        rate(last, of_tenth),
        all / base.unwrap_or(all)
    );
    all
}
