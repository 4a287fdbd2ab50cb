//! How does a handler push the next event?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use duly::prelude::*;
use tokio::sync::mpsc;

/// Hears what happens to an order.
struct Hears(mpsc::Sender<&'static str>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    number: u64,
}

/// Sells: there will be a reminder, and after it the end.
#[delay_event(queue = "order-sell")]
async fn sell(event: Event<Order>, cx: &Context) -> Result<(), Failure> {
    cx.state::<Hears>().0.send("sold").await?;
    let soon = Duration::from_millis(300);
    // This handler may run twice, as any may; its unique key keeps the reminder single.
    let key = format!("remind:{}", event.payload.number);
    cx.bus()
        .queue::<remind>()
        .event(event.payload)
        .after(soon)
        .unique(key, Unique::Keep)
        .push()
        .await?;
    Ok(())
}

#[delay_event(queue = "order-remind")]
async fn remind(event: Event<Order>, cx: &Context) -> Result<(), Failure> {
    cx.state::<Hears>().0.send("reminded").await?;
    let soon = Duration::from_millis(200);
    cx.bus().queue::<close>().push(event.payload, soon).await?;
    Ok(())
}

#[delay_event(queue = "order-close")]
async fn close(event: Event<Order>, cx: &Context) -> Result<(), Failure> {
    println!("order {} comes to its end", event.payload.number);
    cx.state::<Hears>().0.send("closed").await?;
    Ok(())
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let (hears, mut heard) = mpsc::channel(16);
    let bus = Bus::builder()
        .store_url("memory:")
        .state(Hears(hears))
        .start()
        .await?;
    let sold = tokio::time::Instant::now();
    bus.queue::<sell>()
        .push(Order { number: 7 }, When::Now)
        .await?;

    for (expected, after_ms) in [("sold", 0), ("reminded", 300), ("closed", 500)] {
        let step = heard.recv().await.expect("the bus holds the other end");
        println!("{step:<8} after {:>3} ms", sold.elapsed().as_millis());
        assert_eq!(step, expected);
        assert!(
            sold.elapsed() >= Duration::from_millis(after_ms),
            "never early"
        );
    }
    bus.shutdown(Duration::from_secs(1)).await
}
