//! A benchmark of forecasts: their cost, and their effect on pushes.
//!
//! ```text
//! cargo bench --bench coming               # 1 million events on each store
//! cargo bench --bench coming -- --quick    # some seconds, for a first look
//! As many as a large queue contains:
//! cargo bench --bench coming -- --events 10000000 --passes 5
//! ```
//!
//! A third of the events is due at one instant, as at midnight, the rest is spread over a day. Then
//! the same pushes are made in turns of a second: without forecasts, with a forecast of 400 steps
//! each second, with ten of them each second (which wait for the limit of a bus), and with a depth
//! sample each second, ten times as often as a bus takes one. Rates are this machine's; their
//! ratios travel, so each turn is compared with the plain one in the same pass, and the median of
//! all passes is printed.
//! `-- memory`, `-- embedded` and `-- redis` are the parts. Pushed events stay: each pass takes
//! some two gigabytes more of memory where nothing slows the pushes down.

#![allow(clippy::print_stdout)] // a bench talks

#[path = "../tests/servers/mod.rs"]
mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::Annotation;
use duly::metrics::MetricsChoices;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::store::{EmbeddedStore, MemoryStore, RedisStore, Store};
use duly::time::{Clock, SystemClock};

type Outcome<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const QUEUE: &str = "order-close";
const DAY: Duration = Duration::from_secs(86_400);
const MIDNIGHT: Duration = Duration::from_secs(40_000);
const BATCH: u64 = 1_000;
/// So many batches are on their way at a time.
const PUSHERS: u64 = 4;
const STEPS: u32 = 400;

/// What goes on while events are pushed.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    /// A forecast each so often.
    Forecasts(Duration),
    DepthSampler,
}

const TURNS: [(Beside, &str); 4] = [
    (Beside::Nothing, "nobody asks"),
    (
        Beside::Forecasts(Duration::from_secs(1)),
        "one forecast of 400 steps a second",
    ),
    (
        Beside::Forecasts(Duration::from_millis(100)),
        "ten forecasts of 400 steps a second",
    ),
    (Beside::DepthSampler, "a depth_sampler each second"),
];

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    events: u64,
    passes: usize,
    turn: Duration,
}

fn main() -> Outcome {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let benching = asked.iter().any(|arg| arg == "--bench");
    let quick = asked.iter().any(|arg| arg == "--quick") || !benching;
    let after = |name: &str| asked.iter().skip_while(|arg| *arg != name).nth(1);
    let mut size = if quick {
        Size {
            events: 50_000,
            passes: 2,
            turn: Duration::from_millis(200),
        }
    } else {
        Size {
            events: 1_000_000,
            passes: 11,
            turn: Duration::from_secs(1),
        }
    };
    if let Some(events) = after("--events") {
        size.events = events.parse()?;
    }
    if let Some(passes) = after("--passes") {
        size.passes = passes.parse()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let parts = ["memory", "embedded", "redis"];
    let is_named = |part: &str| asked.iter().any(|arg| arg == part);
    let any = parts.iter().any(|part| is_named(part));
    for part in parts.into_iter().filter(|part| !any || is_named(part)) {
        let server = (part == "redis").then(servers::Redis::plain);
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let file = folder.path().join("coming.db");
        let measured = async move {
            let store: Arc<dyn Store> = match &server {
                _ if part == "memory" => Arc::new(MemoryStore::new()),
                Some(server) => Arc::new(RedisStore::open(&server.url()).await?),
                None => Arc::new(EmbeddedStore::open(&file)?),
            };
            measure(part, store, size).await
        };
        runtime.block_on(async { tokio::spawn(measured).await? })?;
    }
    Ok(())
}

async fn measure(name: &str, store: Arc<dyn Store>, size: Size) -> Outcome {
    let clock = SystemClock::new();
    let bus = || Bus::builder().settings(Default::default());
    let builder = bus().shared_store(Arc::clone(&store)).publish_only();
    let pusher = builder.start().await?;
    let before = resident()?;
    let began = clock.mono();
    push_all(&pusher, size.events).await?;
    let took = clock.mono().since(began);
    let each = resident()?.saturating_sub(before) as f64 / size.events as f64;
    println!(
        "\n{name}: {} events that are due later, pushed in {took:.0?}, {each:.0} bytes each of \
         this process",
        size.events
    );

    let mut rates = vec![Vec::new(); TURNS.len()];
    for pass in 0..size.passes {
        for turn in 0..TURNS.len() {
            let turn = (turn + pass) % TURNS.len();
            let rate = match TURNS[turn].0 {
                Beside::Nothing => pushed(&pusher, size.turn).await?,
                Beside::Forecasts(every) => {
                    let asker = tokio::spawn(ask(pusher.clone(), every));
                    let rate = pushed(&pusher, size.turn).await?;
                    asker.abort();
                    rate
                }
                Beside::DepthSampler => {
                    let counting = MetricsChoices {
                        depths_every: Some(Duration::from_secs(1).min(size.turn / 2)),
                        ..MetricsChoices::default()
                    };
                    let builder = bus().shared_store(Arc::clone(&store)).metrics(counting);
                    let builder = builder.register_as(Annotation::new("others"), Nothing);
                    let depth_sampler = builder.only_registered().start().await?;
                    let rate = pushed(&pusher, size.turn).await?;
                    drop(depth_sampler); // its store is the pusher's
                    rate
                }
            };
            rates[turn].push(rate);
        }
    }
    println!("{:<44}{:>10}  of the first", "push, while", "/s");
    let first = rates[0].clone();
    for ((_, what), rates) in TURNS.iter().zip(rates) {
        let ratios = rates.iter().zip(&first).map(|(rate, first)| rate / first);
        let ratio = middle(ratios.collect());
        println!("{what:<44}{:>10.0}  {ratio:.2}", middle(rates));
    }
    costs(&*store, &clock).await?;
    let coming = pusher.forecast(QUEUE, DAY, DAY / STEPS).await?;
    let counted: usize = coming.iter().map(|step| step.events).sum();
    let stats = pusher.stats(QUEUE).await?;
    if counted != stats.scheduled {
        return Err(format!("{counted} were forecast of {}", stats.scheduled).into());
    }
    Ok(pusher.shutdown(Duration::from_secs(5)).await?)
}

/// How long the store takes to count in one bucket, asked one after the other, with nothing beside.
async fn costs(store: &dyn Store, clock: &SystemClock) -> Outcome {
    let buckets = store.buckets().await?;
    let bucket = buckets.iter().find(|bucket| bucket.queue.as_str() == QUEUE);
    let bucket = bucket.ok_or("no bucket")?;
    let mut took = Vec::new();
    for (steps, horizon, what) in [
        (1, DAY, "one step, of a day"),
        (60, DAY, "60 steps, of a day"),
        (STEPS, DAY, "400 steps, of a day"),
        (STEPS, DAY * 10, "400 steps, of ten days"),
        (STEPS, Duration::from_secs(1), "400 steps, of a second"),
    ] {
        let within: Vec<Duration> = (1..=steps).map(|step| horizon / steps * step).collect();
        let mut each = Vec::new();
        for _ in 0..200 {
            let within = within.clone();
            let began = clock.mono();
            store.apply(bucket, StoreOp::Forecast { within }).await?;
            each.push(clock.mono().since(began).as_secs_f64() * 1e6);
        }
        let each = middle(each);
        took.push(each);
        println!("one bucket counts {what:<26}{each:>10.0} us");
    }
    let each = (took[2] - took[0]) / f64::from(STEPS - 1);
    println!("a step of a day in a bucket {each:>26.2} us");
    Ok(())
}

async fn push_all(bus: &Bus, events: u64) -> Outcome {
    let each = events.div_ceil(PUSHERS);
    let pushers = (0..PUSHERS).map(|number| {
        let (bus, all) = (
            bus.clone(),
            number * each..((number + 1) * each).min(events),
        );
        tokio::spawn(async move {
            for from in all.clone().step_by(BATCH as usize) {
                push(&bus, from..(from + BATCH).min(all.end)).await?;
            }
            Outcome::Ok(())
        })
    });
    for pusher in pushers.collect::<Vec<_>>() {
        pusher.await??;
    }
    Ok(())
}

/// Pushes for so long, and answers how many a second those were.
async fn pushed(bus: &Bus, span: Duration) -> Outcome<f64> {
    let clock = SystemClock::new();
    let began = clock.mono();
    let count = Arc::new(AtomicU64::new(0));
    let pushers = (0..PUSHERS).map(|_| {
        let (bus, count, clock) = (bus.clone(), Arc::clone(&count), SystemClock::new());
        tokio::spawn(async move {
            let began = clock.mono();
            while clock.mono().since(began) < span {
                let from = count.fetch_add(BATCH, Ordering::Relaxed);
                push(&bus, from..from + BATCH).await?;
            }
            Outcome::Ok(())
        })
    });
    for pusher in pushers.collect::<Vec<_>>() {
        pusher.await??;
    }
    Ok(count.load(Ordering::Relaxed) as f64 / clock.mono().since(began).as_secs_f64())
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
async fn ask(bus: Bus, every: Duration) {
    let mut due = tokio::time::interval(every);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        if let Err(error) = bus.forecast(QUEUE, DAY, DAY / STEPS).await {
            println!("{error}");
        }
    }
}

/// Does nothing.
#[derive(Clone, Default)]
struct Nothing;

impl Handler for Nothing {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// How much memory this process has, in bytes.
fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let line = line.ok_or("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
