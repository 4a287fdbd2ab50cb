//! Changes that follow one another before the first of them is carried out, and the check of a
//! schedule whose recurrence and queue change at random.

use std::time::Duration;

use duly::prelude::*;
use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::time::Timestamp;

use super::calendar::instants_of;
use super::runs::{DAY, bus, instants};

const MINUTE: Duration = Duration::from_secs(60);
/// What was pushed ahead is under way when it is due, whatever was changed by then.
const LEAD: Duration = Duration::from_secs(130);
/// By how much the clocks of nodes are wrong at most.
const SKEW: Duration = Duration::from_secs(6);

/// A schedule that is paused is changed some times, days apart, then it goes on.
#[tokio::test(start_paused = true)]
async fn of_changes_that_wait_the_last_one_holds_since_the_first() {
    let of = |queue: &str, when: &str| {
        let options = ScheduleOptions::new(queue, when).unwrap();
        options.missed(MissedPolicy::All(100))
    };
    for overlap in [OverlapPolicy::Allow, OverlapPolicy::Skip] {
        for changes in 1..=4_u32 {
            let (bus, seen) = bus(&[]).await;
            let (began, old) = (bus.now(), of("report", "0 9 * * *"));
            let schedules = bus.schedules();
            schedules.set("daily", old.clone()).await.unwrap();
            bus.advance(DAY).await;
            schedules.pause("daily").await.unwrap();
            bus.advance(DAY * 2).await;
            let changed = bus.now();
            for change in 1..=changes {
                let options = of("other", "30 10 * * *").overlap(overlap);
                let options = options.payload(&change).unwrap();
                schedules.set("daily", options).await.unwrap();
                bus.advance(DAY * 2).await;
            }
            schedules.resume("daily").await.unwrap();
            bus.advance(MINUTE * 5).await;
            let what = format!("{overlap}, changes: {changes}");
            let until = |options: &ScheduleOptions, (from, to): (Timestamp, Timestamp)| {
                let all = options.instants(from).take_while(|at| *at <= to);
                all.collect::<Vec<_>>()
            };
            let expected = until(&old, (began, changed));
            assert_eq!(instants(&seen, "daily"), expected, "{what}");
            if overlap != OverlapPolicy::Allow {
                continue; // one is pushed at a time, and nobody runs it
            }
            let waiting = bus.events().queue("other").limit(1_000).page().await;
            let waiting = waiting.unwrap().items.into_iter();
            let mut due: Vec<_> = waiting.map(|event| event.due).collect();
            due.retain(|at| *at <= bus.now());
            due.sort_unstable();
            let expected = until(&of("other", "30 10 * * *"), (changed, bus.now()));
            assert_eq!(due, expected, "{what}");
            let queue = bus.queue_named::<u32>("other").unwrap();
            let leased = queue.lease(1_000, MINUTE).send().await.unwrap();
            assert_eq!(leased.len(), expected.len(), "{what}");
            assert!(
                leased.iter().all(|one| one.event().payload == changes),
                "{what}"
            );
        }
    }
}

/// The handler of the other queue of a schedule that moves.
#[delay_event(queue = "other", register = false)]
async fn other(event: Event<duly::event::Occurrence>) -> Result<(), Failure> {
    let _ = event;
    Ok(())
}

/// The name of the schedule that moves.
pub(super) const MOVES: &str = "moves";

/// Has the handler of what moves.
pub(super) fn with_other(builder: duly::BusBuilder) -> duly::BusBuilder {
    builder.register(other {})
}

/// A schedule each of whose changes gives it another recurrence and another queue.
#[derive(Default)]
pub(super) struct Moves {
    /// When each was made.
    made: Vec<Timestamp>,
}

impl Moves {
    fn options(number: usize) -> ScheduleOptions {
        let queue = ["report", "other"][number % 2];
        // Each second of the minute is that of one change alone.
        let when = format!("every 1m phase {}s", number * 7 % 60);
        let options = ScheduleOptions::new(queue, &when).unwrap();
        options.missed(MissedPolicy::All(1_000))
    }

    /// Makes the next change.
    pub(super) async fn make(&mut self, bus: &Bus, now: Timestamp) {
        let options = Self::options(self.made.len());
        bus.schedules().set(MOVES, options).await.unwrap();
        self.made.push(now);
    }

    /// Checks that each instant is one event in the queue of its options, that these hold no longer
    /// than until the next change, and that there is no gap.
    pub(super) async fn check(&self, what: &str, bus: &Bus, ended: Timestamp) {
        let mut all = Vec::new();
        for (parity, queue) in ["report", "other"].into_iter().enumerate() {
            for instant in instants_of(bus, queue, MOVES).await {
                let numbers = (0..self.made.len()).skip(parity).step_by(2);
                let before = Timestamp::from_millis(instant.as_millis() - 1);
                let is_of = |number: &usize| {
                    Self::options(*number).instants(before).next() == Some(instant)
                };
                let number = { numbers }.find(is_of);
                let number = number
                    .unwrap_or_else(|| panic!("{what}: {queue} at {instant}: {:?}", self.made));
                all.push((instant, number));
            }
        }
        all.sort_unstable();
        let told = format!("{what}: {:?}: {all:?}", self.made);
        for pair in all.windows(2) {
            assert_ne!(pair[0], pair[1], "twice in {told}");
        }
        for (instant, number) in &all {
            let replaced = self.made.get(number + 1);
            let held = replaced.is_none_or(|at| *instant <= *at + LEAD);
            assert!(held, "{instant} of change {number} in {told}");
        }
        let ends = [(self.made[0], 0)].into_iter().chain(all);
        let ends: Vec<_> = ends.chain([(ended, 0)]).collect();
        for pair in ends.windows(2) {
            let (from, to) = (pair[0].0, pair[1].0);
            let between = |at: &&Timestamp| from < **at + SKEW && **at < to + SKEW;
            let changes = self.made.iter().filter(between).count();
            let most = MINUTE * (1 + u32::try_from(changes).unwrap()) + SKEW;
            assert!(to.since(from) <= most, "{from} to {to} is a gap in {told}");
        }
    }
}
