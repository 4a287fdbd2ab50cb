//! Clocks that panic, of a bus and of a store itself: they stop nothing.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use duly::BusBuilder;
use duly::prelude::*;
use duly::store::{EmbeddedOptions, EmbeddedStore, MemoryStore, RedisOptions, RedisStore, Store};
use duly::testing::Probe;
use duly::time::{Clock, Mono, SystemClock};

use crate::servers;
use crate::world::{ORDERS, ms, secs};

/// A clock that panics at every seventh look, from the first one on.
#[derive(Debug, Default)]
struct PanickingClock {
    near: SystemClock,
    looks: AtomicU64,
    is_on: AtomicBool,
}

impl PanickingClock {
    fn at_once() -> Arc<Self> {
        let is_on = AtomicBool::new(true);
        Arc::new(Self {
            is_on,
            ..Self::default()
        })
    }

    fn look(&self) {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if looks.is_multiple_of(7) && self.is_on.load(Ordering::Relaxed) {
            resume_unwind(Box::new("a clock"));
        }
    }
}

impl Clock for PanickingClock {
    fn wall_us(&self) -> u64 {
        self.look();
        self.near.wall_us()
    }

    fn mono(&self) -> Mono {
        self.look();
        self.near.mono()
    }
}

fn builder() -> BusBuilder {
    Bus::builder()
        .only_registered()
        .settings(Default::default())
}

#[tokio::test]
async fn a_clock_that_panics_now_and_then_stops_nothing() {
    let clock = Arc::new(PanickingClock::default());
    let bus = builder()
        .clock(Arc::clone(&clock) as _)
        .store_url("memory:");
    goes_on(bus, &clock).await;
}

#[tokio::test]
async fn a_clock_that_panics_at_its_first_look_stops_nothing() {
    let clock = PanickingClock::at_once();
    let bus = builder()
        .clock(Arc::clone(&clock) as _)
        .store_url("memory:");
    goes_on(bus, &clock).await;
}

#[tokio::test]
async fn a_clock_of_a_memory_store_that_panics_stops_nothing() {
    let clock = PanickingClock::at_once();
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _);
    on_store(store, &clock).await;
}

/// Its writer looks at the clock on a thread of its own.
#[tokio::test]
async fn a_clock_of_an_embedded_store_that_panics_stops_nothing() {
    let clock = PanickingClock::at_once();
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions::new().clock(Arc::clone(&clock) as _);
    let store = EmbeddedStore::open_with(folder.path().join("duly.db"), options).unwrap();
    on_store(store, &clock).await;
}

#[tokio::test]
async fn a_clock_of_a_redis_store_that_panics_stops_nothing() {
    let clock = PanickingClock::at_once();
    let url = format!("{}?prefix={}", servers::shared().url(), servers::prefix());
    let options = RedisOptions::new().clock(Arc::clone(&clock) as _);
    let store = RedisStore::open_with(&url, options).await.unwrap();
    on_store(store, &clock).await;
}

async fn on_store(store: impl Store, clock: &PanickingClock) {
    let ahead_us = store.now_us().abs_diff(clock.near.wall_us());
    assert!(ahead_us < 60_000_000, "it begins today");
    goes_on(builder().store(store), clock).await;
}

async fn goes_on(builder: BusBuilder, clock: &PanickingClock) {
    let probe = Probe::<u64>::new();
    let builder = builder.register_as(ORDERS, probe.clone());
    let bus = builder.start().await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    clock.is_on.store(true, Ordering::Relaxed);
    for number in 0..20 {
        let called = queue.call::<()>(number, secs(60)).await;
        called.unwrap_or_else(|error| panic!("{number}: {error}"));
        queue.push(number, ms(1)).await.unwrap();
    }
    let acked = async {
        loop {
            let page = bus.records().outcome(Outcome::Acked).page().await.unwrap();
            if page.items.len() == 40 {
                break;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(secs(60), acked).await.unwrap();
    bus.shutdown(secs(30)).await.unwrap();
}
