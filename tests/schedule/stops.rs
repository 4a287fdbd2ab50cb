//! A bus that dies before any of its operations, or before their replies: whatever it was at, the
//! next one goes on, and each instant is one event. From one case to the next the clocks of nodes
//! differ, that of the store is set, the number of buckets changes, and the next bus is of a build
//! that declares otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::prelude::*;
use duly::schedule::{Calendar, MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::store::operation::StoreOp;
use duly::store::{MemoryStore, Store};
use duly::testing::TestBus;
use duly::time::Clock;
use fastrand::Rng;

use super::calendar::{StepClock, check, ends};
use super::runs::{Seen, builder, options};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

fn schedules() -> [(&'static str, ScheduleOptions); 3] {
    let of = |when| options(when).missed(MissedPolicy::All(1_000));
    [
        ("plain", of("every 2m")),
        ("skips", of("every 3m").overlap(OverlapPolicy::Skip)),
        ("waits", of("*/2 * * * *").overlap(OverlapPolicy::Wait)),
    ]
}

/// The same instants, by other options.
fn of_another_build() -> [(&'static str, ScheduleOptions); 3] {
    let past = Calendar::new(["2001-01-01"]).unwrap();
    schedules().map(|(name, options)| (name, options.exclude(&past)))
}

/// What differs from one case to the next.
#[derive(Debug)]
struct Case {
    stop: u64,
    is_done: bool,
    seed: u64,
    /// By how much the clocks of the two nodes are wrong.
    nodes_us: [i64; 2],
    /// By how much that of the store is, after so long, and for how long.
    store: Option<(i64, Duration, Duration)>,
    buckets: [u16; 2],
    is_redeclared: bool,
}

impl Case {
    /// The one without anything else.
    fn plain(stop: u64) -> Self {
        Self {
            stop,
            is_done: false,
            seed: 0,
            nodes_us: [0, 0],
            store: None,
            buckets: [8, 8],
            is_redeclared: false,
        }
    }

    fn of(stop: u64, is_done: bool, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ (stop << 1) ^ u64::from(is_done));
        let steps = [
            SECOND_US,
            -SECOND_US,
            60 * SECOND_US,
            -60 * SECOND_US,
            DAY_US,
            -DAY_US,
        ];
        let store = random.bool().then(|| {
            // A day makes many instants, so it is rarer.
            let few = random.usize(..8);
            let step = steps[if few == 7 {
                4 + random.usize(..2)
            } else {
                few % 4
            }];
            let after = Duration::from_secs(random.u64(60..900));
            (step, after, Duration::from_secs(random.u64(1..180)))
        });
        let mut node_us = || [0, 0, 5 * SECOND_US, -5 * SECOND_US][random.usize(..4)];
        Self {
            stop,
            is_done,
            seed,
            nodes_us: [node_us(), node_us()],
            store,
            buckets: [random.u16(1..9), random.u16(1..9)],
            is_redeclared: random.bool(),
        }
    }
}

/// What a bus goes through: its schedules run, and they are changed, paused, resumed, run by hand,
/// removed and made again.
async fn life(bus: &TestBus, case: &Case) -> duly::Result<()> {
    let schedules = bus.schedules();
    bus.advance(MINUTE * 3).await;
    for (name, options) in self::schedules() {
        let jitter = Duration::from_millis(500);
        schedules.set(name, options.jitter(jitter)?).await?;
    }
    bus.advance(MINUTE).await;
    schedules.pause("plain").await?;
    schedules.pause("skips").await?;
    bus.advance(MINUTE * 3).await;
    bus.set_buckets("report", Some(case.buckets[1])).await?;
    schedules.resume("plain").await?;
    schedules.resume("skips").await?;
    bus.advance(MINUTE).await;
    schedules.set("brief", options("every 1m")).await?;
    schedules.run_now("brief").await?;
    bus.advance(MINUTE).await;
    schedules.remove("brief").await?;
    bus.advance(MINUTE * 3).await;
    Ok(())
}

/// Runs a bus that dies at an operation, before or after it, and then another one. Returns how many
/// operations there were.
async fn stopped_at(case: Case) -> u64 {
    fastrand::seed(case.seed); // of what buses draw
    let what = format!(
        "DULY_SCHEDULE_STOPS={}:{}:{}, {case:?}",
        case.stop, case.is_done, case.seed
    );
    let clock = StepClock::new();
    let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
    let near: Arc<dyn Store> = Arc::new(near);
    let seen = Seen::default();
    let way = |node: usize| {
        let (faulty, us) = (Faulty::to(&near), case.nodes_us[node]);
        let (ahead_us, behind_us) = (us.max(0).unsigned_abs(), us.min(0).unsigned_abs());
        faulty.ahead_us.store(ahead_us, Ordering::Relaxed);
        faulty.behind_us.store(behind_us, Ordering::Relaxed);
        faulty
    };
    let dying = way(0);
    let count = Arc::new(AtomicU64::new(0));
    let (counted, stop, is_done) = (Arc::clone(&count), case.stop, case.is_done);
    dying.meets(move |_, op| {
        if matches!(
            op,
            StoreOp::Reap { .. } | StoreOp::MoveDue { .. } | StoreOp::Stats
        ) {
            return Fault::None; // what a bus does again and again, whatever happens
        }
        match counted.fetch_add(1, Ordering::Relaxed) {
            number if number < stop => Fault::None,
            number if number == stop && is_done => Fault::Lost,
            _ => Fault::Hung,
        }
    });
    let began = clock.right.now();
    let start = async |store: Arc<dyn Store>, schedules: &[(&str, ScheduleOptions)]| {
        let builder = builder(&seen, schedules).shared_store(store);
        let bus = TestBus::start_on(Arc::clone(&clock.right), builder).await;
        bus.unwrap()
    };
    let setup = Bus::builder()
        .publish_only()
        .shared_store(Arc::clone(&near));
    let setup = TestBus::start_on(Arc::clone(&clock.right), setup).await;
    let setup = setup.unwrap();
    let first = Some(case.buckets[0]);
    setup.set_buckets("report", first).await.unwrap();
    for (name, options) in schedules() {
        setup.schedules().set(name, options).await.unwrap();
    }
    drop(setup);
    if let Some((ahead_us, after, span)) = case.store {
        let clock = Arc::clone(&clock);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            clock.ahead_us.store(ahead_us, Ordering::Relaxed);
            tokio::time::sleep(span).await;
            clock.ahead_us.store(0, Ordering::Relaxed);
        });
    }
    let first = start(dying as _, &schedules()).await;
    // What hangs is given up, as by a process that dies.
    let _ = tokio::time::timeout(MINUTE * 14, life(&first, &case)).await;
    drop(first);
    let declared = if case.is_redeclared {
        of_another_build()
    } else {
        schedules()
    };
    let second = start(way(1) as _, &declared).await;
    let last = Some(case.buckets[1]);
    second.set_buckets("report", last).await.unwrap();
    for name in ["plain", "skips", "brief"] {
        if let Err(error) = second.schedules().resume(name).await {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }
    second.schedules().remove("brief").await.unwrap();
    second.advance(MINUTE * 10).await;
    let ended = clock.right.now();
    second.advance(MINUTE * 3).await;
    check(&what, &ends(&second).await, &schedules(), (began, ended));
    let mut starts: Vec<_> = seen
        .lock()
        .unwrap()
        .iter()
        .map(|(one, _)| (one.schedule.clone(), one.instant))
        .collect();
    let all = starts.len();
    starts.sort_unstable();
    starts.dedup();
    // An attempt is made again if its bus died before it could say so.
    assert!(
        all - starts.len() <= 4,
        "{what}: {} of {all} twice",
        all - starts.len()
    );
    count.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
#[allow(clippy::print_stdout)] // it tells where to look again
async fn whatever_a_bus_was_at_when_it_died_each_instant_is_one_event() {
    let wanted = std::env::var("DULY_SCHEDULE_STOPS").unwrap_or_default();
    let numbers: Vec<_> = wanted.split(':').collect();
    if let [stop, is_done, seed] = numbers[..] {
        let (stop, seed) = (stop.parse().unwrap(), seed.parse().unwrap());
        stopped_at(Case::of(stop, is_done == "true", seed)).await;
        return;
    }
    let operations = stopped_at(Case::plain(u64::MAX)).await;
    assert!(operations > 100, "{operations}");
    let stride = if wanted == "all" { 1 } else { 32 };
    let (first, seed) = (fastrand::u64(..stride), fastrand::u64(..1 << 32));
    println!(
        "{operations} operations, from {first} on each {stride}th, DULY_SCHEDULE_STOPS=all for all"
    );
    for stop in (first..operations).step_by(stride as usize) {
        for is_done in [false, true] {
            stopped_at(Case::of(stop, is_done, seed)).await;
        }
    }
}
