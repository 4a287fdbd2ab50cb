//! What happens to a handler that takes too long, and to one that cannot be stopped?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::thread;
use std::time::Duration;

use duly::prelude::*;
use duly::records::Cause;

/// Hangs at its first attempt: it is dropped at the `.await` it waits at, and tried again.
#[delay_event(queue = "fetch-page", timeout = "200ms", backoff = "fixed(50ms)")]
async fn fetch_page(event: Event<String>, cx: &Context) -> Result<(), Failure> {
    if event.attempt() == 1 {
        std::future::pending::<()>().await;
    }
    Ok(cx.reply(&event.attempt())?)
}

/// Blocks its thread. Nobody can stop a thread, so it is told, and asks now and then.
#[delay_event(
    queue = "compress",
    blocking,
    timeout = "200ms",
    backoff = "fixed(50ms)"
)]
struct Compress;

impl BlockingHandler for Compress {
    type Payload = u32;

    fn handle(&self, event: Event<u32>, cx: &Context) -> Result<(), Failure> {
        let chunks = event.payload / u32::from(event.attempt()).pow(3);
        for _chunk in 0..chunks {
            thread::sleep(Duration::from_millis(1)); // some work
            if cx.is_cancelled() {
                return Err(Failure::retry("gave up halfway"));
            }
        }
        Ok(cx.reply(&event.attempt())?)
    }
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let bus = Bus::builder().store_url("memory:").start().await?;
    let patience = Duration::from_secs(5);

    let page = "https://example.org".to_owned();
    let attempt: u16 = bus.queue::<fetch_page>().call(page, patience).await?;
    println!("the page came at attempt {attempt}");
    assert_eq!(attempt, 2);

    let attempt: u16 = bus.queue::<Compress>().call(400, patience).await?;
    println!("the file was compressed at attempt {attempt}");
    assert_eq!(attempt, 2);

    println!("\nwhat the records say:");
    let mut records = bus.records().page().await?.items;
    while records.len() < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await; // a reply may overtake its record
        records = bus.records().page().await?.items;
    }
    for record in &records {
        let took_us = record.stages.finished_us - record.stages.started_us;
        let (queue, attempt, outcome) = (&record.queue, record.attempt, record.outcome);
        let cause = record.cause.map_or("", Cause::as_str);
        println!(
            "  {queue:<10} attempt {attempt}, {:>3} ms: {outcome} {cause}",
            took_us / 1_000
        );
    }
    let causes: Vec<_> = records.iter().map(|record| record.cause).collect();
    assert_eq!(
        causes,
        [Some(Cause::TimedOut), None, Some(Cause::TimedOut), None]
    );
    bus.shutdown(Duration::from_secs(1)).await
}
