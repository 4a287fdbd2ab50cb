//! Shared by the benchmarks: a handler that reports when it ran, a connection, percentiles.

use std::time::Duration;

use duly::prelude::*;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Handled = mpsc::UnboundedReceiver<(u64, Instant)>;

#[delay_event(queue = "late", register = false)]
pub(crate) async fn late(
    event: Event<u64>,
    handled: duly::State<mpsc::UnboundedSender<(u64, Instant)>>,
) -> Result<(), Failure> {
    handled.send((event.payload, Instant::now())).ok();
    Ok(())
}

pub(crate) async fn client(url: &str) -> Result<Client, Failed> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Returns how long after a commit the next event was handled.
pub(crate) async fn since(committed: Instant, handled: &mut Handled) -> Result<Duration, Failed> {
    let (_, at) = handled.recv().await.ok_or("the handler is gone")?;
    Ok(at.saturating_duration_since(committed))
}

/// Returns the median and the 99th percentile, in milliseconds.
pub(crate) fn percentiles(mut late: Vec<Duration>) -> [f64; 2] {
    late.sort_unstable();
    [50, 99].map(|part| late[(late.len() - 1) * part / 100].as_secs_f64() * 1e3)
}
