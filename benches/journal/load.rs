//! Loading in batches, and the bare bulk insert of the same rows.

use std::time::Duration;

use duly::journal::Batch;
use duly::record::Numbered;
use tokio::time::Instant;

use crate::contender::Contender;
use crate::{Result, records};

/// How many records a batch has.
const BATCH: u64 = 5_000;

pub(crate) async fn run(contender: &mut dyn Contender, many: u64) -> Result {
    let name = contender.name();
    println!("\nloading {many} records in batches of {BATCH}");
    println!(
        "{:<26} {:>11} {:>14} {:>14} {:>7}",
        "", "records/s", "first tenth/s", "last tenth/s", "ratio"
    );
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    let journal = contender.journal();
    for from in (0..many).step_by(BATCH as usize) {
        let batch: Vec<Numbered> = (from..many.min(from + BATCH))
            .map(records::record)
            .collect();
        let loaded = vec![Batch {
            outbox: "store".to_owned(),
            records: batch.clone(),
        }];
        // The first of the two pays for what the last round left behind; each is it in turn.
        if raw.len() % 2 == 0 {
            raw.push(contender.raw_load(&batch).await?);
        }
        let began = Instant::now();
        journal.load(loaded).await?;
        ours.push(began.elapsed());
        if raw.len() < ours.len() {
            raw.push(contender.raw_load(&batch).await?);
        }
    }
    let base = line(&format!("{name}, bare bulk insert"), many, &raw, None);
    line(&format!("{name}, journal"), many, &ours, Some(base));
    let worst = ours.iter().max().copied().unwrap_or_default();
    let bytes = contender.bytes().await?;
    println!(
        "longest batch {:.0} ms; {} bytes a record on disk",
        worst.as_secs_f64() * 1e3,
        bytes / many.max(1)
    );
    Ok(())
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
