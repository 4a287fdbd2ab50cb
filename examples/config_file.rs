//! How are a queue's settings changed without recompiling, and which source wins?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use duly::config::Settings;
use duly::prelude::*;

/// What `duly.toml` says; a bus reads it by itself where it lies in the working directory.
const FILE: &str = r#"
    [store]
    url = "memory:"

    [queues.order-close]
    workers = 4
    attempts = 2
    backoff = "fixed(50ms)"
    late = "bury(1h)"
"#;

/// The annotation is what the programmer thought right.
#[delay_event(
    queue = "order-close",
    workers = 1,
    attempts = 16,
    backoff = "exp(1s..10m)"
)]
async fn close(_event: Event<u64>) -> Result<(), Failure> {
    Err(Failure::retry("the warehouse is closed today"))
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("duly.toml"), FILE).expect("a settings file");
    // A file is stronger than the annotation, the environment is stronger than a file ...
    let variables = [("DULY__QUEUES__ORDER_CLOSE__WORKERS", "8")];
    let settings = Settings::load_from(folder.path(), variables)?;
    let bus = Bus::builder().settings(settings.clone()).start().await?;
    let workers = bus.load()[0].workers;
    println!("the queue has {workers} workers, as the environment says");
    assert_eq!(workers, 8);

    let queue = bus.queue::<close>();
    queue.push(7, When::Now).await?;
    while bus.stats("order-close").await?.dead == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let tries = bus.dead_letters().page().await?.items[0].tries;
    println!("an event was tried {tries} times, as the file says");
    assert_eq!(tries, 2);
    bus.shutdown(Duration::from_secs(1)).await?;

    // ... and the builder has the last word.
    let choices = QueueChoices {
        workers: Some(2),
        ..QueueChoices::default()
    };
    let builder = Bus::builder()
        .settings(settings)
        .queue("order-close", choices);
    let bus = builder.start().await?;
    println!(
        "now it has {} workers, as the builder says",
        bus.load()[0].workers
    );
    assert_eq!(bus.load()[0].workers, 2);
    bus.shutdown(Duration::from_secs(1)).await?;

    // Nothing that is misspelt is passed over.
    let misspelt = FILE.replace("attempts", "atempts");
    let error = Settings::from_toml(&misspelt).expect_err("it is misspelt");
    println!("a slip of the pen: {error}");
    assert!(error.to_string().contains("atempts"));
    Ok(())
}
