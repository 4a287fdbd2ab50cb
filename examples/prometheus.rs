//! How does Prometheus see what a bus does, and what is coming?
//!
//! Beside it lie a board and alerts for it, in `dashboards/`.

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use duly::metrics::MetricsChoices;
use duly::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

#[delay_event(queue = "parcels", attempts = 2, backoff = "fixed(50ms)")]
async fn deliver(event: Event<u32>) -> Result<(), Failure> {
    sleep(Duration::from_millis(2)).await;
    match event.payload {
        13 => Err(Failure::permanent("nobody lives there")),
        _ => Ok(()),
    }
}

/// What `curl` prints.
async fn scrape(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}

/// The value of a series of the queue.
fn value<'a>(page: &'a str, name: &str, labels: &str) -> &'a str {
    let series = format!("duly_{name}{{queue=\"parcels\"{labels}}} ");
    let mut lines = page.lines();
    lines
        .find_map(|line| line.strip_prefix(&series))
        .unwrap_or("?")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // In a program of yours it stands in the settings: `metrics.listen = "127.0.0.1:9464"`.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?; // a port that is free
    let choices = MetricsChoices {
        listen: Some(address),
        census_every: Some(Duration::from_millis(200)), // so that nobody has to wait here
        ..MetricsChoices::default()
    };
    let bus = Bus::builder()
        .store_url("memory:")
        .metrics(choices)
        .start()
        .await?;
    let parcels = bus.queue::<deliver>();
    for number in 0..200_u32 {
        parcels
            .push(number, Duration::from_millis(u64::from(number) * 2))
            .await?;
    }
    parcels.push_many(0..500, Duration::from_secs(45)).await?; // they are still to come
    sleep(Duration::from_millis(1_200)).await;

    let page = scrape(address).await?;
    let due = |within: &str| value(&page, "queue_due", &format!(",within=\"{within}\""));
    let soon = value(
        &page,
        "lateness_seconds_bucket",
        ",stage=\"total\",le=\"0.005\"",
    );
    let dead = value(&page, "queue_depth", ",state=\"dead\"");
    println!(
        "curl http://{address}/metrics has {} lines; they say:",
        page.lines().count()
    );
    println!(
        "{} parcels were on their way",
        value(&page, "delivered_total", "")
    );
    println!("{soon} of them set out within 5 ms of their time");
    println!("{dead} is a dead letter, since nobody lives at number 13");
    println!(
        "{} are due within 10 s, {} within a minute",
        due("10s"),
        due("1m")
    );
    assert_eq!((dead, due("10s"), due("1m")), ("1", "0", "500"));
    Ok(bus.shutdown(Duration::from_secs(5)).await?)
}
