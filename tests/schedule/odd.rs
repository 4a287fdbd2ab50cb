//! What rarely happens to schedules: their queue is purged, a process may not push their payload, the
//! fleet is away for a week.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::admin::EventAction;
use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::testing::Probe;
use duly::{Annotation, Bus};

use super::calendar::instants_of;
use super::programs::Shared;
use super::runs::{DAY, Seen, builder, bus, instants, options};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// Those with which each instant runs, however late.
const POLICIES: [OverlapPolicy; 2] = [OverlapPolicy::Allow, OverlapPolicy::Wait];

#[tokio::test(start_paused = true)]
async fn what_is_purged_with_its_queue_does_not_run_and_all_that_follows_does() {
    // With a jitter those that wait in turn fall behind.
    let [allow, wait] = POLICIES;
    for (overlap, jitter) in [(allow, 0), (allow, 40), (wait, 0)] {
        let often = options("every 20s").missed(MissedPolicy::All(1_000));
        let often = often.overlap(overlap);
        let often = often.jitter(Duration::from_secs(jitter)).unwrap();
        let (bus, seen) = bus(&[("often", often.clone())]).await;
        let began = bus.now();
        let mut purged = 0;
        for _ in 0..5 {
            bus.advance(MINUTE * 3 + Duration::from_secs(1)).await;
            let waiting = bus.events().queue("report").limit(1_000);
            let page = waiting.change_page(EventAction::Cancel).await.unwrap();
            purged += page.changed;
        }
        bus.advance(MINUTE * 10).await;
        let ended = bus.now();
        let expected = often.instants(began).take_while(|at| *at <= ended).count();
        let mut ran = instants(&seen, "often");
        ran.retain(|at| *at <= ended);
        ran.sort_unstable();
        ran.dedup();
        let what = format!("{overlap}, jitter {jitter}: {purged} purged");
        let waits = bus.stats("report").await.unwrap();
        let open = waits.scheduled + waits.ready + waits.leased;
        let few = expected - usize::try_from(purged).unwrap();
        assert_eq!(ran.len(), instants(&seen, "often").len(), "{what}");
        assert!(
            ran.len() <= few && ran.len() + open >= few,
            "{what}: {ran:?}"
        );
        bus.advance(HOUR).await;
        let last = ran.last().copied().unwrap();
        let mut later = instants(&seen, "often");
        later.retain(|at| *at > last);
        assert!(later.len() >= 175, "{what}: {later:?}");
    }
}

/// As much as one of two processes may push is less than the payload has.
#[tokio::test(start_paused = true)]
async fn a_process_that_may_not_push_the_payload_leaves_it_to_one_that_may_and_holds_up_nothing() {
    for overlap in POLICIES {
        let of = |queue: &str, payload: &str| {
            let options = ScheduleOptions::new(queue, "every 1h").unwrap();
            let options = options.overlap(overlap).missed(MissedPolicy::All(100));
            options.payload(&payload).unwrap()
        };
        let (shared, late) = (Shared::new(), Arc::new(Mutex::new(vec![])));
        let able = || {
            let late = Arc::clone(&late);
            let handler = Probe::<String>::answering(move |event, _| {
                late.lock().unwrap().push(event.lateness());
                Ok(())
            });
            Bus::builder().register_as(Annotation::new("texts"), handler)
        };
        let less = || Bus::builder().publish_only().run_schedules(true);
        let less = shared.start(less().payload_bytes_max(1_000)).await;
        let bus = shared.start(able()).await;
        let schedules = bus.schedules();
        let (large, small) = (of("texts", &"x".repeat(5_000)), of("texts", "x"));
        schedules.set("large", large.clone()).await.unwrap();
        schedules.set("small", small.clone()).await.unwrap();
        let began = bus.now();
        bus.advance(HOUR * 8).await;
        let most = late.lock().unwrap().iter().copied().max().unwrap();
        assert!(most < Duration::from_secs(5), "{overlap}: {most:?} late");
        bus.shutdown(HOUR).await.unwrap();
        // It is alone for a while.
        less.advance(HOUR * 5).await;
        let bus = shared.start(able()).await;
        bus.advance(HOUR * 2).await;
        let ended = bus.now();
        bus.advance(MINUTE * 2).await;
        for (name, options) in [("large", &large), ("small", &small)] {
            let expected = options.instants(began).take_while(|at| *at <= ended);
            let mut ran = instants_of(&bus, "texts", name).await;
            ran.retain(|at| *at <= ended);
            ran.sort_unstable();
            assert_eq!(ran, expected.collect::<Vec<_>>(), "{overlap}, {name}");
        }
        assert_eq!(bus.stats("duly.schedules").await.unwrap().dead, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_week_away_as_many_run_as_are_to_and_each_other_one_is_counted() {
    for overlap in POLICIES {
        for (missed, most) in [
            (MissedPolicy::Once, 1),
            (MissedPolicy::All(24), 24),
            (MissedPolicy::All(1_000), 1_000),
        ] {
            let often = options("every 1m").missed(missed).overlap(overlap);
            let (shared, seen) = (Shared::new(), Seen::default());
            let start = || builder(&seen, &[("often", often.clone())]);
            let bus = shared.start(start()).await;
            let began = bus.now();
            bus.advance(HOUR).await;
            bus.shutdown(HOUR).await.unwrap();
            let before = instants(&seen, "often").len();
            tokio::time::advance(DAY * 7).await;
            let bus = shared.start(start()).await;
            bus.advance(HOUR).await;
            let all = often.instants(began).take_while(|at| *at <= bus.now());
            let all: Vec<_> = all.collect();
            let ran = instants(&seen, "often");
            let what = format!("{overlap}, {missed}: {} ran, {before} before", ran.len());
            // Some were pushed before it went away, or are late and not missed.
            let of_now = before + 60 + most;
            assert!((of_now..of_now + 5).contains(&ran.len()), "{what}");
            let coalesced = seen.lock().unwrap();
            let coalesced: u64 = coalesced.iter().map(|(one, _)| one.missed).sum();
            assert_eq!(ran.len() as u64 + coalesced, all.len() as u64, "{what}");
            assert!(
                ran.is_sorted() && ran.windows(2).all(|pair| pair[0] < pair[1]),
                "{what}"
            );
        }
    }
}
