//! Changes that follow one another before the first of them is carried out.

use std::time::Duration;

use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::time::Timestamp;

use super::runs::{DAY, bus, instants};

const MINUTE: Duration = Duration::from_secs(60);

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
