//! Namespaces and schedules that rest: what they cost, and how they go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::prelude::*;
use duly::schedule::MissedPolicy;
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
