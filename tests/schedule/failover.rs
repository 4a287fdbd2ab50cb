//! A failover of the store loses what it accepted last: the schedule goes on, and each instant is one
//! event.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duly::event::Occurrence;
use duly::prelude::*;
use duly::schedule::{Calendar, OverlapPolicy, ScheduleOptions};
use duly::store::operation::{PushOutcome, StoreOp};
use duly::store::{MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};
use duly::time::Timestamp;

use super::runs::{Seen, builder, instants, options};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);

fn store() -> (Arc<VirtualClock>, Arc<dyn Store>) {
    let clock = Arc::new(VirtualClock::new());
    let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
    (clock, Arc::new(near))
}

/// Lets the store lose a push that it accepts, by its number, and go on behind another connection.
/// Returns what was run, and what the calendar has.
async fn run(often: &ScheduleOptions, lost: usize) -> (Vec<Timestamp>, Vec<Timestamp>) {
    let (clock, near) = store();
    let (faulty, seen) = (Faulty::to(&near), Seen::default());
    let bus = builder(&seen, &[("often", often.clone())]);
    let bus = bus.shared_store(Arc::clone(&faulty) as _);
    let bus = TestBus::start_on(Arc::clone(&clock), bus).await.unwrap();
    let began = bus.now();
    bus.settle().await;
    let (mut number, way) = (0, Arc::downgrade(&faulty));
    faulty.meets(move |_, op| {
        let StoreOp::Push(_) = op else {
            return Fault::None;
        };
        number += 1;
        match way.upgrade().filter(|_| number == lost + 1) {
            Some(way) => {
                way.connections.fetch_add(1, Ordering::Relaxed); // from then on it is another server
                Fault::Judged(PushOutcome::Accepted)
            }
            None => Fault::None,
        }
    });
    bus.advance(MINUTE * 25).await;
    let until = bus.now();
    bus.advance(MINUTE).await; // those that wait for others may be behind
    let mut run = instants(&seen, "often");
    run.retain(|at| *at <= until);
    run.sort_unstable();
    let expected = often.instants(began).take_while(|at| *at <= until);
    (run, expected.collect())
}

#[tokio::test(start_paused = true)]
async fn whatever_push_of_a_look_is_lost_the_schedule_goes_on() {
    for overlap in [OverlapPolicy::Allow, OverlapPolicy::Wait] {
        let often = options("every 5m").overlap(overlap);
        for lost in 0..12 {
            let (run, expected) = run(&often, lost).await;
            assert_eq!(run, expected, "{overlap}: {lost}");
        }
    }
}

/// A change is carried out late, by a node that takes the time for five seconds earlier than it is.
#[tokio::test(start_paused = true)]
async fn what_was_tried_and_lost_is_not_taken_back_by_a_change() {
    let (clock, near) = store();
    let start = async |way: Arc<dyn Store>, runs: bool| {
        let bus = Bus::builder().only_registered().run_schedules(runs);
        let bus = bus.shared_store(way);
        TestBus::start_on(Arc::clone(&clock), bus).await.unwrap()
    };
    let second = Duration::from_secs(1);
    let hourly = options("every 1h phase 30m");
    let maker = start(Arc::clone(&near), true).await;
    let (schedules, instant) = (maker.schedules(), hourly.instants(maker.now()).next());
    let instant = instant.unwrap();
    schedules.set("hourly", hourly.clone()).await.unwrap();
    let before = instant.since(maker.now()) - second * 3;
    maker.advance(before).await;
    maker.shutdown(second).await.unwrap();

    let pulls = start(Arc::clone(&near), false).await;
    let change = hourly.exclude(&Calendar::new(["1999-01-01"]).unwrap());
    pulls.schedules().set("hourly", change).await.unwrap();
    pulls.advance(second * 3).await;
    let queue = pulls.queue_named::<Occurrence>("report").unwrap();
    let first = queue.lease(1, second).send().await.unwrap().remove(0);
    assert_eq!(first.event().payload.instant, instant);
    pulls.advance(second + second / 2).await; // it is lost
    let faulty = Faulty::to(&near);
    faulty.behind_us.store(5_000_000, Ordering::Relaxed);
    let late = start(faulty as _, true).await;
    late.settle().await;
    let mut ids = BTreeSet::new();
    for _ in 0..60 {
        let leased = queue.lease(10, second * 600).send().await.unwrap();
        let of = leased
            .iter()
            .map(|it| (it.event().payload.instant, it.id()));
        ids.extend(of);
        pulls.advance(second).await;
    }
    assert_eq!(Vec::from_iter(ids), [(instant, first.id())], "one event");
}
