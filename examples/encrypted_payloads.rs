//! How are payloads encrypted, so that access to the store does not reveal them?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::codec::{Key, KeyRing};
use duly::prelude::*;
use duly::records::Cause;

static CHARGED: AtomicU64 = AtomicU64::new(0);

#[derive(Serialize, Deserialize)]
struct Card {
    number: String,
}

#[delay_event(queue = "charge", encrypt = true)]
async fn charge(event: Event<Card>) -> Result<(), Failure> {
    CHARGED.fetch_add(1, Ordering::Relaxed);
    println!(
        "charging the card that ends in {}",
        &event.payload.number[12..]
    );
    Ok(())
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    // In production from the settings: `encryption.keys_file` and `encryption.use`.
    let keys = KeyRing::new();
    keys.add("2026-11", Key::new([42; 32]))?;
    keys.choose("2026-11")?;
    let builder = Bus::builder().store_url("memory:");
    let bus = builder.keys(keys).start().await?;
    let queue = bus.queue::<charge>();
    let card = || Card {
        number: "4711471147114711".to_owned(),
    };

    let sent = queue.push(card(), Duration::from_millis(300)).await?;
    let waiting = queue.get(sent.id()).await?.and_then(|found| found.body);
    let stored = waiting.expect("it waits").payload.clone();
    assert!(!String::from_utf8_lossy(stored.as_bytes()).contains("4711"));
    println!(
        "in the store: {} bytes, and no number among them",
        stored.len()
    );

    // A process without the key cannot handle it: it becomes a dead letter, and nothing is lost.
    bus.keys().add("2026-12", Key::new([43; 32]))?;
    bus.keys().choose("2026-12")?;
    bus.keys().remove("2026-11")?;
    let letter = loop {
        let page = bus.dead_letters().queue("charge").page().await?;
        match page.items.into_iter().next() {
            Some(letter) => break letter,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert_eq!(letter.cause(), Some(Cause::Undecryptable));
    println!("{letter}");
    println!("its payload: {}", letter.payload_shown());

    bus.keys().add("2026-11", Key::new([42; 32]))?;
    let lost = bus.dead_letters().cause(Cause::Undecryptable);
    assert_eq!(lost.revive_all().await?.finished()?.done, 1);
    while CHARGED.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(letter.payload_as::<Card>()?.number, card().number);
    bus.shutdown(Duration::from_secs(5)).await
}
