//! Namespaces and schedules that rest: what they cost, and how they go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::event::BucketKey;
use duly::prelude::*;
use duly::schedule::MissedPolicy;
use duly::store::Store;
use duly::store::operation::StoreOp;
use duly::testing::TestBus;

use super::programs::Shared;
use super::runs::{DAY, Seen, builder, instants, options};
use crate::faulty::{Fault, Faulty};

const HOUR: Duration = Duration::from_secs(3_600);

/// Counts what a bus does to queues of schedules.
fn counted(shared: &Shared) -> (Arc<Faulty>, Arc<AtomicUsize>) {
    let (way, calls) = (Faulty::to(&shared.store), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&calls);
    way.meets(move |bucket, op| {
        if bucket.queue.is_own() && !matches!(op, StoreOp::Stats) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Fault::None
    });
    (way, calls)
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_schedules_costs_nothing_and_goes_on_when_it_has_one() {
    const SPACES: usize = 12;
    let (shared, seen) = (Shared::new(), Seen::default());
    let (way, calls) = counted(&shared);
    let runs = builder(&seen, &[]).shared_store(way as _);
    let runs = TestBus::start_on(shared.clock(), runs).await.unwrap();
    let sets = shared.start(Bus::builder().publish_only()).await;
    let hourly = options("every 1h").missed(MissedPolicy::All(1_000));
    let names: Vec<_> = (0..SPACES).map(|it| format!("n{it}.hourly")).collect();
    for round in 0..2 {
        for (number, name) in names.iter().enumerate() {
            let by = [&runs, &sets][(number + round) % 2];
            by.schedules().set(name, hourly.clone()).await.unwrap();
        }
        let began = runs.now();
        runs.advance(HOUR * 2).await;
        for name in &names {
            let ran = instants(&seen, name).len();
            assert_eq!(ran, 2, "{name} at once in round {round}");
        }
        runs.advance(DAY * 2).await;
        let ended = runs.now();
        for name in &names {
            let expected = hourly.instants(began).take_while(|at| *at <= ended);
            let expected: Vec<_> = expected.collect();
            assert_eq!(instants(&seen, name), expected, "{name} in round {round}");
            assert!(runs.schedules().remove(name).await.unwrap());
        }
        runs.advance(DAY * 4).await;
        seen.lock().unwrap().clear();
        let before = calls.load(Ordering::Relaxed);
        runs.advance(DAY * 4).await;
        let cost = calls.load(Ordering::Relaxed) - before;
        assert!(cost < SPACES, "{cost} calls in round {round}");
    }
}

/// A year of 100 schedules is not due, and neither is one of 1,000.
#[tokio::test(start_paused = true)]
async fn what_a_start_costs_does_not_grow_with_the_schedules_that_rest() {
    let mut costs = Vec::new();
    for many in [100, 1_000] {
        let shared = Shared::new();
        let seen = Seen::default();
        let first = shared.start(builder(&seen, &[])).await;
        for number in 0..many {
            let name = format!("s{number}");
            let rare = options("0 0 1 1 *");
            first.schedules().set(&name, rare).await.unwrap();
        }
        first.advance(HOUR).await;
        first.shutdown(HOUR).await.unwrap();
        let (way, calls) = counted(&shared);
        let next = builder(&seen, &[]).shared_store(way as _);
        let next = TestBus::start_on(shared.clock(), next).await.unwrap();
        next.advance(HOUR).await;
        costs.push(calls.load(Ordering::Relaxed));
    }
    assert!(costs[1] <= costs[0] + 10, "{costs:?}");
}

/// What of a store does badly when a bus starts.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// Each call of the count of a bucket.
    Counts(Fault),
    /// The first call of the count of the bucket with the schedule.
    FirstCount(Fault),
    /// Whatever is done to queues of schedules.
    Schedules(Fault),
    /// It cannot list all buckets, and does not know of that with the schedule.
    Unlisted,
}

const TROUBLES: [Trouble; 8] = [
    Trouble::Counts(Fault::Refused(ErrorKind::Unavailable)),
    Trouble::Counts(Fault::Hung),
    Trouble::Counts(Fault::Held(Duration::from_secs(3))),
    Trouble::FirstCount(Fault::Refused(ErrorKind::Unavailable)),
    Trouble::FirstCount(Fault::Hung),
    Trouble::FirstCount(Fault::Held(Duration::from_secs(3))),
    Trouble::Schedules(Fault::Refused(ErrorKind::Unavailable)),
    Trouble::Unlisted,
];

/// The buckets of a queue of schedules in which there is one, or none.
async fn buckets(store: &Arc<dyn Store>, with: bool) -> Vec<BucketKey> {
    let mut found = Vec::new();
    for bucket in store.buckets().await.unwrap() {
        let stats = StoreOp::stats().apply(&**store, &bucket).await.unwrap();
        if bucket.queue.ends_with("duly.schedules") && (stats.scheduled > 0) == with {
            found.push(bucket);
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_starts_while_the_store_does_badly_passes_over_nothing_afterwards() {
    for (trouble, is_declared) in TROUBLES.iter().flat_map(|it| [(*it, false), (*it, true)]) {
        let what = format!("{trouble:?}, declared: {is_declared}");
        let (shared, seen) = (Shared::new(), Seen::default());
        let hourly = options("every 1h").missed(MissedPolicy::Skip);
        let declared = [("shop.hourly", hourly.clone())];
        let declared = if is_declared { &declared[..] } else { &[] };
        let first = shared.start(builder(&seen, declared)).await;
        let schedules = first.schedules();
        // Some have gone, and their buckets are left.
        for number in 0..6 {
            let name = format!("shop.{number}");
            schedules.set(&name, hourly.clone()).await.unwrap();
        }
        schedules.set("shop.hourly", hourly.clone()).await.unwrap();
        first.advance(HOUR).await;
        for number in 0..6 {
            schedules.remove(&format!("shop.{number}")).await.unwrap();
        }
        first.advance(HOUR).await;
        first.shutdown(HOUR).await.unwrap();
        let with = buckets(&shared.store, true).await;
        assert_eq!(with.len(), 1, "{what}");
        assert!(!buckets(&shared.store, false).await.is_empty(), "{what}");
        let way = Faulty::to(&shared.store);
        let (mut is_first, only) = (true, with[0].clone());
        match trouble {
            Trouble::Counts(fault) => way.meets(move |_, op| match op {
                StoreOp::Stats => fault,
                _ => Fault::None,
            }),
            Trouble::FirstCount(fault) => way.meets(move |bucket, op| match op {
                StoreOp::Stats if *bucket == only && std::mem::take(&mut is_first) => fault,
                _ => Fault::None,
            }),
            Trouble::Schedules(fault) => way.meets(move |bucket, _| {
                if bucket.queue.is_own() {
                    fault
                } else {
                    Fault::None
                }
            }),
            Trouble::Unlisted => way.unlisted.lock().unwrap().extend(with),
        }
        let next = builder(&seen, declared).shared_store(Arc::clone(&way) as _);
        let start = TestBus::start_on(shared.clock(), next);
        let next = start.await.unwrap();
        next.advance(Duration::from_secs(4)).await;
        way.is(Fault::None);
        way.unlisted.lock().unwrap().clear();
        let began = next.now();
        next.advance(HOUR * 9).await;
        let expected = hourly.instants(began).take_while(|at| *at <= next.now());
        let mut ran = instants(&seen, "shop.hourly");
        ran.retain(|at| *at > began);
        assert_eq!(ran, expected.collect::<Vec<_>>(), "{what}");
    }
}
