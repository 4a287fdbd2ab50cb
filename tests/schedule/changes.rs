//! Changes of schedules while they run: nothing comes twice, nothing comes back.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::schedule::{Calendar, MissedPolicy, OverlapPolicy};
use duly::store::MemoryStore;
use duly::testing::{TestBus, VirtualClock};
use duly::time::Timestamp;
use duly::{BusBuilder, State};

use super::runs::{DAY, Seen, builder, bus, ends, instants, options};

const HOUR: Duration = Duration::from_secs(3_600);

/// A handler that takes 25 minutes.
#[delay_event(queue = "slow", register = false, timeout = "1d")]
async fn slow(event: Event<duly::event::Occurrence>, seen: State<Seen>) -> Result<(), Failure> {
    let late = event.lateness();
    seen.lock().unwrap().push((event.payload, late));
    tokio::time::sleep(HOUR * 5 / 12).await;
    Ok(())
}

async fn slow_bus(overlap: OverlapPolicy) -> (TestBus, Seen) {
    let seen = Seen::default();
    let often = duly::schedule::ScheduleOptions::new("slow", "every 10m").unwrap();
    let builder = Bus::builder().register(slow {}).state(Arc::clone(&seen));
    let builder = builder.schedule("often", often.overlap(overlap));
    (TestBus::start(builder).await.unwrap(), seen)
}

#[tokio::test(start_paused = true)]
async fn occurrences_overlap_are_passed_over_or_wait_as_declared() {
    for (overlap, runs, skipped) in [
        (OverlapPolicy::Allow, 9, 0),
        // Of three, one runs: those at 0:10, 0:40 and 1:10.
        (OverlapPolicy::Skip, 3, 6),
        // One after the other, at 0:10, 0:35, 1:00 and 1:25; of those that wait longer than a minute
        // the latest is made up for.
        (OverlapPolicy::Wait, 4, 4),
    ] {
        let (bus, seen) = slow_bus(overlap).await;
        bus.advance(HOUR * 3 / 2 + HOUR / 60).await;
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.len(), runs, "{overlap}: {seen:?}");
        let records = bus
            .records()
            .queue("slow")
            .key("often")
            .limit(1_000)
            .page()
            .await
            .unwrap();
        let expired = records
            .items
            .iter()
            .filter(|it| it.outcome == Outcome::Expired);
        let all_skipped = expired.clone().count();
        assert_eq!(all_skipped, skipped, "{overlap}");
        for pair in seen.windows(2) {
            assert_eq!(pair[1].0.previous, Some(pair[0].0.instant), "{overlap}");
        }
        bus.shutdown(Duration::ZERO).await.unwrap_or_default();
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_takes_back_what_is_to_come_and_leaves_no_gap() {
    let (bus, seen) = bus(&[("daily", options("0 9 * * *"))]).await;
    bus.advance(DAY * 3 + HOUR).await;
    let before = instants(&seen, "daily");
    // The next one is pushed already.
    let shown = bus.schedules().get("daily").await.unwrap().unwrap();
    assert_eq!(shown.ahead, [shown.next().unwrap()]);
    bus.schedules()
        .set("daily", options("30 10 * * *"))
        .await
        .unwrap();
    bus.settle().await;
    let changed_at = bus.now();
    let shown = bus.schedules().get("daily").await.unwrap().unwrap();
    assert!(!shown.is_changing, "{shown:?}");
    assert_eq!(shown.ahead, [shown.next().unwrap()]);
    bus.advance(DAY * 3).await;
    let after = &instants(&seen, "daily")[before.len()..];
    let expected: Vec<_> = options("30 10 * * *")
        .instants(changed_at)
        .take(3)
        .collect();
    assert_eq!(after, expected);
    let cancelled = ends(&bus, "daily").await;
    let cancelled = cancelled.iter().filter(|(_, it)| *it == Outcome::Cancelled);
    assert_eq!(cancelled.count(), 1, "what was taken back has its record");
}

/// A schedule's own event has its name as key, as have its occurrences.
#[tokio::test(start_paused = true)]
async fn who_cancels_or_reschedules_by_key_means_occurrences_and_no_schedule() {
    let (bus, seen) = bus(&[]).await;
    bus.schedules()
        .set("daily", options("0 9 * * *"))
        .await
        .unwrap();
    bus.advance(DAY).await;
    let events = || bus.events().key("daily");
    assert_eq!(events().reschedule(DAY).await.unwrap().len(), 1);
    assert_eq!(events().cancel().await.unwrap().len(), 1);
    bus.advance(DAY * 3).await;
    assert!(bus.schedules().get("daily").await.unwrap().is_some());
    assert_eq!(instants(&seen, "daily").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_that_somebody_cancelled_does_not_come_back() {
    let (bus, seen) = bus(&[("daily", options("0 9 * * *"))]).await;
    bus.advance(DAY).await;
    let cancelled = bus
        .schedules()
        .get("daily")
        .await
        .unwrap()
        .unwrap()
        .next()
        .unwrap();
    let queue = bus
        .queue_named::<duly::event::Occurrence>("report")
        .unwrap();
    assert_eq!(queue.cancel_by_key("daily").await.unwrap().len(), 1);
    // Neither by a change of the schedule, nor by a pause.
    let other = options("0 9 * * *").jitter(Duration::from_secs(1)).unwrap();
    bus.schedules().set("daily", other).await.unwrap();
    bus.settle().await;
    bus.schedules().pause("daily").await.unwrap();
    bus.settle().await;
    bus.schedules().resume("daily").await.unwrap();
    bus.advance(DAY * 3).await;
    let instants = instants(&seen, "daily");
    assert!(!instants.contains(&cancelled), "{cancelled}: {instants:?}");
    assert_eq!(instants.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_ends_before_the_next_instant_leaves_no_trace() {
    let (bus, seen) = bus(&[("daily", options("0 9 * * *"))]).await;
    bus.advance(DAY).await;
    for _ in 0..5 {
        bus.schedules().pause("daily").await.unwrap();
        bus.advance(Duration::from_secs(60)).await;
        let paused = bus.schedules().get("daily").await.unwrap().unwrap();
        assert!(
            paused.next().is_none() && paused.ahead.is_empty(),
            "{paused:?}"
        );
        bus.schedules().resume("daily").await.unwrap();
        bus.advance(Duration::from_secs(60)).await;
    }
    bus.advance(DAY * 3).await;
    let instants = instants(&seen, "daily");
    assert_eq!(instants.len(), 4);
    assert!(
        instants.windows(2).all(|pair| pair[1] == pair[0] + DAY),
        "{instants:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_schedule_ends_and_one_of_its_name_begins_anew() {
    let (bus, seen) = bus(&[]).await;
    let schedules = bus.schedules();
    assert!(!schedules.remove("daily").await.unwrap());
    for round in 1..=3 {
        schedules.set("daily", options("0 9 * * *")).await.unwrap();
        bus.advance(DAY).await;
        assert_eq!(instants(&seen, "daily").len(), round);
        assert!(schedules.remove("daily").await.unwrap());
        bus.advance(DAY).await;
        assert_eq!(schedules.get("daily").await.unwrap(), None);
        assert_eq!(
            instants(&seen, "daily").len(),
            round,
            "what was ahead is taken back"
        );
    }
    let error = schedules.pause("daily").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn days_of_a_calendar_are_left_out_and_are_not_missed() {
    let (bus, seen) = bus(&[]).await;
    let days: Vec<Timestamp> = options("0 9 * * * Europe/Berlin")
        .instants(bus.now())
        .take(10)
        .collect();
    let recurrence = options("0 9 * * * Europe/Berlin");
    let dates: Vec<String> = days
        .iter()
        .map(|day| recurrence.recurrence().clock_time(*day)[..10].to_owned())
        .collect();
    let holidays = Calendar::new([&dates[1], &dates[2], &dates[7]]).unwrap();
    bus.schedules()
        .set("work", recurrence.clone().exclude(&holidays))
        .await
        .unwrap();
    bus.schedules()
        .set("rest", recurrence.only(&holidays))
        .await
        .unwrap();
    bus.advance(DAY * 10).await;
    let rest: Vec<_> = [1, 2, 7].map(|day: usize| days[day]).into();
    assert_eq!(instants(&seen, "rest"), rest);
    let work: Vec<_> = days
        .iter()
        .copied()
        .filter(|day| !rest.contains(day))
        .collect();
    assert_eq!(instants(&seen, "work"), work);
    assert!(
        ends(&bus, "work")
            .await
            .iter()
            .all(|(_, it)| *it == Outcome::Acked)
    );
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_by_hand_is_beside_those_of_the_calendar() {
    let (bus, seen) = bus(&[("daily", options("0 7 * * *"))]).await;
    bus.schedules().pause("daily").await.unwrap();
    let error = bus.schedules().run_now("dayly").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    bus.schedules()
        .set("daily", options("0 9 * * *"))
        .await
        .unwrap();
    let id = bus.schedules().run_now("daily").await.unwrap();
    bus.advance(HOUR).await;
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
    assert_eq!(instants(&seen, "daily").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_by_hand_stands_for_the_time_since_the_last_one() {
    for overlap in [OverlapPolicy::Allow, OverlapPolicy::Skip] {
        let (bus, seen) = bus(&[("daily", options("0 9 * * *").overlap(overlap))]).await;
        bus.advance(DAY * 3 + HOUR).await;
        let last = instants(&seen, "daily").last().copied();
        bus.schedules().run_now("daily").await.unwrap();
        bus.settle().await;
        let by_hand = seen.lock().unwrap().last().cloned().unwrap().0;
        assert_eq!((by_hand.instant, by_hand.previous), (bus.now(), last));
    }
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_that_runs_is_known_after_any_number_of_changes() {
    for pauses in 0..4 {
        let (bus, seen) = slow_bus(OverlapPolicy::Allow).await;
        bus.advance(HOUR / 6 + Duration::from_secs(30)).await;
        assert_eq!(seen.lock().unwrap().len(), 1);
        for _ in 0..pauses {
            bus.schedules().pause("often").await.unwrap();
            bus.settle().await;
            bus.schedules().resume("often").await.unwrap();
            bus.settle().await;
        }
        // The next one is pushed already, under the last of the changes.
        bus.advance(HOUR * 3 / 20 + Duration::from_secs(10)).await;
        let shown = bus.schedules().get("often").await.unwrap().unwrap();
        assert!(!shown.ahead.is_empty());
        let skips = duly::schedule::ScheduleOptions::new("slow", "every 10m").unwrap();
        let skips = skips.overlap(OverlapPolicy::Skip);
        bus.schedules().set("often", skips).await.unwrap();
        bus.advance(HOUR / 60).await;
        assert_eq!(
            seen.lock().unwrap().len(),
            1,
            "{pauses}: the first one runs"
        );
    }
}

/// What was missed under the options before: a deploy after the fleet was away, or a change of a
/// schedule that is paused.
#[tokio::test(start_paused = true)]
async fn what_was_missed_before_a_change_is_made_up_for_as_the_options_before_it_say() {
    for (missed, runs) in [
        (MissedPolicy::Skip, 0),
        (MissedPolicy::Once, 1),
        (MissedPolicy::All(100), 5),
    ] {
        for (overlap, is_pause) in [
            (OverlapPolicy::Allow, true),
            (OverlapPolicy::Allow, false),
            (OverlapPolicy::Skip, false),
        ] {
            let clock = Arc::new(VirtualClock::new());
            let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
            let seen = Seen::default();
            let start = async |when: &str| {
                let options = options(when).missed(missed).overlap(overlap);
                let builder = builder(&seen, &[("daily", options)]);
                let builder = builder.shared_store(store.clone());
                TestBus::start_on(Arc::clone(&clock), builder)
                    .await
                    .unwrap()
            };
            let old = start("0 9 * * *").await;
            old.advance(DAY).await;
            // One more is pushed already where they may overlap, unless it is taken back by a pause.
            let ahead = usize::from(overlap == OverlapPolicy::Allow && !is_pause);
            if is_pause {
                old.schedules().pause("daily").await.unwrap();
                old.settle().await;
            }
            old.shutdown(DAY).await.unwrap();
            tokio::time::advance(DAY * u32::try_from(5 + ahead).unwrap()).await;
            let new = start("0 10 * * *").await;
            let changed = new.now();
            if is_pause {
                new.schedules().resume("daily").await.unwrap();
            }
            new.advance(HOUR).await;
            let what = format!("{missed}, {overlap}, pause: {is_pause}");
            let mut all = ends(&new, "daily").await;
            all.retain(|(_, it)| *it != Outcome::Cancelled); // taken back by the pause
            let old = options("0 9 * * *");
            let old = old.instants(clock.start()).take_while(|at| *at <= changed);
            let expected: Vec<_> = old.collect();
            let found: Vec<_> = all.iter().map(|(instant, _)| *instant).collect();
            assert_eq!(found, expected, "{what}: {all:?}");
            // Of those that may not overlap, one at a time is made up for.
            let runs = match overlap {
                OverlapPolicy::Skip => runs.min(1),
                _ => runs,
            };
            let ahead = ahead * usize::from(missed != MissedPolicy::Skip);
            let ran = all.iter().filter(|(_, it)| *it == Outcome::Acked).count();
            assert_eq!(ran, 1 + ahead + runs, "{what}: {all:?}");
            new.advance(DAY).await;
            let next = options("0 10 * * *").instants(changed).next();
            assert_eq!(instants(&seen, "daily").last().copied(), next, "{what}");
        }
    }
}

/// Two builds of a program on one store.
#[tokio::test(start_paused = true)]
async fn of_two_builds_the_later_one_holds_and_an_older_one_that_starts_again_changes_nothing() {
    let clock = Arc::new(VirtualClock::new());
    let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
    let seen = Seen::default();
    let build = |when: &str| -> BusBuilder {
        builder(&seen, &[("daily", options(when))]).shared_store(store.clone())
    };
    let start = async |when: &str| {
        TestBus::start_on(Arc::clone(&clock), build(when))
            .await
            .unwrap()
    };
    let when = async |bus: &TestBus| {
        let daily = bus.schedules().get("daily").await.unwrap().unwrap();
        daily.options.recurrence().to_string()
    };
    let old = start("0 9 * * *").await;
    let new = start("0 10 * * *").await;
    assert_eq!(when(&old).await, "0 10 * * * UTC");
    for _ in 0..3 {
        let again = start("0 9 * * *").await;
        again.advance(HOUR / 60).await;
        assert_eq!(when(&new).await, "0 10 * * * UTC");
        again.shutdown(HOUR).await.unwrap();
    }
    new.advance(DAY * 3).await;
    let all = instants(&seen, "daily");
    let expected: Vec<_> = options("0 10 * * *")
        .instants(new.clock().start())
        .take(3)
        .collect();
    assert_eq!(
        all, expected,
        "each instant once, of the newer declaration alone"
    );
    // The deploy is taken back.
    new.shutdown(HOUR).await.unwrap();
    // Here programs declare once a day, so it takes ten days to be sure.
    old.advance(DAY * 12).await;
    assert_eq!(when(&old).await, "0 9 * * * UTC");
    old.shutdown(HOUR).await.unwrap();
}
