//! Promise 2: never early.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duly::prelude::*;
use duly::store::{MemoryStore, Store};
use duly::testing::Probe;
use tokio::sync::mpsc;

use crate::faulty::{Fault, Faulty};
use crate::world::{Numbers, ORDERS, World, ms, secs};

over_every_store! {
    nothing_starts_before_its_due_time_nor_much_later,
    a_fraction_of_a_millisecond_rounds_up,
    what_is_read_ahead_is_held_until_its_time,
    thirty_days_later_is_thirty_days_later,
    an_instant_that_is_past_means_at_once,
    a_crowd_that_is_due_at_one_instant_starts_at_it,
}

async fn nothing_starts_before_its_due_time_nor_much_later(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let mut numbers = Numbers(2);
    for _ in 0..1_000 {
        let delay = Duration::from_micros(numbers.below(5_000_000));
        let due_us = world.clock.elapsed().as_micros() as u64 + delay.as_micros() as u64;
        queue.push(due_us, delay).await.unwrap();
        if numbers.below(4) == 0 {
            bus.advance(ms(numbers.below(10))).await;
        }
    }
    bus.advance(secs(10)).await;

    let seen = probe.seen();
    assert_eq!(seen.len(), 1_000);
    for seen in seen {
        let due = Duration::from_micros(seen.payload);
        assert!(seen.at >= due, "{:?} is early for {due:?}", seen.at);
        assert!(seen.at < due + ms(2), "{:?} is late for {due:?}", seen.at);
    }
}

async fn a_fraction_of_a_millisecond_rounds_up(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let receipt = queue.push(1_u64, Duration::from_micros(1_001)).await;
    assert_eq!(receipt.unwrap().due(), bus.now() + ms(2));
    bus.advance(secs(1)).await;
    assert_eq!(probe.times(), [ms(2)]);
}

async fn what_is_read_ahead_is_held_until_its_time(world: World) {
    let probe = Probe::<u64>::new();
    let builder = world.builder().read_ahead(secs(10));
    let bus = world
        .start(builder.register_as(ORDERS, probe.clone()))
        .await;
    let queue = bus.queue_named("orders").unwrap();
    queue.push(1, secs(60)).await.unwrap();

    bus.advance(secs(55)).await;
    assert_eq!(bus.stats("orders").await.unwrap().leased, 1);
    bus.advance(ms(4_999)).await;
    assert_eq!(probe.count(), 0);
    bus.advance(ms(1)).await;
    assert_eq!(probe.times(), [secs(60)]);
}

async fn thirty_days_later_is_thirty_days_later(world: World) {
    const DAYS_30: Duration = secs(30 * 86_400);
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.push(1_u64, DAYS_30).await.unwrap();
    bus.advance(DAYS_30 - ms(1)).await;
    assert_eq!(probe.count(), 0);
    bus.advance(ms(1)).await;
    assert_eq!(probe.times(), [DAYS_30]);
}

async fn an_instant_that_is_past_means_at_once(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.push(1_u64, SystemTime::UNIX_EPOCH).await.unwrap();
    queue.push(2, bus.now() + secs(5)).await.unwrap();
    bus.advance(secs(10)).await;
    assert_eq!(probe.times(), [secs(0), secs(5)]);
}

async fn a_crowd_that_is_due_at_one_instant_starts_at_it(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.push_many(0..5_000_u64, secs(60)).await.unwrap();
    bus.advance(secs(60)).await;
    assert!(probe.times().iter().all(|at| *at == secs(60)));
    assert_eq!(probe.count(), 5_000);
}

/// By default Linux lets the timers of a thread end up to 50 µs later.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_timers_of_the_mover_end_on_time() {
    let near: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let way = Faulty::to(&near);
    let (slacks, mut told) = mpsc::unbounded_channel();
    way.meets(move |_, _| {
        if std::thread::current().name() == Some("duly-mover") {
            let slack = rustix::thread::current_timer_slack().expect("a thread knows its own");
            slacks.send(slack).ok();
        }
        Fault::None
    });
    let builder = Bus::builder().only_registered().shared_store(way);
    let builder = builder.register_as(ORDERS, Probe::<u64>::new());
    let _bus = builder.start().await.unwrap();
    assert_eq!(told.recv().await, Some(1));
}
