//! How much does an idle bus cost?
//!
//! `cargo run --example idle -- --seconds 20` measures for longer than the default of 3 seconds.

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::fs;
use std::time::Duration;

use duly::Annotation;
use duly::prelude::*;
use tokio::time::sleep;

const QUEUES: [&str; 10] = [
    "close", "remind", "sms", "mail", "token", "trial", "cart", "invoice", "report", "partner",
];
const TOMORROW: Duration = Duration::from_secs(86_400);

struct Nothing;

impl Handler for Nothing {
    type Payload = u32;

    async fn handle(&self, _event: Event<u32>, _cx: &Context) -> Result<(), Failure> {
        Err(Failure::permanent("nothing is due today"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let seconds = match (words.next().as_deref(), words.next()) {
        (None, None) => 3,
        (Some("--seconds"), Some(seconds)) => seconds.parse::<u32>()?.clamp(1, 3_600),
        _ => return Err("usage: idle [--seconds N]".into()),
    };

    let directory = tempfile::tempdir()?;
    let url = format!("sqlite:{}", directory.path().join("duly.db").display());
    let mut builder = Bus::builder().store_url(url);
    for queue in QUEUES {
        builder = builder.register_as(Annotation::new(queue), Nothing);
    }
    let bus = builder.start().await?;
    for queue in QUEUES {
        bus.queue_named(queue)?
            .push_many(0..100_u32, TOMORROW)
            .await?;
    }
    sleep(Duration::from_millis(300)).await; // what the pushes have stirred up settles

    let before = cpu_time()?;
    sleep(Duration::from_secs(seconds.into())).await;
    let spent = cpu_time()? - before;
    let percent = spent.as_secs_f64() / f64::from(seconds) * 100.0;
    println!("10 queues, 1,000 events due tomorrow: {percent:.2} % of a core in {seconds} s");
    assert!(percent < 1.0, "a bus that waits should sleep");
    Ok(bus.shutdown(Duration::from_secs(5)).await?)
}

/// What this process has had of the processor; the system counts in hundredths of a second.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The process' name, in parentheses, may hold spaces; 12 fields after it come the two times.
    let (_, fields) = stat
        .rsplit_once(')')
        .ok_or("the system's line has no name")?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u32>);
    let ticks: u32 = ticks.sum::<Result<_, _>>()?;
    Ok(Duration::from_millis(10) * ticks)
}
