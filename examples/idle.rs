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

    let (time, wakes_before) = (cpu_time()?, wakes()?);
    sleep(Duration::from_secs(seconds.into())).await;
    let spent = cpu_time()? - time;
    let percent = spent.as_secs_f64() / f64::from(seconds) * 100.0;
    let wakes = wakes()?.saturating_sub(wakes_before) / u64::from(seconds);
    println!("10 queues, 1,000 events due tomorrow, {seconds} s:");
    println!("{percent:.2} % of a core, {wakes} wake-ups a second");
    // The share of a core depends on the machine and its other work; the wake-ups do not.
    assert!(wakes < 200, "a bus that waits should sleep");
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

/// How often the threads of this process have gone to sleep, and so were woken.
fn wakes() -> Result<u64, Box<dyn Error>> {
    let mut wakes = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        let slept = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .ok_or("the system does not count the switches of a thread")?;
        wakes += slept.trim().parse::<u64>()?;
    }
    Ok(wakes)
}
