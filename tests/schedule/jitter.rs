//! Jitter: occurrences are spread, whatever they overlap, and what waits for it is taken back.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::prelude::*;
use duly::schedule::{OverlapPolicy, ScheduleOptions};
use duly::testing::TestBus;
use duly::time::Timestamp;

use super::runs::{DAY, Seen, bus, ends, instants, options};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn occurrences_are_spread_whatever_they_overlap() {
    for overlap in [
        OverlapPolicy::Allow,
        OverlapPolicy::Skip,
        OverlapPolicy::Wait,
    ] {
        let hourly = options("every 1h").overlap(overlap);
        let (bus, seen) = bus(&[("hourly", hourly.jitter(HOUR / 2).unwrap())]).await;
        bus.advance(DAY * 2).await;
        let ends = ends(&bus, "hourly").await;
        assert!(ends.len() >= 47, "{overlap}: {ends:?}");
        let instants = instants(&seen, "hourly");
        let mut parts: Vec<_> = ends
            .iter()
            .zip(&instants)
            .map(|((due, outcome), instant)| {
                assert_eq!(*outcome, Outcome::Acked, "{overlap}: {ends:?}");
                due.since(*instant)
            })
            .collect();
        parts.sort_unstable();
        assert!(parts[0] < HOUR / 8, "{overlap}: {parts:?}");
        let last = parts.len() - 1;
        assert!(parts[last] > HOUR * 3 / 8, "{overlap}: {parts:?}");
        assert!(parts[last] <= HOUR / 2, "{overlap}: {parts:?}");
    }
}

/// A bus with a schedule of whose occurrences some wait for their jitter, most of them for hours.
async fn spread_widely() -> (TestBus, Seen) {
    let hourly = options("every 1h").jitter(HOUR * 12).unwrap();
    let (bus, seen) = bus(&[]).await;
    bus.schedules().set("hourly", hourly).await.unwrap();
    bus.advance(DAY).await;
    let waiting = bus.stats("report").await.unwrap().scheduled;
    assert!(waiting > 2, "{waiting}");
    (bus, seen)
}

/// How often each instant was run.
fn runs(seen: &Seen) -> BTreeMap<Timestamp, usize> {
    let mut runs = BTreeMap::new();
    for instant in instants(seen, "hourly") {
        *runs.entry(instant).or_default() += 1;
    }
    runs
}

#[tokio::test(start_paused = true)]
async fn of_a_schedule_that_is_removed_nothing_runs_that_waits_for_its_jitter() {
    let (bus, seen) = spread_widely().await;
    bus.schedules().remove("hourly").await.unwrap();
    bus.settle().await;
    let leased = bus.stats("report").await.unwrap().leased;
    let before = instants(&seen, "hourly").len() + leased;
    assert_eq!(bus.stats("report").await.unwrap().scheduled, 0);
    bus.advance(DAY).await;
    assert_eq!(instants(&seen, "hourly").len(), before);
}

/// Whether its removal was carried out by then, or is carried out with what it is set to.
#[tokio::test(start_paused = true)]
async fn one_that_is_set_again_after_its_removal_is_another_one() {
    for is_carried_out in [true, false] {
        let (bus, seen) = spread_widely().await;
        bus.schedules().remove("hourly").await.unwrap();
        if is_carried_out {
            bus.settle().await;
        }
        let set = bus.now();
        let plain = options("every 1h");
        bus.schedules().set("hourly", plain.clone()).await.unwrap();
        bus.settle().await;
        let leased = bus.stats("report").await.unwrap().leased;
        let before = instants(&seen, "hourly").len() + leased;
        bus.advance(DAY).await;
        let after = instants(&seen, "hourly").split_off(before);
        let expected: Vec<_> = plain.instants(set).take(after.len()).collect();
        assert_eq!(after, expected, "carried out: {is_carried_out}");
        assert!(after.len() >= 23, "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_takes_back_what_waits_for_its_jitter_and_nothing_runs_twice() {
    for _ in 0..10 {
        let (bus, seen) = spread_widely().await;
        bus.schedules().pause("hourly").await.unwrap();
        bus.settle().await;
        // What is due within the next moment may be leased already, and runs.
        let leased = bus.stats("report").await.unwrap().leased;
        let before = instants(&seen, "hourly").len() + leased;
        bus.advance(DAY).await;
        assert_eq!(instants(&seen, "hourly").len(), before);
        bus.schedules().resume("hourly").await.unwrap();
        bus.advance(DAY * 2).await;
        let runs = runs(&seen);
        assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
        assert!(runs.len() >= before + 30, "{runs:?}");
    }
}

/// What waits for its jitter stays where it is when the queue is changed, however often.
#[tokio::test(start_paused = true)]
async fn a_pause_and_a_removal_take_back_what_waits_in_the_queues_of_earlier_options() {
    for (removes, changes) in [(true, 1), (false, 1), (true, 3), (false, 3)] {
        let (bus, seen) = spread_widely().await;
        let queues: Vec<_> = (0..changes)
            .map(|change| format!("other-{change}"))
            .collect();
        for queue in &queues {
            let other = ScheduleOptions::new(queue, "every 1h").unwrap();
            let other = other.jitter(HOUR * 12).unwrap();
            bus.schedules().set("hourly", other).await.unwrap();
            bus.settle().await;
            bus.advance(HOUR * 3 / 2).await;
        }
        if removes {
            bus.schedules().remove("hourly").await.unwrap();
        } else {
            bus.schedules().pause("hourly").await.unwrap();
        }
        bus.settle().await;
        let what = format!("removes: {removes}, changes: {changes}");
        for queue in queues.iter().map(String::as_str).chain(["report"]) {
            let stats = bus.stats(queue).await.unwrap();
            assert_eq!(stats.scheduled, 0, "{what}, {queue}");
        }
        let leased = bus.stats("report").await.unwrap().leased;
        let before = instants(&seen, "hourly").len() + leased;
        bus.advance(DAY).await;
        assert_eq!(instants(&seen, "hourly").len(), before, "{what}");
    }
}

/// An attempt that was leased a moment before its time is under way, as one whose handler runs.
#[tokio::test(start_paused = true)]
async fn what_is_leased_ahead_of_its_time_runs_though_a_pause_comes_before_that() {
    let (bus, seen) = spread_widely().await;
    let waiting = bus.events().queue("report").limit(100).page().await;
    let first = waiting.unwrap().items.iter().map(|event| event.due).min();
    let left = first.unwrap().since(bus.now());
    bus.advance(left - Duration::from_millis(20)).await;
    let before = instants(&seen, "hourly").len();
    bus.schedules().pause("hourly").await.unwrap();
    bus.settle().await;
    assert_eq!(bus.stats("report").await.unwrap().leased, 1);
    bus.advance(DAY).await;
    assert_eq!(instants(&seen, "hourly").len(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_that_waits_for_its_jitter_comes_back_after_a_short_pause() {
    let daily = options("0 9 * * *").jitter(HOUR * 12).unwrap();
    let (bus, seen) = bus(&[("daily", daily.clone())]).await;
    let next = daily.instants(bus.now()).next().unwrap();
    bus.advance(next.since(bus.now()) + Duration::from_secs(5))
        .await;
    if bus.stats("report").await.unwrap().ready > 0 || !instants(&seen, "daily").is_empty() {
        return; // by chance it is due already
    }
    bus.schedules().pause("daily").await.unwrap();
    bus.settle().await;
    bus.advance(HOUR * 13).await;
    assert_eq!(instants(&seen, "daily"), []);
    bus.schedules().resume("daily").await.unwrap();
    bus.advance(HOUR).await;
    assert_eq!(instants(&seen, "daily"), [next], "it is made up for");
}

#[tokio::test(start_paused = true)]
async fn a_change_leaves_what_waits_for_its_jitter_and_nothing_runs_twice() {
    let (bus, seen) = spread_widely().await;
    let began = bus.now();
    let other = options("every 1h").jitter(HOUR * 6).unwrap();
    bus.schedules().set("hourly", other.clone()).await.unwrap();
    bus.advance(DAY).await;
    let runs = runs(&seen);
    assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    let all: Vec<_> = runs.keys().copied().filter(|at| *at <= began).collect();
    assert_eq!(all.len(), 24, "{all:?}");
}
