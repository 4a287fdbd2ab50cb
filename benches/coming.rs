//! What a forecast costs, and whether pushes are slower while forecasts are asked for.
//!
//! ```text
//! cargo bench --bench coming                      # 2 million events in memory, 1 million on Redis
//! cargo bench --bench coming -- --events 10000000 # so many in memory
//! cargo bench --bench coming -- --quick           # some seconds, for a first look
//! ```
//!
//! A third of the events is due at one instant, as at midnight, the rest is spread over a day. Then
//! the same pushes are made with nobody asking and with a forecast of 60 steps each second, one
//! after the other in each pass. Rates are this machine's; the ratio of the two travels.
//! `-- memory` and `-- redis` are the parts.

#![allow(clippy::print_stdout)] // a bench talks

#[path = "../tests/servers/mod.rs"]
mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly::prelude::*;
use duly::time::{Clock, SystemClock};

type Outcome<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const QUEUE: &str = "order-close";
const DAY: Duration = Duration::from_secs(86_400);
const MIDNIGHT: Duration = Duration::from_secs(40_000);
const BATCH: u64 = 1_000;
/// How far apart forecasts begin.
const ASKED_EVERY: Duration = Duration::from_secs(1);
const STEPS: u32 = 60;

fn main() -> Outcome {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let benching = asked.iter().any(|arg| arg == "--bench");
    let quick = asked.iter().any(|arg| arg == "--quick") || !benching;
    let after = |name: &str| asked.iter().skip_while(|arg| *arg != name).nth(1);
    let events = match after("--events") {
        Some(events) => events.parse()?,
        None if quick => 100_000,
        None => 2_000_000,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let passes = if quick { 2 } else { 7 };
    let wanted = |part: &str| {
        let other = |part: &str| asked.iter().any(|arg| arg == part);
        other(part) || !(other("memory") || other("redis"))
    };
    if wanted("memory") {
        let url = "memory:".to_owned();
        runtime
            .block_on(async move { tokio::spawn(measure("memory", url, events, passes)).await? })?;
    }
    if wanted("redis") {
        let server = servers::Redis::plain();
        let (url, events) = (server.url(), events.min(1_000_000));
        runtime
            .block_on(async move { tokio::spawn(measure("redis", url, events, passes)).await? })?;
    }
    Ok(())
}

async fn measure(name: &'static str, url: String, events: u64, passes: usize) -> Outcome {
    let clock = SystemClock::new();
    let builder = Bus::builder().settings(Default::default()).store_url(url);
    let bus = builder.publish_only().start().await?;
    let before = resident()?;
    for from in (0..events).step_by(BATCH as usize) {
        push(&bus, from..(from + BATCH).min(events)).await?;
    }
    let took = (resident()? - before) as f64 / events as f64;
    println!("\n{name}: {events} events that are due later, {took:.0} bytes each of this process");

    let asking = Arc::new(AtomicBool::new(false));
    let asker = tokio::spawn(ask(bus.clone(), Arc::clone(&asking)));
    let mut rates = [Vec::new(), Vec::new()];
    let many = (events / 10).clamp(BATCH, 200_000);
    for pass in 0..passes {
        for with in [pass % 2, 1 - pass % 2] {
            asking.store(with == 1, Ordering::Relaxed);
            let began = clock.mono();
            for from in (0..many).step_by(BATCH as usize) {
                push(&bus, from..from + BATCH).await?;
            }
            let took = clock.mono().since(began);
            rates[with].push(many as f64 / took.as_secs_f64());
        }
    }
    asker.abort();
    let [without, with] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!("push, batches of {BATCH}, nobody asks          {without:>10.0}/s");
    println!(
        "push, with a forecast each second            {with:>10.0}/s   {:.2}",
        with / without
    );

    for steps in [1, STEPS, 400] {
        let mut each = Vec::new();
        for _ in 0..20 {
            let began = clock.mono();
            bus.forecast(QUEUE, DAY, DAY / steps).await?;
            each.push(clock.mono().since(began));
        }
        each.sort();
        println!(
            "a forecast of {steps} steps over 8 buckets: half within {:?}",
            each[10]
        );
    }
    let coming = bus.forecast(QUEUE, DAY, DAY / STEPS).await?;
    let counted: usize = coming.iter().map(|step| step.events).sum();
    let stats = bus.stats(QUEUE).await?;
    if counted != stats.scheduled {
        return Err(format!("{counted} were forecast of {}", stats.scheduled).into());
    }
    Ok(bus.shutdown(Duration::from_secs(5)).await?)
}

async fn push(bus: &Bus, events: std::ops::Range<u64>) -> duly::Result<()> {
    let queue = bus.queue_named::<u64>(QUEUE)?;
    let (midnight, spread): (Vec<u64>, Vec<u64>) = events.partition(|number| number % 3 == 0);
    // One of the batch says when; it lies somewhere else each time.
    let when = Duration::from_millis(fastrand::u64(1_000_000..80_000_000));
    queue.push_many(midnight, MIDNIGHT).await?;
    queue.push_many(spread, when).await?;
    Ok(())
}

/// Asks for as long as it is let.
async fn ask(bus: Bus, asking: Arc<AtomicBool>) {
    let mut due = tokio::time::interval(ASKED_EVERY);
    loop {
        due.tick().await;
        if asking.load(Ordering::Relaxed)
            && let Err(error) = bus.forecast(QUEUE, DAY, DAY / STEPS).await
        {
            println!("{error}");
        }
    }
}

/// How much memory this process has, in bytes.
fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let line = line.ok_or("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
