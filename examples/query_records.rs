//! How are records queried: outcomes, lateness, errors?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use duly::prelude::*;
use duly::records::Cause;

/// A bank that is away for the first call of each, and knows no card 13.
#[delay_event(queue = "charge", attempts = 3, backoff = "fixed(20ms)")]
async fn charge(event: Event<u64>) -> Result<(), Failure> {
    match (event.payload, event.attempt()) {
        (13, _) => Err(Failure::permanent("no such card")),
        (_, 1) => Err(Failure::retry("the bank is away")),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let bus = Bus::builder().store_url("memory:").start().await?;
    let queue = bus.queue::<charge>();
    let began = queue.event(1).key("ann").push().await?.due();
    let bob = queue.event(2).key("bob").push().await?;
    queue.event(13).key("eve").push().await?;

    // Each attempt leaves one record, in the same step as its outcome.
    while bus.records().queue("charge").page().await?.items.len() < 5 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    println!("one event, attempt by attempt:");
    let history = bus.records().id(bob.id()).page().await?.items;
    for record in &history {
        let words = record.error.as_deref().unwrap_or("");
        println!("  attempt {} {}  {words}", record.attempt, record.outcome);
    }
    let outcomes = history.iter().map(|record| record.outcome);
    assert!(outcomes.eq([Outcome::Retried, Outcome::Acked]));

    println!("what failed since then, the newest first, and why:");
    let failed = bus.records().queue("charge").failed().since(began);
    let failed = failed.newest_first().page().await?.items;
    for record in &failed {
        let who = record.key.as_deref().unwrap_or("nobody");
        println!("  {who}: {}", record.error.as_deref().unwrap_or(""));
    }
    assert_eq!(failed.len(), 3);

    let cards = bus.records().cause(Cause::Failed).error_contains("card");
    let cards = cards.page().await?.items;
    assert_eq!(cards[0].key.as_deref(), Some("eve"));
    assert_eq!(cards[0].outcome, Outcome::Buried);

    println!("all of them, however many, as they come:");
    let mut all = bus.records().queue("charge").stream();
    let mut counted = 0;
    while let Some(record) = all.next().await {
        counted += usize::from(record?.stages.started_us > 0);
    }
    println!("  {counted} attempts started");
    assert_eq!(counted, 5);
    bus.shutdown(Duration::from_secs(1)).await
}
