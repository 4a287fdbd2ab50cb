//! A metrics recorder that panics all the time: from the start of a bus to its end, beside handlers,
//! what is due, schedules and gauges.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::BusBuilder;
use duly::event::Occurrence;
use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::testing::Probe;

use super::neighbours::Panicking;
use super::on_redis::{builder, until, url};
use super::pulls::RECORDER;
use crate::world::{ORDERS, World, ms, secs};

over_every_store! { a_bus_does_all_it_does }

#[tokio::test(start_paused = true)]
async fn shared() {
    a_bus_does_all_it_does(World::shared()).await;
}

/// What a bus does, and what came of it.
struct Life {
    misdeed: usize,
    orders: Probe<u64>,
    runs: Probe<Occurrence>,
    ids: Mutex<Vec<EventId>>,
}

impl Life {
    fn new(misdeed: usize) -> Self {
        let orders = Probe::answering(|event, _cx| match event.payload {
            1 => Err(Failure::retry("no")),
            2 => Err(Failure::discard("no")),
            3 => resume_unwind(Box::new("on purpose")),
            _ => Ok(()),
        });
        Self {
            misdeed,
            orders,
            runs: Probe::new(),
            ids: Mutex::default(),
        }
    }

    fn of(&self, builder: BusBuilder) -> BusBuilder {
        let orders = ORDERS.attempts(2).backoff(RetryPolicy::fixed(ms(10)));
        let builder = builder.register_as(orders, self.orders.clone());
        let runs = duly::Annotation::new("runs");
        let builder = builder.register_as(runs, self.runs.clone());
        let often = ScheduleOptions::new("runs", "every 1s").unwrap();
        builder.schedule(format!("often-{}", self.misdeed), often)
    }

    async fn begin(&self, bus: &Bus) {
        let queue = bus.queue_named::<u64>("orders").unwrap();
        for payload in 0..6 {
            for delay in [0, 100] {
                let receipt = queue.push(payload, ms(delay)).await.unwrap();
                self.ids.lock().unwrap().push(receipt.id());
            }
        }
        queue.publish(7).await.unwrap();
        queue.call::<()>(8, secs(30)).await.unwrap();
    }

    async fn is_over(&self, bus: &Bus) -> bool {
        let stats = bus.stats("orders").await.unwrap();
        // Three of those that are due now or soon fail for good.
        (stats.scheduled, stats.ready, stats.leased, stats.dead) == (0, 0, 0, 4)
            && self.runs.count() >= 2
    }

    async fn check(&self, bus: &Bus) {
        let ids = self.ids.lock().unwrap().clone();
        for (at, id) in ids.into_iter().enumerate() {
            let history = bus.records().id(id).page().await.unwrap().items;
            let how: Vec<_> = history.iter().map(|it| it.outcome).collect();
            let expected = match at / 2 {
                1 | 3 => &[Outcome::Retried, Outcome::Buried][..],
                2 => &[Outcome::Discarded],
                _ => &[Outcome::Acked],
            };
            assert_eq!(how, expected, "{at}");
        }
    }
}

/// The recorder of this thread, and when it panics.
fn recorder() -> (&'static AtomicUsize, impl Drop) {
    let when: &'static AtomicUsize = Box::leak(Box::default());
    let panicking: &'static Panicking = Box::leak(Box::new(Panicking(when)));
    (when, metrics::set_default_local_recorder(panicking))
}

async fn a_bus_does_all_it_does(mut world: World) {
    let (when, _counted_here) = recorder();
    for misdeed in RECORDER {
        when.store(misdeed, Ordering::Relaxed);
        let life = Life::new(misdeed);
        let bus = world.start(life.of(world.builder())).await;
        life.begin(&bus).await;
        // Longer than any gauge rests.
        bus.advance(secs(120)).await;
        assert!(life.is_over(&bus).await, "{misdeed}");
        life.check(&bus).await;
        let _ = bus.dead_letters().drop_all().await.unwrap();
        bus.shutdown(secs(5)).await.unwrap();
        drop(bus);
        world = world.restart();
    }
}

/// On real time and a real server.
#[tokio::test]
async fn redis() {
    let (when, _counted_here) = recorder();
    for misdeed in RECORDER {
        when.store(misdeed, Ordering::Relaxed);
        let life = Life::new(misdeed);
        let bus = life.of(builder(&url())).start().await.unwrap();
        life.begin(&bus).await;
        until("all are over", async || life.is_over(&bus).await).await;
        life.check(&bus).await;
        bus.shutdown(secs(30)).await.unwrap();
    }
}
