//! What happens to events that cannot be handled, and how are they revived?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly::prelude::*;

/// Whether the printer has paper; a person puts some in later.
struct Paper(Arc<AtomicBool>);

#[delay_event(queue = "print", attempts = 2, backoff = "fixed(50ms)")]
async fn print_page(event: Event<String>, cx: &Context) -> Result<(), Failure> {
    if event.payload.is_empty() {
        return Err(Failure::permanent("there is nothing on this page")); // no retry will mend it
    }
    if !cx.state::<Paper>().0.load(Ordering::Relaxed) {
        return Err(Failure::retry("out of paper"));
    }
    println!("printed: {}", event.payload);
    Ok(())
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let paper = Arc::new(AtomicBool::new(false));
    let bus = Bus::builder()
        .store_url("memory:")
        .state(Paper(Arc::clone(&paper)))
        .start()
        .await?;
    let queue = bus.queue::<print_page>();
    queue.push("a love letter".into(), When::Now).await?;
    let empty = queue.push(String::new(), When::Now).await?;
    until(&bus, |stats| stats.dead == 2).await?;

    // Nothing is forgotten: the events are kept, and each says what was wrong with it.
    let letters = || bus.dead_letters().queue("print").by("the caretaker");
    let dead = letters().page().await?.items;
    for letter in &dead {
        println!("{letter}; its payload: {}", letter.payload_shown());
    }
    assert_eq!(letters().error("out of paper").page().await?.items.len(), 1);

    // One is of no use. The other is tried again, with all its attempts, once there is paper.
    paper.store(true, Ordering::Relaxed);
    assert_eq!(letters().drop([empty.id()]).await?.done, 1);
    let revived = letters()
        .revive(dead.iter().map(|letter| letter.id))
        .await?;
    assert_eq!(
        (dead.len(), revived.done),
        (2, 1),
        "the dropped one is gone"
    );
    until(&bus, |stats| stats.dead + stats.ready + stats.leased == 0).await?;
    let printed = bus
        .records()
        .queue("print")
        .outcome(Outcome::Acked)
        .page()
        .await?;
    assert_eq!(printed.items.len(), 1);
    bus.shutdown(Duration::from_secs(1)).await
}

/// Waits until the queue's counts are so.
async fn until(bus: &Bus, so: impl Fn(duly::admin::QueueStats) -> bool) -> duly::Result<()> {
    while !so(bus.stats("print").await?) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
