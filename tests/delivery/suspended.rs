//! A machine that was suspended: its clocks have gone on, and its timers have not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::BusBuilder;
use duly::prelude::*;
use duly::store::MemoryStore;
use duly::testing::Probe;
use duly::time::{Clock, Mono, SystemClock};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::world::{ORDERS, ms, secs};

const HOUR: Duration = secs(3_600);
/// Timers alone would bring what is due after half a minute at the earliest.
const SOON: Duration = secs(15);

/// The machine's clocks, which also count suspensions of which its timers know nothing.
#[derive(Debug, Default)]
struct Suspended {
    near: SystemClock,
    suspended_us: AtomicU64,
    /// When the mover read it last.
    moved_ns: AtomicU64,
}

impl Suspended {
    fn suspend(&self, span: Duration) {
        let us = u64::try_from(span.as_micros()).unwrap();
        self.suspended_us.fetch_add(us, Ordering::SeqCst);
    }

    /// Waits until the mover has nothing to do; it sets its gauges a second after it had.
    async fn is_quiet(&self) {
        let moved = || Mono::from_nanos(self.moved_ns.load(Ordering::SeqCst));
        while self.near.mono().since(moved()) < secs(2) {
            tokio::time::sleep(ms(10)).await;
        }
    }
}

impl Clock for Suspended {
    fn wall_us(&self) -> u64 {
        self.near.wall_us() + self.suspended_us.load(Ordering::SeqCst)
    }

    fn mono(&self) -> Mono {
        let near = self.near.mono();
        if std::thread::current().name() == Some("duly-mover") {
            self.moved_ns.store(near.as_nanos(), Ordering::SeqCst);
        }
        near + Duration::from_micros(self.suspended_us.load(Ordering::SeqCst))
    }
}

fn builder(clock: &Arc<Suspended>) -> BusBuilder {
    let store = MemoryStore::with_clock(Arc::clone(clock) as _);
    let builder = Bus::builder().only_registered().store(store);
    builder.clock(Arc::clone(clock) as _)
}

/// How the first attempt of an event ended.
async fn end_of(bus: &Bus, id: EventId) -> Outcome {
    loop {
        let page = bus.records().id(id).page().await.unwrap();
        match page.items.into_iter().next() {
            Some(record) => return record.outcome,
            None => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn what_fell_due_during_a_suspension_starts_within_seconds_of_its_end() {
    let clock = Arc::<Suspended>::default();
    let (started, mut starts) = mpsc::unbounded_channel();
    let probe = Probe::answering(move |event: &Event<u64>, _cx| {
        started.send(event.payload).ok();
        Ok(())
    });
    let builder = builder(&clock).register_as(ORDERS, probe);
    let bus = builder.start().await.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    queue.push(7_u64, HOUR).await.unwrap();
    clock.is_quiet().await;
    assert!(starts.try_recv().is_err());

    clock.suspend(2 * HOUR);
    let start = timeout(SOON, starts.recv()).await;
    assert_eq!(start.unwrap(), Some(7));
    bus.shutdown(secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_caller_that_waits_gets_what_fell_due_during_a_suspension() {
    let clock = Arc::<Suspended>::default();
    let bus = builder(&clock).publish_only().start().await.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    queue.push(7_u64, HOUR).await.unwrap();
    let lease = queue.lease(1, secs(60)).wait(secs(600)).send();
    let waits = tokio::spawn(lease);
    for _ in 0..100 {
        tokio::task::yield_now().await; // all that there is runs on this thread
    }
    assert!(!waits.is_finished());

    clock.suspend(2 * HOUR);
    let leased = timeout(SOON, waits).await.unwrap().unwrap().unwrap();
    assert_eq!(leased[0].event().payload, 7);
    bus.shutdown(secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_was_suspended_with_its_machine_has_not_exceeded_its_timeout() {
    let clock = Arc::<Suspended>::default();
    let (running, mut runs) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let release = Arc::clone(&go);
    let probe = Probe::running(move |_event: Event<u64>, _cx| {
        let (running, go) = (running.clone(), Arc::clone(&go));
        async move {
            running.send(()).ok();
            go.notified().await;
            Ok(())
        }
    });
    let builder = builder(&clock).register_as(ORDERS.timeout(secs(60)), probe);
    let bus = builder.start().await.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    let id = queue.push(7_u64, When::Now).await.unwrap().id();
    assert_eq!(runs.recv().await, Some(()));

    clock.suspend(2 * HOUR);
    release.notify_one();
    assert_eq!(end_of(&bus, id).await, Outcome::Acked);
    bus.shutdown(secs(5)).await.unwrap();
}
