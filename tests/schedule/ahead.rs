//! Changes of a schedule while its next occurrence is leased ahead of its instant, or soon will be.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::State;
use duly::event::Occurrence;
use duly::prelude::*;
use duly::schedule::{OverlapPolicy, ScheduleOptions};
use tokio::time::Instant;

use super::programs::Shared;

const MINUTE: Duration = Duration::from_secs(60);
const NAME: &str = "often";
/// How long each occurrence runs for.
const RUNS_FOR: Duration = Duration::from_secs(90);

/// The occurrences that were run, and when they began.
type Runs = Arc<Mutex<Vec<(Occurrence, Instant)>>>;

/// Takes longer than from an instant to the next.
#[delay_event(queue = "slow", timeout = "5m", register = false)]
async fn slow(event: Event<Occurrence>, runs: State<Runs>) -> Result<(), Failure> {
    let run = (event.payload, Instant::now());
    runs.lock().unwrap().push(run);
    tokio::time::sleep(RUNS_FOR).await;
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// Paused, and resumed after this.
    Paused(Duration),
    /// Other instants.
    Moved,
    Overlap(OverlapPolicy),
}

fn options(when: &str) -> ScheduleOptions {
    ScheduleOptions::new("slow", when).unwrap()
}

/// A change is made so many milliseconds before an instant.
#[tokio::test(start_paused = true)]
async fn one_that_is_leased_ahead_is_the_last_one_after_a_change() {
    for change in [
        Change::Paused(Duration::from_secs(1)),
        Change::Paused(MINUTE * 3 / 2),
        Change::Moved,
        Change::Overlap(OverlapPolicy::Skip),
        Change::Overlap(OverlapPolicy::Wait),
    ] {
        for early in [1, 50, 99, 500] {
            let what = format!("{change:?}, {early} ms early");
            let (shared, runs) = (Shared::new(), Runs::default());
            let often = options("every 1m");
            let bus = Bus::builder().register(slow {}).state(Arc::clone(&runs));
            let bus = shared.start(bus).await;
            let schedules = bus.schedules();
            schedules.set(NAME, often.clone()).await.unwrap();
            let instant = often.instants(bus.now() + MINUTE).next().unwrap();
            let wait = instant.since(bus.now());
            bus.advance(wait - Duration::from_millis(early)).await;
            match change {
                Change::Paused(pause) => {
                    schedules.pause(NAME).await.unwrap();
                    bus.advance(pause).await;
                    schedules.resume(NAME).await.unwrap();
                }
                Change::Moved => {
                    let moved = options("every 1m phase 30s");
                    schedules.set(NAME, moved).await.unwrap();
                }
                Change::Overlap(overlap) => {
                    let other = often.overlap(overlap);
                    schedules.set(NAME, other).await.unwrap();
                }
            }
            bus.advance(MINUTE * 4).await;
            let mut runs = runs.lock().unwrap().clone();
            runs.sort_unstable_by_key(|(one, _)| one.instant);
            assert!(runs.len() > 2, "{what}");
            for pair in runs.windows(2) {
                let [(before, first), (one, then)] = pair else {
                    continue;
                };
                assert_eq!(one.previous, Some(before.instant), "{what}");
                let is_alone = *then - *first >= RUNS_FOR;
                let may_overlap = one.instant <= instant || !matches!(change, Change::Overlap(_));
                assert!(is_alone || may_overlap, "{what}: {one:?}");
            }
        }
    }
}
