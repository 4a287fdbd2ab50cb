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
        if raw.len() % 2 == 0 {
            raw.push(raw_load(contender, &batches).await?);
        }
        let began = Instant::now();
        try_join(journal.load(first), journal.load(second)).await?;
        ours.push(began.elapsed());
        if raw.len() < ours.len() {
            raw.push(raw_load(contender, &batches).await?);
        }
    }
    let base = line(&format!("{name}, bare bulk insert"), many, &raw, None);
    line(&format!("{name}, journal"), many, &ours, Some(base));
    let worst = ours.iter().max().copied().unwrap_or_default();
    let bytes = contender.bytes().await?;
    println!(
        "longest two {:.0} ms; {} bytes a record on disk",
        worst.as_secs_f64() * 1e3,
        bytes / many.max(1)
    );
    Ok(())
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
