//! What happens when a handler fails, and what determines when it is retried?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly::State;
use duly::prelude::*;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Hears the number and the time of each attempt; and whether the sleeper was snoozed for.
struct Hears(mpsc::Sender<(u16, Instant)>, AtomicBool);

/// What a partner's interface does to us.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Partner {
    Down,
    Busy,
    Asleep,
}

#[delay_event(queue = "partner", attempts = 5, backoff = "exp(100ms..1s)")]
async fn ask(event: Event<Partner>, State(hears): State<Hears>) -> Result<(), Failure> {
    hears.0.send((event.attempt(), Instant::now())).await?;
    match (event.payload, event.attempt()) {
        // Any error, and any that `?` returns: tried again by the backoff of the queue.
        (Partner::Down, 1..=3) => Err(std::io::Error::other("connection refused"))?,
        // The partner has said when to come back; the attempt counts.
        (Partner::Busy, 1) => Err(Failure::retry_after(Duration::from_millis(250), "busy"))?,
        // Nothing is wrong, it is only too soon; the attempt does not count.
        (Partner::Asleep, _) if !hears.1.swap(true, Ordering::Relaxed) => {
            Err(Failure::snooze(Duration::from_millis(150)))?;
        }
        _ => {}
    }
    Ok(())
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let (hears, mut heard) = mpsc::channel(16);
    let bus = Bus::builder()
        .store_url("memory:")
        .state(Hears(hears, AtomicBool::new(false)))
        .start()
        .await?;

    for (partner, attempts, waits_ms) in [
        (
            Partner::Down,
            [1, 2, 3, 4].as_slice(),
            [100, 200, 400].as_slice(),
        ),
        (Partner::Busy, &[1, 2], &[250]),
        (Partner::Asleep, &[1, 1], &[150]),
    ] {
        bus.queue::<ask>().push(partner, When::Now).await?;
        let mut tried = Vec::new();
        while tried.len() < attempts.len() {
            tried.push(heard.recv().await.expect("the bus holds the other end"));
        }
        println!("{partner:?}");
        for (number, at) in &tried {
            println!(
                "  attempt {number} after {:>3} ms",
                (*at - tried[0].1).as_millis()
            );
        }
        assert!(tried.iter().map(|(number, _)| number).eq(attempts));
        for (pair, wait_ms) in tried.windows(2).zip(waits_ms) {
            assert!(
                pair[1].1 - pair[0].1 >= Duration::from_millis(*wait_ms),
                "never early"
            );
        }
    }
    bus.shutdown(Duration::from_secs(1)).await
}
