//! How does Prometheus read the metrics of a bus, and its forecast?
//!
//! `dashboards/` has a board for Grafana, and alerts.

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use duly::metrics::MetricsChoices;
use duly::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

#[delay_event(queue = "parcels")]
async fn deliver(event: Event<u64>) -> Result<(), Failure> {
    match event.payload {
        13 => Err(Failure::permanent("nobody lives there")),
        _ => Ok(()),
    }
}

/// What `curl` prints.
async fn scrape(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    stream.write_all(request).await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}

/// The value of a series of the queue; nothing while it is not there.
fn value<'a>(page: &'a str, name: &str, labels: &str) -> &'a str {
    let series = format!("duly_{name}{{queue=\"parcels\"{labels}}} ");
    let mut values = page.lines().filter_map(|line| line.strip_prefix(&series));
    values.next().unwrap_or_default()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // In a program of yours it stands in the settings: `metrics.listen = "127.0.0.1:9464"`.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?; // a port that is free
    let choices = MetricsChoices {
        listen: Some(address),
        depths_every: Some(Duration::from_millis(200)), // so that nobody has to wait here
        ..MetricsChoices::default()
    };
    let builder = Bus::builder().store_url("memory:").metrics(choices);
    let bus = builder.start().await?;
    let parcels = bus.queue::<deliver>();
    for number in 0..200 {
        let soon = Duration::from_millis(number * 2);
        parcels.push(number, soon).await?;
    }
    parcels.push_many(0..500, Duration::from_secs(45)).await?; // they are still to come

    let mut page = String::new();
    let told = |page: &str| {
        let [due, dead] = [r#",within="1m""#, r#",state="dead""#];
        let due = value(page, "queue_due", due) == "500";
        let dead = value(page, "queue_depth", dead) == "1";
        due && dead && value(page, "delivered_total", "") == "200"
    };
    while !told(&page) {
        sleep(Duration::from_millis(100)).await;
        page = scrape(address).await?;
    }
    let on_time = r#",stage="total",le="0.005""#;
    let on_time = value(&page, "lateness_seconds_bucket", on_time);
    println!("curl http://{address}/metrics");
    println!("200 parcels have set out, {on_time} of them within 5 ms of their time");
    println!("1 is a dead letter, since nobody lives at number 13");
    println!("500 more are due within a minute");
    Ok(bus.shutdown(Duration::from_secs(5)).await?)
}
