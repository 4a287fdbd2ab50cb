//! What others are reported to fail at, as the guide's table has it: a test for each of its rows.

use std::sync::Arc;
use std::time::Duration;

use duly::schedule::{Recurrence, ScheduleOptions};
use duly::store::{MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};
use duly::time::{Clock, Timestamp};

use super::runs::{DAY, Seen, builder, instants, options};

const HOUR: Duration = Duration::from_secs(3_600);

/// Processes of one program on a store.
struct Fleet {
    clock: Arc<VirtualClock>,
    near: Arc<dyn Store>,
    seen: Seen,
}

impl Fleet {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
        Self {
            clock,
            near: Arc::new(near),
            seen: Seen::default(),
        }
    }

    async fn start(&self, schedules: &[(&str, ScheduleOptions)]) -> TestBus {
        let builder = builder(&self.seen, schedules).shared_store(Arc::clone(&self.near));
        let bus = TestBus::start_on(Arc::clone(&self.clock), builder).await;
        bus.unwrap()
    }

    fn expected(&self, options: &ScheduleOptions) -> Vec<Timestamp> {
        let all = options.instants(self.clock.start());
        all.take_while(|at| *at <= self.clock.now()).collect()
    }
}

/// asynq 395, 371, 653, 1013; apalis 281.
#[tokio::test(start_paused = true)]
async fn of_five_processes_that_declare_a_schedule_one_fires_at_each_instant() {
    let (fleet, hourly) = (Fleet::new(), options("0 * * * *"));
    let mut buses = Vec::new();
    for _ in 0..5 {
        buses.push(fleet.start(&[("hourly", hourly.clone())]).await);
    }
    buses[0].advance(HOUR * 12).await;
    assert_eq!(instants(&fleet.seen, "hourly"), fleet.expected(&hourly));
}

/// River 791.
#[tokio::test(start_paused = true)]
async fn a_weekly_schedule_of_a_service_that_is_deployed_weekly_runs_each_week() {
    let (fleet, weekly) = (Fleet::new(), options("0 9 * * MON"));
    for _ in 0..6 {
        // Each deploy is some hours before the instant, and takes some minutes.
        let bus = fleet.start(&[("weekly", weekly.clone())]).await;
        bus.advance(DAY * 7 - HOUR / 6).await;
        bus.shutdown(HOUR).await.unwrap();
        tokio::time::advance(HOUR / 6).await;
    }
    let bus = fleet.start(&[("weekly", weekly.clone())]).await;
    bus.settle().await;
    let expected = fleet.expected(&weekly);
    assert!(expected.len() >= 6, "{expected:?}");
    assert_eq!(instants(&fleet.seen, "weekly"), expected);
}

/// Bull 2207 runs it twice, Rundeck 6879 leaves it out.
#[tokio::test(start_paused = true)]
async fn a_daily_schedule_in_the_hour_that_clocks_skip_or_repeat_runs_once_each_day() {
    let (fleet, daily) = (Fleet::new(), options("30 2 * * * Europe/Berlin"));
    let bus = fleet.start(&[("daily", daily.clone())]).await;
    bus.advance(DAY * 365).await;
    let run = instants(&fleet.seen, "daily");
    let recurrence: &Recurrence = daily.recurrence();
    let mut days: Vec<_> = run
        .iter()
        .map(|at| recurrence.clock_time(*at)[..10].to_owned())
        .collect();
    assert_eq!(days.len(), 365);
    days.dedup();
    assert_eq!(days.len(), 365, "each day once");
    for day in ["2026-03-29", "2026-10-25"] {
        assert!(days.iter().any(|it| it == day), "{day}");
    }
}

/// XXL-JOB 1693, 3699, and 370, where it ran twice.
#[tokio::test(start_paused = true)]
async fn what_is_late_by_five_seconds_is_neither_lost_nor_run_twice() {
    let (fleet, often) = (Fleet::new(), options("*/10 * * * *"));
    let bus = fleet.start(&[("often", often.clone())]).await;
    bus.advance(HOUR + HOUR / 12).await;
    bus.shutdown(HOUR).await.unwrap();
    // Nobody is there at the next instant, until five seconds after it.
    tokio::time::advance(HOUR / 12 + Duration::from_secs(5)).await;
    let bus = fleet.start(&[("often", often.clone())]).await;
    bus.settle().await;
    assert_eq!(instants(&fleet.seen, "often"), fleet.expected(&often));
    let late = fleet.seen.lock().unwrap().last().unwrap().1;
    assert_eq!(late, Duration::from_secs(5), "late, and not missed");
}

/// graphile-worker has UTC alone.
#[tokio::test(start_paused = true)]
async fn nine_in_berlin_is_nine_there_in_winter_and_in_summer() {
    let (fleet, daily) = (Fleet::new(), options("0 9 * * * Europe/Berlin"));
    let bus = fleet.start(&[("daily", daily.clone())]).await;
    bus.advance(DAY * 200).await;
    let run = instants(&fleet.seen, "daily");
    assert_eq!(run.len(), 200);
    let hours = run.iter().map(|at| at.as_millis() / 3_600_000 % 24);
    let hours: std::collections::BTreeSet<_> = hours.collect();
    assert_eq!(hours, [7, 8].into(), "of UTC");
    for at in run {
        let clock = daily.recurrence().clock_time(at);
        assert!(clock.contains(" 09:00:00 "), "{clock}");
    }
}

/// Sidekiq has no change at run time.
#[tokio::test(start_paused = true)]
async fn a_schedule_is_made_changed_and_removed_while_programs_run() {
    let fleet = Fleet::new();
    let (runs, asks) = (fleet.start(&[]).await, fleet.start(&[]).await);
    let schedules = asks.schedules();
    schedules.set("daily", options("0 9 * * *")).await.unwrap();
    runs.advance(DAY).await;
    schedules.set("daily", options("0 10 * * *")).await.unwrap();
    runs.advance(DAY).await;
    assert!(schedules.remove("daily").await.unwrap());
    runs.advance(DAY * 2).await;
    let run = instants(&fleet.seen, "daily");
    let hours = run.iter().map(|at| at.as_millis() / 3_600_000 % 24);
    let hours: Vec<_> = hours.collect();
    assert_eq!(hours, [9, 10]);
}

/// Where a leader has to be there, nothing runs until there is another one.
#[tokio::test(start_paused = true)]
async fn whichever_process_dies_another_one_carries_schedules_out_at_the_next_instant() {
    let (fleet, often) = (Fleet::new(), options("* * * * *"));
    let schedules = [("often", often.clone())];
    let mut buses = Vec::new();
    for _ in 0..3 {
        buses.push(fleet.start(&schedules).await);
    }
    while buses.len() > 1 {
        buses[0].advance(HOUR / 6 + HOUR / 120).await;
        drop(buses.remove(0)); // as a process that is killed
    }
    buses[0].advance(HOUR / 6).await;
    assert_eq!(instants(&fleet.seen, "often"), fleet.expected(&often));
    let seen = fleet.seen.lock().unwrap();
    let late = seen.iter().map(|(_, late)| *late).max().unwrap();
    assert!(late < Duration::from_secs(30), "{late:?}");
}
