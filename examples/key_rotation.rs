//! How is the key of encrypted payloads rotated while events run?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::codec::{Key, KeyRing};
use duly::prelude::*;

static HANDLED: AtomicU64 = AtomicU64::new(0);

#[delay_event(queue = "letters", encrypt = true)]
async fn letter(event: Event<String>) -> Result<(), Failure> {
    assert!(event.payload.starts_with("dear"));
    HANDLED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let keys = KeyRing::new();
    keys.add("old", Key::new([1; 32]))?;
    keys.choose("old")?;
    let builder = Bus::builder().store_url("memory:");
    let bus = builder.keys(keys.clone()).start().await?;
    let queue = bus.queue::<letter>();
    let letters = |from: u64, many: u64| (from..from + many).map(|at| format!("dear {at}"));
    let soon = Duration::from_millis(1_500);
    queue
        .push_many(letters(0, 500), Duration::from_secs(3_600))
        .await?;
    queue.push_many(letters(500, 500), soon).await?;

    // First every process has both keys, and then all use the new one.
    keys.add("new", Key::new([2; 32]))?;
    keys.choose("new")?;
    queue.push_many(letters(1_000, 500), soon).await?;
    let counts = bus.reencrypt("letters").count().await?;
    println!(
        "under the old key {}, under the new one {}",
        counts.under("old"),
        counts.under("new")
    );
    assert_eq!((counts.under("old"), counts.under("new")), (1_000, 500));

    // What waits is written anew, at a pace, in parts that can be done one after the other.
    let mut after = None;
    loop {
        let part = bus
            .reencrypt("letters")
            .rate(5_000.0)
            .limit(400)
            .after(after);
        let part = part.run().await?.finished()?;
        println!(
            "{} written anew, {} passed over",
            part.rewritten, part.passed_over
        );
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    // A handler may have held some. When none is left, nothing needs the old key any more.
    while bus.reencrypt("letters").count().await?.under("old") > 0 {
        let _ = bus.reencrypt("letters").run().await?.finished()?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    keys.remove("old")?;

    while HANDLED.load(Ordering::Relaxed) < 1_000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(bus.stats("letters").await?.dead, 0);
    println!(
        "1000 letters were read, on time, and 500 wait under {:?}",
        keys.used()
    );
    bus.shutdown(Duration::from_secs(5)).await
}
