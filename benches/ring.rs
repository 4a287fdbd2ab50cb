//! How fast are events handed to a queue's workers, and what do other queues notice of it?
//!
//! ```text
//! cargo bench --bench ring              # about two minutes
//! cargo bench --bench ring -- --quick   # a few seconds, for a first look
//! cargo bench --bench ring -- duly      # only the cases whose names hold all words
//! ```
//!
//! Measures only, and claims nothing: every table names its base case, and the last column compares
//! with it. Runs on a runtime of two threads, whatever the machine has.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]

use std::collections::VecDeque;
use std::fs;
use std::future::{Future, pending};
use std::hint::{black_box, spin_loop};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use duly::__bench::{BenchFeed, BenchPool, Deadlines};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout};

const WORKERS: usize = 64;
const CAPACITY: usize = 1_024;
const BATCH: usize = 64;
const LIMIT: Duration = Duration::from_secs(5);

fn main() {
    // `cargo test` runs a benchmark without this argument, just to see that it runs.
    let benching = std::env::args().any(|arg| arg == "--bench");
    let quick = std::env::args().any(|arg| arg == "--quick") || !benching;
    let plan = if quick {
        Plan {
            passes: 1,
            pass: Duration::from_millis(60),
            paced: 500,
        }
    } else {
        Plan {
            passes: 5,
            pass: Duration::from_millis(600),
            paced: 10_000,
        }
    };
    ready_handlers(plan);
    suspending_handlers(plan);
    if wanted("backlog") {
        backlog(plan);
    }
    if wanted("isolation") {
        isolation(plan);
    }
}

/// Whether a case was asked for: its name holds every word that was given.
fn wanted(name: &str) -> bool {
    std::env::args()
        .skip(1)
        .all(|word| word.starts_with("--") || name.contains(&word))
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    /// Passes of each case; the table shows the median.
    passes: usize,
    /// How long a pass should take.
    pass: Duration,
    /// Events of a paced queue.
    paced: usize,
}

/// An event as the pool sees it: 48 bytes.
#[derive(Clone, Default)]
struct Event {
    id: u64,
    _rest: [u64; 5],
}

impl Event {
    fn new(id: usize) -> Self {
        Self {
            id: id as u64,
            ..Self::default()
        }
    }
}

async fn ready(event: Event) {
    black_box(event.id);
}

async fn suspend_once(event: Event) {
    yield_now().await;
    black_box(event.id);
}

async fn within_limit(event: Event) {
    let _ = black_box(timeout(LIMIT, suspend_once(event)).await);
}

// ------------------------------------------------------------------------------- hand-over

fn ready_handlers(plan: Plan) {
    let mut table = Table::new(
        "hand-over, handlers that finish at once",
        "tokio mpsc + Mutex",
    );
    table.measure(plan, "tokio mpsc + Mutex", |events| {
        tokio_workers(events, ready)
    });
    table.measure(plan, "tokio mpsc + spawn", |events| {
        tokio_spawn(events, ready)
    });
    table.measure(plan, "async-channel", |events| async_channel(events, ready));
    table.measure(plan, "flume", |events| flume(events, ready));
    table.measure(plan, "kanal", |events| kanal(events, ready));
    table.measure(plan, "duly, one by one", |events| {
        duly(events, 1, None, ready)
    });
    table.measure(plan, "duly, batches of 64", |events| {
        duly(events, BATCH, None, ready)
    });
    table.print();
}

fn suspending_handlers(plan: Plan) {
    let base = "tokio mpsc + Mutex + timeout";
    let mut table = Table::new("hand-over, handlers that suspend once, limit of 5 s", base);
    table.measure(plan, base, |events| tokio_workers(events, within_limit));
    let name = "tokio mpsc + spawn + timeout";
    table.measure(plan, name, |events| tokio_spawn(events, within_limit));
    table.measure(plan, "async-channel + timeout", |events| {
        async_channel(events, within_limit)
    });
    table.measure(plan, "flume + timeout", |events| {
        flume(events, within_limit)
    });
    table.measure(plan, "kanal + timeout", |events| {
        kanal(events, within_limit)
    });
    let limit = Some(LIMIT);
    table.measure(plan, "duly, no limit", |events| {
        duly(events, 1, None, suspend_once)
    });
    table.measure(plan, "duly, one by one", |events| {
        duly(events, 1, limit, suspend_once)
    });
    table.measure(plan, "duly, batches of 64", |events| {
        duly(events, BATCH, limit, suspend_once)
    });
    table.print();
}

async fn duly<H, F>(events: usize, batch: usize, limit: Option<Duration>, handler: H)
where
    H: Fn(Event) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let pool = BenchPool::new(&Deadlines::new(), CAPACITY, WORKERS, limit, handler);
    let mut publisher = pool.publisher();
    if batch == 1 {
        for id in 0..events {
            publisher.publish(Event::new(id)).await;
        }
    } else {
        let mut batched = VecDeque::with_capacity(batch);
        for first in (0..events).step_by(batch) {
            batched.extend((first..events.min(first + batch)).map(Event::new));
            publisher.publish_many(&mut batched).await;
        }
    }
    pool.idle().await;
}

async fn tokio_workers<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = tokio::sync::mpsc::channel(CAPACITY);
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let receiver = receiver.clone();
        workers.spawn(async move {
            loop {
                let event = receiver.lock().await.recv().await;
                let Some(event) = event else { return };
                handler(event).await;
            }
        });
    }
    for id in 0..events {
        let _ = sender.send(Event::new(id)).await;
    }
    drop(sender);
    workers.join_all().await;
}

async fn tokio_spawn<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, mut receiver) = tokio::sync::mpsc::channel(CAPACITY);
    let places = Arc::new(Semaphore::new(WORKERS));
    let dispatcher = tokio::spawn(async move {
        while let Some(event) = receiver.recv().await {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            tokio::spawn(async move {
                handler(event).await;
                drop(place);
            });
        }
        let _ = places.acquire_many(WORKERS as u32).await;
    });
    for id in 0..events {
        let _ = sender.send(Event::new(id)).await;
    }
    drop(sender);
    let _ = dispatcher.await;
}

async fn async_channel<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = async_channel::bounded(CAPACITY);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let receiver = receiver.clone();
        workers.spawn(async move {
            while let Ok(event) = receiver.recv().await {
                handler(event).await;
            }
        });
    }
    for id in 0..events {
        let _ = sender.send(Event::new(id)).await;
    }
    drop(sender);
    workers.join_all().await;
}

async fn flume<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = flume::bounded(CAPACITY);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let receiver = receiver.clone();
        workers.spawn(async move {
            while let Ok(event) = receiver.recv_async().await {
                handler(event).await;
            }
        });
    }
    for id in 0..events {
        let _ = sender.send_async(Event::new(id)).await;
    }
    drop(sender);
    workers.join_all().await;
}

async fn kanal<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = kanal::bounded_async(CAPACITY);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let receiver = receiver.clone();
        workers.spawn(async move {
            while let Ok(event) = receiver.recv().await {
                handler(event).await;
            }
        });
    }
    for id in 0..events {
        let _ = sender.send(Event::new(id)).await;
    }
    drop(sender);
    workers.join_all().await;
}

/// Lines of throughput, each compared with the base case.
struct Table {
    title: &'static str,
    base: &'static str,
    lines: Vec<(&'static str, f64, f64)>,
}

impl Table {
    fn new(title: &'static str, base: &'static str) -> Self {
        Self {
            title,
            base,
            lines: Vec::new(),
        }
    }

    /// Measures a case that handles as many events as it is told to.
    fn measure<F, R>(&mut self, plan: Plan, name: &'static str, case: F)
    where
        F: Fn(usize) -> R,
        R: Future<Output = ()> + Send + 'static,
    {
        if !wanted(&format!("{}: {name}", self.title)) {
            return;
        }
        let runtime = runtime();
        let run = |events: usize| {
            let (start, cpu) = (Instant::now(), cpu_time());
            // In a task of the runtime, as a fetcher would be.
            let _ = runtime.block_on(runtime.spawn(case(events)));
            (
                start.elapsed().as_secs_f64(),
                (cpu_time() - cpu).as_secs_f64(),
            )
        };
        let mut events = 10_000;
        loop {
            let (took, _) = run(events);
            let wanted = plan.pass.as_secs_f64();
            if took * 2.0 > wanted {
                break;
            }
            events = (events as f64 * (wanted / took).clamp(1.5, 10.0)) as usize;
        }
        let mut passes: Vec<_> = (0..plan.passes).map(|_| run(events)).collect();
        passes.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (took, cpu) = passes[passes.len() / 2];
        self.lines
            .push((name, events as f64 / took, cpu * 1e9 / events as f64));
    }

    fn print(&self) {
        if self.lines.is_empty() {
            return;
        }
        let base = self.lines.iter().find(|(name, ..)| *name == self.base);
        let base = base.map_or(f64::NAN, |(_, rate, _)| *rate);
        println!("\n{}: 1 publisher, {WORKERS} workers", self.title);
        println!(
            "{:<32} {:>12} {:>14} {:>8}",
            "", "M events/s", "CPU ns/event", "ratio"
        );
        for (name, rate, cpu) in &self.lines {
            let (rate, ratio) = (rate / 1e6, rate / base);
            println!("{name:<32} {rate:>12.2} {cpu:>14.0} {ratio:>7.1}x");
        }
    }
}

// --------------------------------------------------------------------------------- backlog

/// What taking one event costs may not depend on how many are behind it.
fn backlog(plan: Plan) {
    println!("\ntaking from a backlog");
    println!(
        "{:<32} {:>12} {:>14} {:>8}",
        "backlog", "one by one", "by eight", "ratio"
    );
    let mut base = None;
    for depth in [1, 64, 1_024, 8_192] {
        let single = taking(plan, depth, 1);
        let eight = taking(plan, depth, 8);
        let ratio = single / *base.get_or_insert(single);
        println!("{depth:<32} {single:>9.1} ns {eight:>11.1} ns {ratio:>7.1}x");
    }
}

/// Nanoseconds an event for publishing `depth` events together and taking `most` at a time.
fn taking(plan: Plan, depth: usize, most: usize) -> f64 {
    let mut feed = BenchFeed::new(8_192);
    let (mut batch, mut local) = (VecDeque::with_capacity(depth), VecDeque::new());
    let (start, mut events) = (Instant::now(), 0);
    while start.elapsed() < plan.pass {
        for _ in 0..(8_192 / depth) {
            batch.extend((0..depth).map(Event::new));
            events += feed.publish_many(&mut batch);
            while feed.take(&mut local, most) {
                black_box(local.drain(..).count());
            }
            local.clear();
        }
    }
    start.elapsed().as_nanos() as f64 / events as f64
}

// ------------------------------------------------------------------------------- isolation

/// What a queue with 5,000 events a second notices of a busy neighbour.
fn isolation(plan: Plan) {
    println!("\nlateness of a queue with an event each 200 us, 16 workers each");
    println!(
        "{:<32} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "", "p50 us", "p99 us", "max us", "refused", "p99"
    );
    let mut base = None;
    for (name, neighbour) in [
        ("alone", Neighbour::None),
        ("beside one whose handlers hang", Neighbour::Hangs),
        ("beside one that burns 1 ms each", Neighbour::Burns),
    ] {
        let (mut late, refused) = lateness(plan, neighbour);
        late.sort_unstable();
        let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
        let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
        let ratio = p99 / *base.get_or_insert(p99);
        println!("{name:<32} {p50:>9.1} {p99:>9.1} {max:>9.1} {refused:>9} {ratio:>7.1}x");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Neighbour {
    None,
    Hangs,
    Burns,
}

/// How late each event of the paced queue was, and how many found no room.
fn lateness(plan: Plan, neighbour: Neighbour) -> (Vec<Duration>, usize) {
    let runtime = runtime();
    let inside = runtime.enter();
    let deadlines = Deadlines::new();

    let busy = BenchPool::new(&deadlines, 256, 16, None, move |_: Event| async move {
        match neighbour {
            Neighbour::None => {}
            Neighbour::Hangs => pending().await,
            Neighbour::Burns => {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(1) {
                    spin_loop();
                }
            }
        }
    });
    let mut publisher = busy.publisher();
    let feeding = runtime.spawn(async move {
        while neighbour != Neighbour::None && publisher.publish(Event::default()).await {}
    });

    let late = Arc::new(Mutex::new(Vec::with_capacity(plan.paced)));
    let seen = late.clone();
    let paced = BenchPool::new(&deadlines, 256, 16, None, move |published: Instant| {
        let seen = seen.clone();
        async move {
            let late = published.elapsed();
            if let Ok(mut seen) = seen.lock() {
                seen.push(late);
            }
        }
    });
    let mut publisher = paced.publisher();
    let pacing = thread::spawn(move || {
        let (mut next, mut refused) = (Instant::now(), 0);
        for _ in 0..plan.paced {
            next += Duration::from_micros(200);
            thread::sleep(next.saturating_duration_since(Instant::now()));
            refused += usize::from(publisher.try_publish(Instant::now()).is_err());
        }
        refused
    });
    let refused = pacing.join().unwrap_or_default();
    runtime.block_on(async {
        paced.idle().await;
        busy.stop().await;
        let _ = feeding.await;
    });
    drop(inside);
    let late = late.lock().map(|late| late.clone()).unwrap_or_default();
    (late, refused)
}

// ----------------------------------------------------------------------------------- tools

fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime can be made")
}

/// Processor time of this process so far, to 10 ms; none where the system does not tell.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15 count from the process' id; its name, in parentheses, may hold spaces.
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks: u32 = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u32>().ok())
        .sum();
    Duration::from_millis(10) * ticks
}
