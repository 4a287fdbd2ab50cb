//! Builds of programs that declare one schedule: with the handler of its queue, and without it.

use std::sync::{Arc, Mutex};

use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::testing::{Probe, TestBus};
use duly::{Annotation, BusBuilder};

use super::programs::Shared;
use super::runs::DAY;

/// How many attempts each occurrence has that was handled.
type Attempts = Arc<Mutex<Vec<u16>>>;

/// What a build of all programs declares, and the options of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Build {
    when: &'static str,
    queue: &'static str,
    /// The version of the payload, too.
    attempts: u16,
}

const OLD: Build = Build {
    when: "every 12h",
    queue: "deployed",
    attempts: 7,
};

impl Build {
    fn options(self) -> ScheduleOptions {
        let options = ScheduleOptions::new(self.queue, self.when).unwrap();
        options.payload(&1).unwrap()
    }

    /// A program with the handler that declares no schedule.
    fn handler(self, seen: &Attempts) -> BusBuilder {
        let seen = Arc::clone(seen);
        let handler = Probe::<u64>::answering(move |event, _| {
            seen.lock().unwrap().push(event.attempts());
            Ok(())
        });
        let annotation = Annotation::new(self.queue).attempts(self.attempts);
        let annotation = annotation.version(self.attempts.into());
        Bus::builder().register_as(annotation, handler)
    }

    /// A program of this build, which carries no schedules out.
    fn start(self, one: Program, seen: &Attempts) -> BusBuilder {
        let builder = match one {
            Program::Handles => self.handler(seen).run_schedules(false),
            Program::Serves => Bus::builder().publish_only().run_schedules(true),
        };
        builder.schedule("deployed", self.options())
    }
}

#[derive(Clone, Copy, Debug)]
enum Program {
    /// With the handler.
    Handles,
    /// Without it: a server with the same settings, which carries schedules out.
    Serves,
}
use Program::{Handles, Serves};

/// Each way in which a build may differ from the older one.
fn newer() -> impl Iterator<Item = Build> {
    (1..8).map(|differs: u8| Build {
        when: ["every 12h", "every 12h phase 1h"][usize::from(differs & 1)],
        queue: ["deployed", "moved"][usize::from(differs >> 1 & 1)],
        attempts: [7, 2][usize::from(differs >> 2)],
    })
}

/// The one schedule, and the attempts of what was handled in two days. On virtual time, programs declare
/// once a day.
async fn days(bus: &TestBus, seen: &Attempts) -> (ScheduleOptions, Vec<u16>) {
    seen.lock().unwrap().clear();
    bus.advance(DAY * 2).await;
    let schedule = bus.schedules().get("deployed").await.unwrap().unwrap();
    let mut attempts = seen.lock().unwrap().clone();
    attempts.dedup();
    (schedule.options, attempts)
}

#[tokio::test(start_paused = true)]
async fn the_later_build_holds_whichever_of_its_programs_have_the_handler() {
    let orders: [(&[Program], &[Program]); 5] = [
        (&[Handles, Serves], &[Handles]),
        (&[Serves, Handles], &[Serves]),
        (&[Handles, Serves], &[Serves, Handles]),
        (&[Serves, Handles], &[Handles, Serves]),
        (&[Serves, Handles], &[Handles]),
    ];
    for new in newer() {
        for (first, then) in orders {
            let what = format!("{new:?}: {first:?}, {then:?}");
            let (shared, seen) = (Shared::new(), Attempts::default());
            let mut running = Vec::new();
            for one in first {
                running.push(shared.start(OLD.start(*one, &seen)).await);
                running[0].advance(DAY).await;
            }
            let of = days(&running[0], &seen).await;
            assert_eq!(of, (OLD.options(), vec![7]), "{what}");

            let mut newer = Vec::new();
            for one in then {
                newer.push(shared.start(new.start(*one, &seen)).await);
                running[0].advance(DAY).await;
            }
            // Programs of the older build start again.
            for one in [Serves, Handles] {
                running.push(shared.start(OLD.start(one, &seen)).await);
            }
            running[0].advance(DAY).await; // some were pushed before
            let handled = match then {
                [Serves] if new.queue != OLD.queue => vec![],
                [Serves] => vec![7],
                _ => vec![new.attempts],
            };
            let of = days(&running[0], &seen).await;
            assert_eq!(of, (new.options(), handled), "{what}");

            for bus in newer {
                bus.shutdown(DAY).await.unwrap();
            }
            running[0].advance(DAY * 12).await;
            let of = days(&running[0], &seen).await;
            assert_eq!(of, (OLD.options(), vec![7]), "taken back: {what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_by_hand_holds_until_the_schedule_is_declared_otherwise() {
    let by_hand = Build {
        when: "every 6h",
        ..OLD
    };
    for new in newer().filter(|new| new.queue == OLD.queue) {
        for by in 0..2 {
            let what = format!("{new:?} by {by}");
            let (shared, seen) = (Shared::new(), Attempts::default());
            let mut running = Vec::new();
            for one in [Handles, Serves] {
                running.push(shared.start(OLD.start(one, &seen)).await);
                running[0].advance(DAY).await;
            }
            let options = by_hand.options().payload(&2).unwrap();
            let schedules = running[by].schedules();
            schedules.set("deployed", options.clone()).await.unwrap();
            let of = days(&running[0], &seen).await;
            assert_eq!(of, (options.clone(), vec![7]), "{what}");

            for one in [Handles, Serves] {
                running.push(shared.start(new.start(one, &seen)).await);
                running[0].advance(DAY).await;
            }
            running[0].advance(DAY).await;
            let is_declared_otherwise = new.when != OLD.when;
            let holds = if is_declared_otherwise {
                new.options()
            } else {
                options
            };
            let of = days(&running[0], &seen).await;
            assert_eq!(of, (holds, vec![new.attempts]), "{what}");
            let events = shared.events().await;
            let of_queue = events.iter().filter(|(queue, _)| queue == new.queue);
            let versions: Vec<_> = of_queue
                .map(|(_, it)| it.body.as_ref().unwrap().version)
                .collect();
            // The payload that was set is still of the version that it was set with.
            let version = if is_declared_otherwise {
                new.attempts
            } else {
                OLD.attempts
            };
            assert!(!versions.is_empty(), "{what}");
            assert!(
                versions.iter().all(|it| *it == u32::from(version)),
                "{what}: {versions:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_by_hand_to_another_queue_is_undone_by_nobody() {
    let moved = Build {
        queue: "moved",
        attempts: 3,
        ..OLD
    };
    for by in 0..2 {
        let (shared, seen) = (Shared::new(), Attempts::default());
        let mut running = Vec::new();
        for one in [Handles, Serves] {
            running.push(shared.start(OLD.start(one, &seen)).await);
        }
        let schedules = running[by].schedules();
        schedules.set("deployed", moved.options()).await.unwrap();
        let of = days(&running[0], &seen).await;
        assert_eq!(of, (moved.options(), vec![]), "by {by}");
        schedules.set("deployed", OLD.options()).await.unwrap();
        running[0].advance(DAY * 2).await;
        let of = days(&running[0], &seen).await;
        assert_eq!(of, (OLD.options(), vec![7]), "by {by}");
    }
}

/// Its settings have the schedule, and the program of the handler does not.
#[tokio::test(start_paused = true)]
async fn what_a_server_alone_declares_has_the_options_of_who_carried_it_out_with_the_handler() {
    let (shared, seen) = (Shared::new(), Attempts::default());
    let server = shared.start(OLD.start(Serves, &seen)).await;
    server.settle().await;
    server.shutdown(DAY).await.unwrap();
    let handles = shared.start(OLD.handler(&seen)).await;
    let _ = days(&handles, &seen).await;
    handles.shutdown(DAY).await.unwrap();

    let server = shared.start(OLD.start(Serves, &seen)).await;
    server.advance(DAY * 2).await;
    let handles = shared.start(OLD.handler(&seen).run_schedules(false)).await;
    let of = days(&handles, &seen).await;
    assert_eq!(of, (OLD.options(), vec![7]));
}
