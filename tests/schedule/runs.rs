//! Occurrences: each instant is one event, on time, on the virtual clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::event::Occurrence;
use duly::prelude::*;
use duly::schedule::{MissedPolicy, OverlapPolicy, Recurrence, ScheduleOptions};
use duly::testing::TestBus;
use duly::time::Timestamp;
use duly::{State, Unique};

/// What a handler was called with, and when.
type Seen = Arc<Mutex<Vec<(Occurrence, Duration)>>>;

#[delay_event(queue = "report", register = false)]
async fn report(event: Event<Occurrence>, seen: State<Seen>) -> Result<(), Failure> {
    let lateness = event.lateness();
    assert_eq!(event.occurrence().as_ref(), Some(&event.payload));
    seen.lock().unwrap().push((event.payload, lateness));
    Ok(())
}

async fn bus(schedules: &[(&str, ScheduleOptions)]) -> (TestBus, Seen) {
    let seen = Seen::default();
    let mut builder = Bus::builder().register(report {}).state(Arc::clone(&seen));
    for (name, options) in schedules {
        builder = builder.schedule(*name, options.clone());
    }
    (TestBus::start(builder).await.unwrap(), seen)
}

fn options(when: &str) -> ScheduleOptions {
    ScheduleOptions::new("report", when).unwrap()
}

fn instants(seen: &Seen, schedule: &str) -> Vec<Timestamp> {
    let seen = seen.lock().unwrap();
    let of = seen.iter().filter(|(one, _)| one.schedule == schedule);
    of.map(|(one, _)| one.instant).collect()
}

const DAY: Duration = Duration::from_secs(86_400);

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
