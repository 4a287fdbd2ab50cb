//! Compares what became of schedules with their calendars: each instant is one event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::testing::VirtualClock;
use duly::time::{Clock, Mono, Timestamp};

/// How the occurrences of one instant of a schedule ended, but for those that were taken back.
pub(super) type Ends = BTreeMap<(String, Timestamp), Vec<Outcome>>;

/// Reads the ends of all occurrences from their records; by the seconds of their due times, so that
/// a jitter of less than a second does not matter.
pub(super) async fn ends(bus: &Bus) -> Ends {
    let (mut ends, mut after) = (Ends::new(), None);
    loop {
        let page = bus.records().queue("report").limit(1_000).after(after);
        let page = page.page().await.unwrap();
        for record in page.items.into_iter().filter(|it| it.is_final()) {
            if record.outcome == Outcome::Cancelled {
                continue;
            }
            let due = record.due.as_millis();
            let key = (
                record.key.unwrap(),
                Timestamp::from_millis(due - due % 1_000),
            );
            ends.entry(key).or_default().push(record.outcome);
        }
        after = page.next;
        if after.is_none() {
            return ends;
        }
    }
}

/// Reads the instants of a schedule that were run in a queue; of an instant that was run twice both.
pub(super) async fn instants_of(bus: &Bus, queue: &str, schedule: &str) -> Vec<Timestamp> {
    let (mut instants, mut after) = (Vec::new(), None);
    loop {
        let records = bus.records().queue(queue).key(schedule);
        let page = records.limit(1_000).after(after).page().await.unwrap();
        let run = page.items.iter().filter(|it| it.outcome == Outcome::Acked);
        instants.extend(run.map(|record| record.due));
        after = page.next;
        if after.is_none() {
            return instants;
        }
    }
}

/// Checks that no instant is two events, and that each from `began` to `until` is one.
pub(super) fn check(
    what: &str,
    ends: &Ends,
    schedules: &[(&str, ScheduleOptions)],
    (began, until): (Timestamp, Timestamp),
) {
    for (name, options) in schedules {
        for ((_, instant), all) in ends.iter().filter(|((of, _), _)| of == name) {
            assert_eq!(all.len(), 1, "{what}: {name} at {instant}: {all:?}");
        }
        for instant in options.instants(began).take_while(|at| *at <= until) {
            let is_there = ends.contains_key(&((*name).to_owned(), instant));
            assert!(
                is_there,
                "{what}: {name} at {instant} is lost, {began} to {until}: {ends:#?}"
            );
        }
    }
}

/// The clock of a store, which may be wrong.
#[derive(Debug)]
pub(super) struct StepClock {
    pub(super) right: Arc<VirtualClock>,
    pub(super) ahead_us: AtomicI64,
}

impl StepClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            right: Arc::new(VirtualClock::new()),
            ahead_us: AtomicI64::new(0),
        })
    }
}

impl Clock for StepClock {
    fn wall_us(&self) -> u64 {
        let ahead_us = self.ahead_us.load(Ordering::Relaxed);
        self.right.wall_us().saturating_add_signed(ahead_us)
    }

    fn mono(&self) -> Mono {
        self.right.mono()
    }
}
