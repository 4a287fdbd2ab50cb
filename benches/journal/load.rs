//! Loading like a recorder that catches up, against a bulk insert of the same rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::try_join;

use duly::journal::Batch;
use duly::records::Numbered;
use tokio::time::Instant;

use crate::contender::Contender;
use crate::{Result, records};

/// How many records a batch has: as many as the recorder puts into one load at most.
const BATCH: u64 = 10_000;

/// How many batches of each outbox are loaded before the bare load has its turn: as many as the
/// recorder loads of one while another is under way.
const ROUNDS: u64 = 4;

pub(crate) async fn run(contender: &mut dyn Contender, many: u64) -> Result {
    let name = contender.name();
    println!("\nloading {many} records in batches of {BATCH}, two at a time");
    println!(
        "{:<26} {:>11} {:>14} {:>14} {:>7}",
        "", "records/s", "first tenth/s", "last tenth/s", "ratio"
    );
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    let (mut raw_work, mut our_work) = (Work::default(), Work::default());
    let (journal, longest) = (contender.journal(), AtomicU64::new(0));
    for from in (0..many).step_by((2 * ROUNDS * BATCH) as usize) {
        let upto = many.min(from + 2 * ROUNDS * BATCH);
        // Both of the same time, as those of two outboxes are.
        let of_outbox = |outbox: u64| -> Vec<Vec<Numbered>> {
            let numbers: Vec<u64> = (from + outbox..upto).step_by(2).collect();
            let batches = numbers.chunks(BATCH as usize);
            let batches = batches.map(|some| some.iter().copied().map(records::record).collect());
            batches.collect()
        };
        let outboxes = [of_outbox(0), of_outbox(1)];
        // Neither waits for the other between two batches.
        let lane = |outbox: usize| {
            let batches = outboxes[outbox].clone().into_iter().map(|records| Batch {
                outbox: format!("store/{outbox}"),
                records,
            });
            let batches: Vec<Batch> = batches.collect();
            let (journal, longest) = (&journal, &longest);
            async move {
                for batch in batches {
                    let began = Instant::now();
                    journal.load(vec![batch]).await?;
                    longest.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
                }
                Ok::<(), duly::Error>(())
            }
        };
        let (first, second) = (lane(0), lane(1));
        // The first of the two pays for what the last round left behind; each is it in turn.
        let before = Work::so_far(contender);
        if raw.len() % 2 == 0 {
            raw.push(raw_load(contender, &outboxes).await?);
        }
        let between = Work::so_far(contender);
        let began = Instant::now();
        try_join(first, second).await?;
        ours.push(began.elapsed());
        let after = Work::so_far(contender);
        if raw.len() < ours.len() {
            raw.push(raw_load(contender, &outboxes).await?);
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
    let longest = Duration::from_micros(longest.into_inner());
    let bytes = contender.bytes().await?;
    println!(
        "longest load {:.0} ms; {} bytes a record on disk",
        longest.as_secs_f64() * 1e3,
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
async fn raw_load(
    contender: &mut dyn Contender,
    outboxes: &[Vec<Vec<Numbered>>],
) -> Result<Duration> {
    let mut took = Duration::ZERO;
    for batch in outboxes.iter().flatten() {
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
