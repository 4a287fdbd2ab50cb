//! A benchmark of many schedules: how late their occurrences are, and what they cost while they wait.
//!
//! ```text
//! cargo bench --bench schedules               # 100,000 schedules on each store, some minutes
//! cargo bench --bench schedules -- --quick    # 2,000, for a first look
//! cargo bench --bench schedules -- --schedules 20000 redis
//! ```
//!
//! All schedules have one instant, at the begin of a minute; a minute later as many plain events are
//! due at one instant, which a store may keep together, and another minute later as many with keys of
//! their own, as occurrences have ids of their own. All are handled by the same handler in the same
//! run, so that the ratio of their lateness travels between machines. Then all schedules get an instant that is a day away,
//! and the bus is watched while nothing is due. `-- embedded` and `-- redis` are the parts.

#![allow(clippy::print_stdout)] // a bench talks

#[path = "../tests/servers/mod.rs"]
mod servers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::time::{Clock, SystemClock, Timestamp};
use duly::{Annotation, EventBuilder};
use futures_util::{StreamExt, TryStreamExt, stream};

type Outcome<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const QUEUE: &str = "report";
const MINUTE: Duration = Duration::from_secs(60);
/// So many schedules are set at a time.
const SETTERS: usize = 64;
/// How many plain events are pushed with one call.
const BATCH: usize = 1_000;
/// How long the bus is watched while it idles.
const IDLE: Duration = Duration::from_secs(20);

fn main() -> Outcome {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let benching = asked.iter().any(|arg| arg == "--bench");
    let quick = asked.iter().any(|arg| arg == "--quick") || !benching;
    let many = asked.iter().skip_while(|arg| *arg != "--schedules").nth(1);
    let many = match many {
        Some(many) => many.parse()?,
        None if quick => 2_000,
        None => 100_000,
    };
    let parts = ["embedded", "redis"];
    let is_named = |part: &&str| asked.iter().any(|arg| arg == part);
    let is_all = !parts.iter().any(is_named);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async move {
        for part in parts.into_iter().filter(|part| is_all || is_named(part)) {
            tokio::spawn(run(part, many)).await??;
        }
        Ok(())
    })
}

/// Notes how late each event is.
struct Notes(Arc<Mutex<Vec<Duration>>>);

impl Handler for Notes {
    type Payload = u64;

    async fn handle(&self, event: Event<u64>, _: &Context) -> Result<(), Failure> {
        let mut late = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        late.push(event.lateness());
        Ok(())
    }
}

async fn run(part: &str, many: usize) -> Outcome {
    let redis = (part == "redis").then(servers::Redis::plain);
    let folder = tempfile::tempdir()?;
    let url = match &redis {
        Some(redis) => redis.url(),
        None => format!("sqlite:{}", folder.path().join("duly.db").display()),
    };
    let late = Arc::new(Mutex::new(Vec::with_capacity(2 * many)));
    let bus = Bus::builder()
        .only_registered()
        .settings(Default::default())
        .store_url(url)
        .register_as(Annotation::new(QUEUE).workers(64), Notes(Arc::clone(&late)))
        .start()
        .await?;
    println!("\n{part}: {many} schedules");
    // What is set takes some time; so the first minute for that, and another one to push ahead.
    let spare = MINUTE * 2 + Duration::from_millis(many as u64 * 2);
    let wall = SystemClock::new().wall_us() / 1_000;
    let minute = (wall + spare.as_millis() as u64).div_ceil(60_000);
    let instant = Timestamp::from_millis(minute * 60_000);
    let of_day = minute % 1_440;
    let daily = format!("{} {} * * *", of_day % 60, of_day / 60);
    let took = set_all(&bus, many, &daily).await?;
    println!("{:<52} {:>10.0}/s", "set, 64 at a time", many as f64 / took);
    let queue = bus.queue_named::<u64>(QUEUE)?;
    for first in (0..many).step_by(BATCH) {
        let numbers = first..many.min(first + BATCH);
        let plain = numbers.clone().map(|number| queue.event(number as u64));
        let plain: Vec<EventBuilder<u64>> = plain.collect();
        queue.push_many(plain, instant + MINUTE).await?;
        let keyed = numbers.map(|number| queue.event(number as u64).key(format!("k{number}")));
        let keyed: Vec<EventBuilder<u64>> = keyed.collect();
        queue.push_many(keyed, instant + 2 * MINUTE).await?;
    }
    let of_schedules = herd(&late, many).await?;
    let of_plain = herd(&late, many).await?;
    let of_keyed = herd(&late, many).await?;
    println!(
        "{:<52} {:>10} {:>10} {:>10}",
        "lateness", "p50", "p99", "max"
    );
    for (name, herd) in [
        ("plain events of one instant", &of_plain),
        ("events with keys, of one instant", &of_keyed),
        ("occurrences of one instant", &of_schedules),
    ] {
        let ms = herd.map(|late| format!("{:.1} ms", late.as_secs_f64() * 1e3));
        println!("{name:<52} {:>10} {:>10} {:>10}", ms[0], ms[1], ms[2]);
    }
    for (name, herd) in [("plain events", of_plain), ("events with keys", of_keyed)] {
        let ratio = |at: usize| of_schedules[at].as_secs_f64() / herd[at].as_secs_f64();
        let [p50, p99, max] = [ratio(0), ratio(1), ratio(2)];
        let name = format!("occurrences, beside {name}");
        println!("{name:<52} {p50:>10.2} {p99:>10.2} {max:>10.2}");
    }
    // The next instant of all is a day away.
    tokio::time::sleep(MINUTE).await;
    let before = (cpu_time()?, calls(redis.as_ref()));
    tokio::time::sleep(IDLE).await;
    let cpu = (cpu_time()? - before.0).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    println!("{:<52} {cpu:>10.2} % of a core", "idle");
    if let (Some(before), Some(after)) = (before.1, calls(redis.as_ref())) {
        let rate = (after - before) as f64 / IDLE.as_secs_f64();
        println!("{:<52} {rate:>10.1}/s", "idle, commands of Redis");
    }
    bus.shutdown(MINUTE).await?;
    Ok(())
}

/// Makes the schedules; returns how many seconds it took.
async fn set_all(bus: &Bus, many: usize, when: &str) -> Outcome<f64> {
    let began = tokio::time::Instant::now();
    let options = ScheduleOptions::new(QUEUE, when)?.payload(&7)?;
    let set = (0..many).map(|number| {
        let (schedules, options) = (bus.schedules(), options.clone());
        async move { schedules.set(&format!("s{number}"), options).await }
    });
    stream::iter(set)
        .buffer_unordered(SETTERS)
        .try_collect::<()>()
        .await?;
    Ok(began.elapsed().as_secs_f64())
}

/// Waits until so many are handled, and returns the median, the 99th of a hundred and the last.
async fn herd(late: &Mutex<Vec<Duration>>, many: usize) -> Outcome<[Duration; 3]> {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut late = late.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if late.len() >= many {
            let mut of: Vec<_> = late.drain(..many).collect();
            of.sort_unstable();
            return Ok([of[many / 2], of[many * 99 / 100], of[many - 1]]);
        }
    }
}

/// The commands that a server has processed.
fn calls(redis: Option<&servers::Redis>) -> Option<u64> {
    let stats = redis?.cli(&["INFO", "stats"]);
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_commands_processed:"));
    line?.trim().parse().ok()
}

/// The processor time of this process.
fn cpu_time() -> Outcome<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = after.split_whitespace().skip(11).take(2);
    let mut ticks = || fields.next().unwrap_or_default().parse::<u64>();
    Ok(Duration::from_millis((ticks()? + ticks()?) * 10))
}
