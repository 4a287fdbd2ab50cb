//! How small is a whole program?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use duly::prelude::*;

#[delay_event(queue = "greet")]
async fn greet(event: Event<String>, cx: &Context) -> Result<(), Failure> {
    println!(
        "{} ({:?} after it was due)",
        event.payload,
        event.lateness()
    );
    cx.reply(&event.payload.len())?;
    Ok(())
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let bus = Bus::builder().store_url("memory:").start().await?;
    let queue = bus.queue::<greet>();
    let letters: usize = queue
        .call("hello, on time".to_owned(), Duration::from_secs(5))
        .await?;
    assert_eq!(letters, 14);
    bus.shutdown(Duration::from_secs(1)).await
}
