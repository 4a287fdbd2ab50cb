//! Schedules as a simulation of whole buses: from a seed, on virtual time, nodes are killed and
//! started, networks lose, delay and refuse, clocks differ, schedules are changed, and each instant
//! of the calendar is exactly one event.
//!
//! `DULY_SCHEDULE_SEEDS` sets how many seeds are run (default 6). A failure prints its seed;
//! `DULY_SCHEDULE_SEED` runs that one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use super::successive::{MOVES, Moves, with_other};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);
/// How many nodes there are, some of which are down.
const NODES: usize = 4;
/// The one without handlers, which declares the schedules as well.
const SERVER: usize = 3;

fn schedules() -> Vec<(&'static str, ScheduleOptions)> {
    let of = |when| options(when).missed(MissedPolicy::All(1_000));
    vec![
        ("often", of("every 20s")),
        ("plain", of("every 1m phase 7s")),
        ("cron", of("*/2 * * * * Asia/Kathmandu")),
        ("skips", of("every 1m").overlap(OverlapPolicy::Skip)),
        ("waits", of("every 90s").overlap(OverlapPolicy::Wait)),
    ]
}

/// A node that runs: its bus, and whether it is dead for the store.
struct Node {
    bus: TestBus,
    is_dead: Arc<AtomicBool>,
}

struct World {
    random: Rng,
    clock: Arc<StepClock>,
    near: Arc<dyn Store>,
    seen: Seen,
    nodes: Vec<Option<Node>>,
    /// By how much the clock of each node is wrong.
    wrong_us: Vec<i64>,
    /// One call of so many meets with a fault.
    trouble: Option<u64>,
    /// A bus that carries nothing out, and meets with no trouble.
    setup: TestBus,
    moves: Moves,
}

impl World {
    async fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        fastrand::seed(seed); // of what buses draw
        let clock = StepClock::new();
        let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
        let near: Arc<dyn Store> = Arc::new(near);
        let wrong_us = (0..NODES).map(|_| random.i64(-5_000_000..=5_000_000));
        let wrong_us: Vec<_> = wrong_us.collect();
        let trouble = random.bool().then(|| random.u64(10..200));
        let setup = Bus::builder().publish_only();
        let setup = setup.shared_store(Arc::clone(&near));
        let setup = TestBus::start_on(Arc::clone(&clock.right), setup).await;
        Self {
            random,
            clock,
            near,
            seen: Seen::default(),
            nodes: (0..NODES).map(|_| None).collect(),
            wrong_us,
            trouble,
            setup: setup.unwrap(),
            moves: Moves::default(),
        }
    }

    async fn start(&mut self, node: usize) {
        let faulty = Faulty::to(&self.near);
        let us = self.wrong_us[node];
        let (ahead_us, behind_us) = (us.max(0).unsigned_abs(), us.min(0).unsigned_abs());
        faulty.ahead_us.store(ahead_us, Ordering::Relaxed);
        faulty.behind_us.store(behind_us, Ordering::Relaxed);
        let is_dead = Arc::new(AtomicBool::new(false));
        // Of two builds, the one is behind; a server may be of either.
        let is_behind = node == 0 || node == SERVER && self.random.bool();
        let declared = if is_behind {
            other_build()
        } else {
            schedules()
        };
        let mut bus = with_other(builder(&self.seen, &declared));
        if node == SERVER {
            bus = Bus::builder().publish_only().run_schedules(true);
            for (name, options) in declared {
                bus = bus.schedule(name, options);
            }
        }
        let bus = bus.shared_store(Arc::clone(&faulty) as _);
        let bus = TestBus::start_on(Arc::clone(&self.clock.right), bus);
        let bus = bus.await.unwrap();
        let (known, trouble) = (Arc::clone(&is_dead), self.trouble);
        let mut random = self.random.fork();
        faulty.meets(move |_, op| {
            if known.load(Ordering::Relaxed) {
                return Fault::Hung;
            }
            let is_often = matches!(op, StoreOp::Reap { .. } | StoreOp::MoveDue { .. });
            match trouble {
                Some(many) if !is_often && random.u64(..many) == 0 => match random.u32(..4) {
                    0 => Fault::Refused(ErrorKind::Unavailable),
                    1 => Fault::LatePolicy(Duration::from_millis(random.u64(1..3_000))),
                    2 => Fault::Lost,
                    _ => Fault::Refused(ErrorKind::Unknown),
                },
                _ => Fault::None,
            }
        });
        self.nodes[node] = Some(Node { bus, is_dead });
    }

    /// A node dies at whatever it does.
    fn kill(&mut self, node: usize) {
        if let Some(node) = self.nodes[node].take() {
            node.is_dead.store(true, Ordering::Relaxed);
        }
    }

    /// A node that runs.
    fn any(&mut self) -> Option<&Node> {
        let from = self.random.usize(..NODES);
        (from..from + NODES).find_map(|node| self.nodes[node % NODES].as_ref())
    }

    /// The schedule that moves does so, in half of the cases while it is paused.
    async fn moves(&mut self) {
        if self.random.bool() {
            self.setup.schedules().pause(MOVES).await.unwrap();
        }
        let now = self.clock.right.now();
        self.moves.make(&self.setup, now).await;
    }

    /// Somebody changes a schedule by a node; that may fail, and be done all the same.
    async fn change(&mut self) {
        let all = schedules();
        let (name, options) = all[self.random.usize(..all.len())].clone();
        if self.random.u32(..4) == 0 {
            return self.moves().await;
        }
        let (what, year) = (self.random.u32(..7), 1970 + self.random.u16(..50));
        let buckets = self.random.u16(1..9);
        let Some(node) = self.any() else {
            return;
        };
        let schedules = node.bus.schedules();
        let change = async {
            match what {
                0 | 1 => {
                    let past = Calendar::new([format!("{year}-01-01")])?;
                    schedules.set(name, options.exclude(&past)).await
                }
                2 => schedules.pause(name).await,
                3 => schedules.resume(name).await,
                4 => schedules.resume(MOVES).await,
                5 => node.bus.set_buckets("report", Some(buckets)).await,
                _ => schedules.run_now("by-hand").await.map(|_| ()),
            }
        };
        // Whoever made it may die, or its node: it is given up then.
        let _ = tokio::time::timeout(MINUTE * 2, change).await;
    }

    async fn happens(&mut self) {
        let node = self.random.usize(..NODES);
        match (self.random.u32(..6), self.nodes[node].is_some()) {
            (0 | 1, true) => self.kill(node),
            (0..=2, false) => self.start(node).await,
            (2, true) => {
                if let Some(node) = self.nodes[node].take() {
                    let _ = node.bus.shutdown(Duration::from_secs(10)).await;
                }
            }
            _ => self.change().await,
        }
    }
}

/// The same instants by other options.
fn other_build() -> Vec<(&'static str, ScheduleOptions)> {
    let past = Calendar::new(["2001-01-01"]).unwrap();
    let all = schedules().into_iter();
    all.map(|(name, options)| (name, options.exclude(&past)))
        .collect()
}

async fn run(seed: u64) {
    let what = format!("DULY_SCHEDULE_SEED={seed}");
    let mut world = World::new(seed).await;
    for (name, options) in schedules() {
        world.setup.schedules().set(name, options).await.unwrap();
    }
    let rare = options("0 0 1 1 *");
    let setup = world.setup.schedules();
    setup.set("by-hand", rare).await.unwrap();
    let began = world.clock.right.now();
    world.moves.make(&world.setup, began).await;
    world.start(1).await;
    for _ in 0..24 {
        world.happens().await;
        let span = Duration::from_millis(world.random.u64(1..40_000));
        tokio::time::sleep(span).await;
    }
    // All is well again, and what is left is made up for.
    world.trouble = None;
    for node in 0..NODES {
        world.kill(node);
    }
    world.start(2).await;
    let last = world.nodes[2].take().unwrap();
    let names = schedules().into_iter().map(|(name, _)| name);
    for name in names.chain([MOVES]) {
        last.bus.schedules().resume(name).await.unwrap();
    }
    last.bus.advance(MINUTE * 3).await;
    let ended = world.clock.right.now();
    last.bus.advance(MINUTE * 2).await;
    check(&what, &ends(&last.bus).await, &schedules(), (began, ended));
    world.moves.check(&what, &last.bus, ended).await;
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
#[allow(clippy::print_stdout)] // it tells where to look again
async fn whatever_happens_each_instant_of_the_calendar_is_exactly_one_event() {
    if let Some(seed) = number("DULY_SCHEDULE_SEED") {
        return run(seed).await;
    }
    let seeds = number("DULY_SCHEDULE_SEEDS").unwrap_or(6);
    let first = fastrand::u64(..1 << 32);
    println!("{seeds} seeds from {first} on");
    for seed in first..first + seeds {
        run(seed).await;
    }
}
