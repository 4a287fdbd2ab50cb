//! How is an event traced from its push to its handler, and on?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use duly::State;
use duly::event::TraceContext;
use duly::prelude::*;
use duly::trace::names;
use tokio::sync::mpsc;
use tracing::{Instrument, Level};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

/// Where somebody's request is in its trace, as it came with an HTTP header.
const REQUEST: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Hears of each attempt, and what its event carried.
struct Hears(mpsc::Sender<Option<TraceContext>>);

#[delay_event(queue = "charge", backoff = "fixed(50ms)")]
async fn charge(
    event: Event<u64>,
    cx: &Context,
    State(hears): State<Hears>,
) -> Result<(), Failure> {
    hears.0.send(event.trace()).await?;
    if event.attempt() == 1 {
        return Err(Failure::retry("the bank is closed")); // one line in the log, in the span
    }
    tracing::info!("charged"); // whatever a handler says lies in its span
    cx.bus()
        .queue::<ship>()
        .push(event.payload, When::Now)
        .await?; // carries on the trace
    Ok(())
}

#[delay_event(queue = "ship")]
async fn ship(event: Event<u64>, State(hears): State<Hears>) -> Result<(), Failure> {
    hears.0.send(event.trace()).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    // Spans come with each event, so they are below the ordinary level and have a target of their own.
    let heard = Targets::new()
        .with_default(Level::WARN)
        .with_target("tracing", Level::INFO)
        .with_target(names::SPANS, Level::DEBUG);
    let lines = tracing_subscriber::fmt::layer().with_span_events(FmtSpan::CLOSE);
    tracing_subscriber::registry()
        .with(lines)
        .with(heard)
        .init();

    let (hears, mut hearing) = mpsc::channel(16);
    let builder = Bus::builder().store_url("memory:").state(Hears(hears));
    let bus = builder.start().await?;
    let request = tracing::info_span!("request", path = "/orders");
    let order = bus.queue::<charge>().event(7);
    let order = order.after(Duration::from_millis(50));
    let order = order.header("traceparent", REQUEST);
    let sent = order.push().instrument(request).await?;

    for attempt in ["charge, attempt 1", "charge, attempt 2", "ship, attempt 1"] {
        let carried = hearing.recv().await.expect("the bus holds the other end");
        let carried = carried.expect("the place goes from event to event");
        println!("{attempt} is of the trace {}", carried.trace());
        assert_eq!(carried.traceparent(), REQUEST);
    }
    bus.shutdown(Duration::from_secs(1)).await?;
    println!("{} was followed all the way", sent.id());
    Ok(())
}
