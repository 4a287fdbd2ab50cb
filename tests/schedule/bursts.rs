//! Changes of a schedule that follow one another within a second, by two processes that carry it out
//! meanwhile: what was done last holds.
//!
//! `DULY_SCHEDULE_SEEDS` sets how many seeds are run (default 6), from `DULY_SCHEDULE_FROM` on
//! (default: anywhere); `DULY_SCHEDULE_SEED` runs one.

use std::time::Duration;

use duly::prelude::*;
use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::store::operation::StoreOp;
use duly::testing::TestBus;
use duly::time::Timestamp;
use fastrand::Rng;

use super::programs::Shared;
use super::runs::{Seen, builder, bus, instants, options};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);
const NAME: &str = "often";

/// What there is, as whoever made the changes knows it.
#[derive(Debug, Default)]
struct Known {
    seed: u64,
    set: Option<ScheduleOptions>,
    is_paused: bool,
}

fn some(random: &mut Rng) -> ScheduleOptions {
    let when = ["every 30s", "every 1m phase 7s", "* * * * * Asia/Kathmandu"];
    let overlap = [
        OverlapPolicy::Allow,
        OverlapPolicy::Skip,
        OverlapPolicy::Wait,
    ];
    let missed = [MissedPolicy::Once, MissedPolicy::All(1_000)];
    let options = options(random.choice(when).unwrap());
    let options = options.overlap(random.choice(overlap).unwrap());
    options.missed(random.choice(missed).unwrap())
}

/// A process to which the store is some milliseconds away.
async fn start(shared: &Shared, seen: &Seen, mut random: Rng) -> TestBus {
    let way = Faulty::to(&shared.store);
    way.meets(move |_, _| match random.u32(..4) {
        0 => Fault::LatePolicy(Duration::from_millis(random.u64(1..60))),
        1 => Fault::Held(Duration::from_millis(random.u64(1..60))),
        _ => Fault::None,
    });
    let bus = builder(seen, &[]).shared_store(way as _);
    TestBus::start_on(shared.clock(), bus).await.unwrap()
}

async fn change(bus: &Bus, known: &mut Known, random: &mut Rng) {
    let schedules = bus.schedules();
    let what = format!("DULY_SCHEDULE_SEED={}: {:?}", known.seed, known.set);
    let is_found = |changed: duly::Result<()>| match changed {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{error}"),
    };
    match random.u32(..5) {
        0 | 1 => {
            let options = some(random);
            schedules.set(NAME, options.clone()).await.unwrap();
            if known.set.replace(options).is_none() {
                known.is_paused = false;
            }
        }
        2 => {
            let paused = schedules.pause(NAME).await;
            assert_eq!(is_found(paused), known.set.is_some(), "{what}");
            known.is_paused = true;
        }
        3 => {
            let resumed = schedules.resume(NAME).await;
            assert_eq!(is_found(resumed), known.set.is_some(), "{what}");
            known.is_paused = false;
        }
        _ => {
            let was_there = schedules.remove(NAME).await.unwrap();
            assert_eq!(was_there, known.set.take().is_some(), "{what}");
        }
    }
    let found = schedules.get(NAME).await.unwrap();
    let found = found.map(|found| found.options);
    assert_eq!(found, known.set, "after {what}");
}

async fn run(seed: u64) {
    let mut random = Rng::with_seed(seed);
    fastrand::seed(seed);
    let (shared, seen) = (Shared::new(), Seen::default());
    let buses = [
        start(&shared, &seen, random.fork()).await,
        start(&shared, &seen, random.fork()).await,
    ];
    let mut known = Known {
        seed,
        ..Known::default()
    };
    for burst in 0..20 {
        for _ in 0..random.u32(1..8) {
            let bus = &buses[random.usize(..2)];
            change(bus, &mut known, &mut random).await;
            tokio::time::sleep(Duration::from_millis(random.u64(..200))).await;
        }
        // What was due then may still be under way.
        let from = buses[0].now() + Duration::from_secs(3);
        buses[0].advance(MINUTE * random.u32(1..6)).await;
        let until = buses[0].now();
        buses[0].advance(Duration::from_secs(3)).await;
        let options = known.set.as_ref().filter(|_| !known.is_paused);
        let within = |at: &Timestamp| from < *at && *at <= until;
        let expected = options.into_iter().flat_map(|it| it.instants(from));
        let expected: Vec<_> = expected.take_while(within).collect();
        let mut all = instants(&seen, NAME);
        all.sort_unstable();
        let ran: Vec<_> = { all.iter().copied() }.filter(within).collect();
        let what = format!("DULY_SCHEDULE_SEED={seed}, burst {burst}: {known:?}");
        assert_eq!(ran, expected, "{what}");
        let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "{what}");
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
#[allow(clippy::print_stdout)] // it tells where to look again
async fn of_changes_within_a_second_the_last_holds_and_no_instant_runs_twice() {
    if let Some(seed) = number("DULY_SCHEDULE_SEED") {
        return run(seed).await;
    }
    let seeds = number("DULY_SCHEDULE_SEEDS").unwrap_or(6);
    let anywhere = || fastrand::u64(..1 << 32);
    let first = number("DULY_SCHEDULE_FROM").unwrap_or_else(anywhere);
    println!("{seeds} seeds from {first} on");
    for seed in first..first + seeds {
        run(seed).await;
    }
}

/// A process carries a schedule out and dies, or hangs for a while, before it acks a link.
#[tokio::test(start_paused = true)]
async fn a_link_whose_ack_is_late_does_not_bring_a_removed_schedule_back() {
    let second = Duration::from_secs(1);
    for fault in [
        Fault::Hung,
        Fault::LatePolicy(second * 5),
        Fault::Held(second * 5),
    ] {
        let (shared, seen) = (Shared::new(), Seen::default());
        let way = Faulty::to(&shared.store);
        way.meets(move |_, op| match op {
            StoreOp::Settle { .. } => fault,
            _ => Fault::None,
        });
        let hanging = Bus::builder().publish_only().run_schedules(true);
        let hanging = hanging.shared_store(way as _);
        let _hanging = TestBus::start_on(shared.clock(), hanging).await.unwrap();
        let maker = shared.start(Bus::builder().publish_only()).await;
        let schedules = maker.schedules();
        schedules.set(NAME, options("every 30s")).await.unwrap();
        maker.advance(second).await;
        let bus = shared.start(builder(&seen, &[])).await;
        assert!(schedules.remove(NAME).await.unwrap());
        for passed in 0..40 {
            bus.advance(second).await;
            let found = schedules.get(NAME).await.unwrap();
            assert!(found.is_none(), "{fault:?}, {passed} s: {found:?}");
        }
        let from = bus.now();
        schedules.set(NAME, options("every 1m")).await.unwrap();
        bus.advance(MINUTE * 3).await;
        let all = instants(&seen, NAME);
        let expected: Vec<_> = options("every 1m").instants(from).take(3).collect();
        assert_eq!(all, expected, "{fault:?}");
    }
}

/// What was to come of the options before a pause is no reason to pass over instants of others.
#[tokio::test(start_paused = true)]
async fn other_options_during_a_pause_have_each_of_their_instants() {
    let second = Duration::from_secs(1);
    for (before, after) in [
        ("every 1m phase 7s", "every 30s"),
        ("every 5m", "every 10s"),
        ("every 10s", "every 1m"),
    ] {
        for steps in ["psr", "prs", "spr", "ppsr", "sprs", "psrps"] {
            for between in [Duration::ZERO, second] {
                let (bus, seen) = bus(&[(NAME, options(before))]).await;
                bus.advance(MINUTE * 3 / 2).await;
                let schedules = bus.schedules();
                for step in steps.chars() {
                    match step {
                        'p' => schedules.pause(NAME).await.unwrap(),
                        'r' => schedules.resume(NAME).await.unwrap(),
                        _ => schedules.set(NAME, options(after)).await.unwrap(),
                    }
                    bus.advance(between).await;
                }
                schedules.resume(NAME).await.unwrap();
                let from = bus.now();
                bus.advance(MINUTE * 6).await;
                let until = bus.now();
                let after = options(after);
                let expected = after.instants(from).take_while(|at| *at <= until);
                let ran = instants(&seen, NAME);
                let ran: Vec<_> = ran.into_iter().filter(|at| *at > from).collect();
                let what = format!("{before}, {after:?}, {steps}, {between:?}");
                assert_eq!(ran, expected.collect::<Vec<_>>(), "{what}");
            }
        }
    }
}
