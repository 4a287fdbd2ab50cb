//! A bus that dies before any of its operations, or before their replies: whatever it was at, the
//! next one goes on, and each instant is one event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::prelude::*;
use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::store::operation::StoreOp;
use duly::store::{MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};
use duly::time::{Clock, Timestamp};

use super::runs::{Seen, builder, options};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);

fn schedules() -> [(&'static str, ScheduleOptions); 3] {
    let of = |when| options(when).missed(MissedPolicy::All(1_000));
    [
        ("plain", of("every 5m")),
        ("skips", of("every 7m").overlap(OverlapPolicy::Skip)),
        ("waits", of("*/6 * * * *").overlap(OverlapPolicy::Wait)),
    ]
}

/// What a bus goes through: its schedules run, and one of them is changed, paused, resumed, removed
/// and made again.
async fn life(bus: &TestBus) -> duly::Result<()> {
    bus.advance(MINUTE * 11).await;
    let jitter = Duration::from_secs(1);
    let other = schedules()[0].1.clone().jitter(jitter)?;
    bus.schedules().set("plain", other).await?;
    bus.advance(MINUTE * 3).await;
    bus.schedules().pause("plain").await?;
    bus.advance(MINUTE * 12).await;
    bus.schedules().resume("plain").await?;
    bus.advance(MINUTE * 4).await;
    bus.schedules().set("brief", options("every 1m")).await?;
    bus.advance(MINUTE * 2).await;
    bus.schedules().remove("brief").await?;
    bus.advance(MINUTE * 5).await;
    Ok(())
}

/// Runs a bus that dies at its operation number `stop`, `is_done`: after it, and then another one.
/// Returns how many operations there were.
async fn stopped_at(stop: u64, is_done: bool) -> u64 {
    let clock = Arc::new(VirtualClock::new());
    let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
    let near: Arc<dyn Store> = Arc::new(near);
    let seen = Seen::default();
    let faulty = Faulty::to(&near);
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    faulty.meets(move |_, op| {
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
    let began = clock.now();
    let build = |store: Arc<dyn Store>| builder(&seen, &schedules()).shared_store(store);
    let setup = Bus::builder()
        .publish_only()
        .shared_store(Arc::clone(&near));
    let setup = TestBus::start_on(Arc::clone(&clock), setup).await.unwrap();
    for (name, options) in schedules() {
        setup.schedules().set(name, options).await.unwrap();
    }
    drop(setup);
    let first = TestBus::start_on(Arc::clone(&clock), build(faulty as _))
        .await
        .unwrap();
    // What hangs is given up, as by a process that dies.
    let _ = tokio::time::timeout(MINUTE * 50, life(&first)).await;
    drop(first);
    let second = TestBus::start_on(Arc::clone(&clock), build(near))
        .await
        .unwrap();
    for name in ["plain", "brief"] {
        if let Err(error) = second.schedules().resume(name).await {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }
    second.schedules().remove("brief").await.unwrap();
    second.advance(MINUTE * 40).await;
    let ended = second.now();
    second.advance(MINUTE * 10).await;

    let what = format!("stopped at operation {stop}, done: {is_done}");
    let mut ends: BTreeMap<(String, Timestamp), Vec<Outcome>> = BTreeMap::new();
    let records = second
        .records()
        .queue("report")
        .limit(1_000)
        .page()
        .await
        .unwrap();
    assert!(records.next.is_none());
    for record in records.items.into_iter().filter(|it| it.is_final()) {
        let mut instant = record.due.as_millis();
        instant -= instant % 60_000; // without jitter
        let key = (record.key.unwrap(), Timestamp::from_millis(instant));
        ends.entry(key).or_default().push(record.outcome);
    }
    for (name, options) in schedules() {
        for instant in options.instants(began).take_while(|at| *at <= ended) {
            let all = ends.get(&(name.to_owned(), instant));
            let all = all.map_or(&[][..], Vec::as_slice);
            let run = all.iter().filter(|it| **it != Outcome::Cancelled);
            assert_eq!(
                run.count(),
                1,
                "{what}: {name} at {instant}: {all:?} of {ends:#?}"
            );
        }
    }
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
    let operations = stopped_at(u64::MAX, false).await;
    assert!(operations > 100, "{operations}");
    let stride = match std::env::var("DULY_SCHEDULE_STOPS").as_deref() {
        Ok("all") => 1,
        _ => 11,
    };
    let first = fastrand::u64(..stride);
    println!(
        "{operations} operations, from {first} on each {stride}th, DULY_SCHEDULE_STOPS=all for all"
    );
    for stop in (first..operations).step_by(stride as usize) {
        stopped_at(stop, false).await;
        stopped_at(stop, true).await;
    }
}
