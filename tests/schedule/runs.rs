//! Occurrences: each instant is one event, on time, on the virtual clock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::event::Occurrence;
use duly::prelude::*;
use duly::records::Outcome;
use duly::schedule::{MissedPolicy, OverlapPolicy, Recurrence, ScheduleOptions};
use duly::store::{DedupWindow, MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};
use duly::time::Timestamp;
use duly::{BusBuilder, State};

use crate::faulty::Faulty;

/// What a handler was called with, and when.
pub(super) type Seen = Arc<Mutex<Vec<(Occurrence, Duration)>>>;

#[delay_event(queue = "report", register = false)]
async fn report(event: Event<Occurrence>, seen: State<Seen>) -> Result<(), Failure> {
    let lateness = event.lateness();
    assert_eq!(event.occurrence().as_ref(), Some(&event.payload));
    seen.lock().unwrap().push((event.payload, lateness));
    Ok(())
}

pub(super) async fn bus(schedules: &[(&str, ScheduleOptions)]) -> (TestBus, Seen) {
    let seen = Seen::default();
    let builder = builder(&seen, schedules);
    (TestBus::start(builder).await.unwrap(), seen)
}

pub(super) fn builder(seen: &Seen, schedules: &[(&str, ScheduleOptions)]) -> BusBuilder {
    let mut builder = Bus::builder().register(report {}).state(Arc::clone(seen));
    for (name, options) in schedules {
        builder = builder.schedule(*name, options.clone());
    }
    builder
}

pub(super) fn options(when: &str) -> ScheduleOptions {
    ScheduleOptions::new("report", when).unwrap()
}

pub(super) fn instants(seen: &Seen, schedule: &str) -> Vec<Timestamp> {
    let seen = seen.lock().unwrap();
    let of = seen.iter().filter(|(one, _)| one.schedule == schedule);
    of.map(|(one, _)| one.instant).collect()
}

pub(super) const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test(start_paused = true)]
async fn a_year_of_schedules_is_every_instant_of_their_calendars_once_and_on_time() {
    let texts = [
        "0 9 * * MON-FRI Europe/Berlin",
        "30 2 * * * America/New_York",
        "every 6h phase 5m",
    ];
    let schedules: Vec<_> = texts.iter().map(|text| (*text, options(text))).collect();
    let names = ["workdays", "nightly", "often"];
    let named: Vec<_> = names
        .iter()
        .zip(&schedules)
        .map(|(name, (_, it))| (*name, it.clone()))
        .collect();
    let (bus, seen) = bus(&named).await;
    let began = bus.now();
    bus.advance(DAY * 366).await;
    for (name, (text, _)) in names.iter().zip(&schedules) {
        let recurrence: Recurrence = text.parse().unwrap();
        let expected: Vec<_> = recurrence
            .occurrences(began)
            .take_while(|at| *at <= began + DAY * 366)
            .collect();
        let of = instants(&seen, name);
        assert!(expected.len() > 250);
        assert_eq!(of, expected, "{name}");
        let seen = seen.lock().unwrap();
        for (one, late) in seen.iter().filter(|(one, _)| one.schedule == *name) {
            assert_eq!(*late, Duration::ZERO, "{one:?}");
            let before = expected.iter().rev().find(|at| **at < one.instant);
            assert_eq!(one.previous.as_ref(), before, "{one:?}");
        }
    }
}

/// The final records of a schedule's occurrences: the instant of each, and what became of it.
pub(super) async fn ends(bus: &Bus, schedule: &str) -> Vec<(Timestamp, Outcome)> {
    let records = bus.records().queue("report").key(schedule).limit(1_000);
    let of = records.page().await.unwrap().items;
    let of = of.iter().filter(|it| it.is_final());
    let mut ends: Vec<_> = of.map(|it| (it.due, it.outcome)).collect();
    ends.sort_unstable_by_key(|(due, _)| *due);
    ends
}

/// Eight days are missed, by a pause and by a fleet that is away.
#[tokio::test(start_paused = true)]
async fn what_was_missed_is_made_up_for_as_declared_and_has_its_record() {
    for (missed, runs) in [
        (MissedPolicy::Skip, 0),
        (MissedPolicy::Once, 1),
        (MissedPolicy::All(3), 3),
        (MissedPolicy::All(100), 8),
    ] {
        for is_pause in [true, false] {
            let daily = options("0 9 * * *").missed(missed);
            let seen = Seen::default();
            let clock = Arc::new(VirtualClock::new());
            let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
            let build = || builder(&seen, &[("daily", daily.clone())]).shared_store(store.clone());
            let bus = TestBus::start_on(Arc::clone(&clock), build())
                .await
                .unwrap();
            bus.advance(DAY * 2).await;
            let bus = if is_pause {
                bus.schedules().pause("daily").await.unwrap();
                bus.advance(DAY * 8).await;
                bus.schedules().resume("daily").await.unwrap();
                bus
            } else {
                // The next occurrence is pushed already: it is late, and not missed.
                bus.shutdown(DAY).await.unwrap();
                tokio::time::advance(DAY * 9).await;
                TestBus::start_on(Arc::clone(&clock), build())
                    .await
                    .unwrap()
            };
            bus.advance(DAY).await;
            let what = format!("{missed}, pause: {is_pause}");
            let ends = ends(&bus, "daily").await;
            let count = |outcome| ends.iter().filter(|(_, it)| *it == outcome).count();
            let ahead = usize::from(!is_pause && missed != MissedPolicy::Skip);
            assert_eq!(
                count(Outcome::Acked),
                2 + runs + ahead + 1,
                "{what}: {ends:?}"
            );
            let skipped = 8 - runs + usize::from(!is_pause && missed == MissedPolicy::Skip);
            assert_eq!(count(Outcome::Expired), skipped, "{what}: {ends:?}");
            let made_up: u64 = seen.lock().unwrap().iter().map(|(one, _)| one.missed).sum();
            let coalesced = if runs == 0 { 0 } else { 8 - runs };
            assert_eq!(made_up, coalesced as u64, "{what}");
            let mut instants = instants(&seen, "daily");
            let all = instants.len();
            instants.sort_unstable();
            instants.dedup();
            assert_eq!(instants.len(), all, "{what}: each once");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_made_up_for_in_turn_counts_the_others_that_were_missed() {
    for overlap in [OverlapPolicy::Skip, OverlapPolicy::Wait] {
        for (missed, coalesced) in [
            (MissedPolicy::Skip, 0),
            (MissedPolicy::Once, 7),
            (MissedPolicy::All(3), 5),
        ] {
            let daily = options("0 9 * * *").missed(missed).overlap(overlap);
            let (bus, seen) = bus(&[("daily", daily)]).await;
            bus.advance(DAY * 2).await;
            bus.schedules().pause("daily").await.unwrap();
            bus.advance(DAY * 8).await;
            bus.schedules().resume("daily").await.unwrap();
            bus.advance(DAY * 2).await;
            let counts = seen.lock().unwrap();
            let counts: Vec<_> = counts.iter().map(|(one, _)| one.missed).collect();
            let sum: u64 = counts.iter().sum();
            assert_eq!(sum, coalesced, "{missed}, {overlap}: {counts:?}");
        }
    }
}

/// As after a clock that was set back: the bucket takes no id of now.
#[tokio::test(start_paused = true)]
async fn an_occurrence_by_hand_that_the_store_does_not_take_is_an_error() {
    let window = DedupWindow {
        keep_for: Duration::ZERO,
        cap: 20,
        ..DedupWindow::default()
    };
    let (seen, clock) = (Seen::default(), Arc::new(VirtualClock::new()));
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _).with_window(window);
    let builder = builder(&seen, &[("daily", options("0 9 * * *"))]).store(store);
    let bus = TestBus::start_on(clock, builder).await.unwrap();
    bus.settle().await;
    let first = bus.schedules().run_now("daily").await.unwrap();
    let queue = bus.queue_named::<u64>("report").unwrap();
    // Until one of this millisecond is forgotten, which closes the bucket to others of it.
    for number in 0.. {
        let id = EventId::from_parts(bus.now(), first.bucket(), number);
        match queue.event(number).id(id).after(DAY).push().await {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                break;
            }
        }
        assert!(number < 100, "nothing is forgotten");
        let cancelled = queue.cancel(id).await.unwrap();
        assert_eq!(cancelled, CancelOutcome::Cancelled);
    }
    let error = bus.schedules().run_now("daily").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    bus.advance(Duration::from_secs(31)).await;
    bus.schedules().run_now("daily").await.unwrap();
    bus.settle().await;
    assert_eq!(instants(&seen, "daily").len(), 2);
}

/// Takes longer than from an instant to the next.
#[delay_event(queue = "slow", timeout = "5m", register = false)]
async fn slow(event: Event<u64>, runs: State<Arc<Mutex<Vec<u64>>>>) -> Result<(), Failure> {
    runs.lock().unwrap().push(event.payload);
    tokio::time::sleep(Duration::from_secs(90)).await;
    Ok(())
}

/// The clock of the process that decides so is ahead of that of the store.
#[tokio::test(start_paused = true)]
async fn what_is_passed_over_is_recorded_and_comes_to_no_handler() {
    for ahead in [
        Duration::ZERO,
        Duration::from_millis(1),
        Duration::from_secs(5),
    ] {
        let clock = Arc::new(VirtualClock::new());
        let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
        let near: Arc<dyn Store> = Arc::new(near);
        let way = Faulty::to(&near);
        way.ahead_us
            .store(ahead.as_micros() as u64, Ordering::Relaxed);
        let options = ScheduleOptions::new("slow", "every 1m").unwrap();
        let options = options.payload(&7).unwrap().overlap(OverlapPolicy::Skip);
        let server = Bus::builder().publish_only().run_schedules(true);
        let server = server.schedule("often", options).shared_store(way as _);
        let server = TestBus::start_on(Arc::clone(&clock), server).await.unwrap();
        let runs = Arc::<Mutex<Vec<u64>>>::default();
        let node = Bus::builder().register(slow {}).state(Arc::clone(&runs));
        let node = node.shared_store(near).run_schedules(false);
        let node = TestBus::start_on(clock, node).await.unwrap();
        node.advance(Duration::from_secs(3_600)).await;
        let runs = runs.lock().unwrap().clone();
        assert!(runs.len() >= 25, "{ahead:?}: {runs:?}");
        assert!(runs.iter().all(|payload| *payload == 7), "{ahead:?}");
        let records = node.records().queue("slow").limit(1_000).page().await;
        let records = records.unwrap().items.into_iter();
        let ends: Vec<_> = records.map(|record| record.outcome).collect();
        let expired = ends.iter().filter(|end| **end == Outcome::Expired).count();
        assert!(expired >= 25, "{ahead:?}: {ends:?}");
        let other = |end: &&Outcome| !matches!(**end, Outcome::Expired | Outcome::Acked);
        assert_eq!(ends.iter().find(other), None, "{ahead:?}");
        drop(server);
    }
}
