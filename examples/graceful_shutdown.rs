//! What happens to running and waiting events when a process stops?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use duly::State;
use duly::prelude::*;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

const LETTERS: u32 = 20;

/// Hears of each letter that was carried to its end.
struct Hears(mpsc::Sender<u32>);

#[delay_event(queue = "letters", workers = 4)]
async fn carry(event: Event<u32>, State(hears): State<Hears>) -> Result<(), Failure> {
    sleep(Duration::from_millis(200)).await;
    hears.0.send(event.payload).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let url = format!("sqlite:{}", directory.path().join("duly.db").display());
    let (hears, mut carried) = mpsc::channel(100);

    let bus = Bus::builder()
        .store_url(&url)
        .state(Hears(hears.clone()))
        .start()
        .await?;
    bus.queue::<carry>()
        .push_many(0..LETTERS, Duration::ZERO)
        .await?;
    sleep(Duration::from_millis(100)).await; // the first four are on their way

    // What runs may end, for up to 5 s; what waits is handed back at once.
    let asked = Instant::now();
    bus.shutdown(Duration::from_secs(5)).await?;
    let (took, first) = (asked.elapsed(), carried.len());
    println!(
        "stopped after {} ms: {first} letters carried",
        took.as_millis()
    );
    assert!(
        took < Duration::from_secs(2),
        "a stop waits for what runs, not for what waits"
    );
    assert!((1..LETTERS as usize).contains(&first));

    // The next process opens the same file and finds the rest.
    let bus = Bus::builder()
        .store_url(&url)
        .state(Hears(hears))
        .start()
        .await?;
    let mut letters = Vec::new();
    while letters.len() < LETTERS as usize {
        letters.push(carried.recv().await.expect("the bus holds the other end"));
    }
    bus.shutdown(Duration::from_secs(5)).await?;
    println!("started again: {} more carried", letters.len() - first);

    letters.sort_unstable();
    assert!(
        letters.into_iter().eq(0..LETTERS),
        "each of them, and each once"
    );
    assert!(carried.try_recv().is_err());
    Ok(())
}
