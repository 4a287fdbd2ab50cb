//! What a bus calls outside of itself: a subscriber, a journal and a store, each an enemy.

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use duly::event::Occurrence;
use duly::prelude::*;
use duly::schedule::{OverlapPolicy, ScheduleOptions};
use duly::store::operation::StoreOp;
use duly::testing::Probe;
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::bad::{Bad, Mode};
use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_subscriber_that_panics_costs_no_event,
    a_subscriber_that_panics_ends_no_schedule,
    a_subscriber_that_calls_the_bus_again_stops_nothing,
    a_store_that_panics_now_and_then_is_called_again,
}

/// A layer that panics at lines, at new spans, when a span is entered, or when it ends.
pub(super) struct Panicking(pub(super) &'static AtomicUsize);

pub(super) const LINES: usize = 1;
pub(super) const NEW_SPANS: usize = 2;
pub(super) const ENTERED: usize = 3;
pub(super) const CLOSED: usize = 4;

impl Panicking {
    pub(super) fn at(&self, what: usize) {
        if self.0.load(Ordering::Relaxed) == what {
            resume_unwind(Box::new("a subscriber"));
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Panicking {
    fn enabled(&self, metadata: &Metadata<'_>, _: LayerContext<'_, S>) -> bool {
        metadata.target().starts_with("duly")
    }

    fn on_event(&self, _: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        self.at(LINES);
    }

    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: LayerContext<'_, S>) {
        self.at(NEW_SPANS);
    }

    fn on_enter(&self, _: &Id, _: LayerContext<'_, S>) {
        self.at(ENTERED);
    }

    fn on_close(&self, _: Id, _: LayerContext<'_, S>) {
        self.at(CLOSED);
    }
}

async fn a_subscriber_that_panics_costs_no_event(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload {
        1 => Ok(()),
        2 => Err(Failure::retry("no")),
        3 => Err(Failure::discard("no")),
        _ => resume_unwind(Box::new("on purpose")),
    });
    let (bus, queue) = world.serve(ORDERS.attempts(2), &probe).await;
    for what in [LINES, NEW_SPANS, ENTERED, CLOSED] {
        let mut ids = Vec::new();
        for payload in 1..5 {
            ids.push(queue.push(payload, secs(1)).await.unwrap().id());
        }
        let pusher = bus.queue_named::<String>("orders").unwrap();
        ids.push(
            pusher
                .push("no number".to_owned(), secs(1))
                .await
                .unwrap()
                .id(),
        );
        // Of this test alone: others run beside it.
        let when: &'static AtomicUsize = Box::leak(Box::default());
        {
            let subscriber = Registry::default().with(Panicking(when));
            let _heard_here = tracing::subscriber::set_default(subscriber);
            when.store(what, Ordering::Relaxed);
            bus.advance(secs(10)).await;
            when.store(0, Ordering::Relaxed);
        }
        bus.run_until_idle(secs(60)).await.unwrap();
        for id in ids {
            let history = bus.history(id).await.unwrap();
            let last = history.last().map(|it| it.outcome);
            assert!(
                matches!(
                    last,
                    Some(Outcome::Acked | Outcome::Buried | Outcome::Discarded)
                ),
                "{what}: {history:?}"
            );
        }
    }
    bus.shutdown(secs(1)).await.unwrap();
}

/// A layer that begins calls of the bus at each line, and waits a little.
#[derive(Clone, Default)]
struct Reenters {
    of: Arc<OnceLock<(Bus, EventId)>>,
    is_inside: Arc<AtomicBool>,
    lines: Arc<AtomicUsize>,
}

impl<S: Subscriber> Layer<S> for Reenters {
    fn enabled(&self, metadata: &Metadata<'_>, _: LayerContext<'_, S>) -> bool {
        metadata.target().starts_with("duly")
    }

    fn on_event(&self, _: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        let Some((bus, id)) = self.of.get() else {
            return;
        };
        if self.is_inside.swap(true, Ordering::Relaxed) {
            return; // a line of its own call
        }
        self.lines.fetch_add(1, Ordering::Relaxed);
        let mut task = std::task::Context::from_waker(Waker::noop());
        let _ = pin!(bus.explain(*id)).poll(&mut task);
        let _ = pin!(bus.stats("orders")).poll(&mut task);
        let _ = bus.load();
        std::thread::sleep(ms(1)); // it blocks, as one that writes to a disk
        self.is_inside.store(false, Ordering::Relaxed);
    }
}

async fn a_subscriber_that_calls_the_bus_again_stops_nothing(world: World) {
    let faulty = Faulty::to(&world.store);
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload % 5 {
        0 => Err(Failure::permanent("no")),
        _ => Ok(()),
    });
    let layer = Reenters::default();
    let subscriber = Registry::default().with(layer.clone());
    let _heard_here = tracing::subscriber::set_default(subscriber);
    let way = Arc::clone(&faulty) as _;
    let (bus, queue) = world.serve_by(way, ORDERS, &probe).await;
    let mut last = None;
    for number in 0..20 {
        last = Some(queue.push(number, ms(number * 137)).await.unwrap().id());
    }
    let of = (Bus::clone(&bus), last.unwrap());
    assert!(layer.of.set(of).is_ok());
    for kind in [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Full] {
        faulty.is(Fault::Refused(kind));
        bus.advance(ms(700)).await;
        faulty.is(Fault::None);
        bus.advance(ms(100)).await;
    }
    bus.run_until_idle(secs(600)).await.unwrap();
    assert_eq!(probe.count(), 20);
    assert!(layer.lines.load(Ordering::Relaxed) > 3);
    bus.shutdown(secs(5)).await.unwrap();
}

/// A line of the log stands in every look at a schedule that passes something over.
async fn a_subscriber_that_panics_ends_no_schedule(world: World) {
    let probe = Probe::<Occurrence>::taking(secs(1_500));
    let when: &'static AtomicUsize = Box::leak(Box::default());
    let often = ScheduleOptions::new("orders", "every 10m").unwrap();
    let annotation = ORDERS.timeout(secs(3_600));
    let builder = world.builder().register_as(annotation, probe.clone());
    let builder = builder.schedule("often", often.overlap(OverlapPolicy::Skip));
    let subscriber = Registry::default().with(Panicking(when));
    let _heard_here = tracing::subscriber::set_default(subscriber);
    let bus = world.start(builder).await;
    when.store(LINES, Ordering::Relaxed);
    bus.advance(secs(5_460)).await;
    when.store(0, Ordering::Relaxed);
    assert_eq!(probe.count(), 3, "of three, one runs");
}

async fn a_store_that_panics_now_and_then_is_called_again(world: World) {
    let faulty = Faulty::to(&world.store);
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload % 5 {
        0 => Err(Failure::permanent("no")),
        _ => Ok(()),
    });
    let way = Arc::clone(&faulty) as _;
    let (bus, queue) = world.serve_by(way, ORDERS, &probe).await;
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(queue.push(number, ms(number * 37)).await.unwrap().id());
    }
    let mut asked = 0;
    faulty.meets(move |_, op| {
        asked += 1;
        match (asked % 3, op) {
            (_, StoreOp::Stats | StoreOp::Forecast { .. } | StoreOp::Peek { .. }) => Fault::None,
            (0, _) => Fault::Panics,
            (1, _) => Fault::PanicsLater,
            _ => Fault::None,
        }
    });
    faulty.rolls_are(Fault::Panics);
    faulty.notes_panic.store(true, Ordering::Relaxed);
    bus.advance(secs(20)).await;
    faulty.is(Fault::None); // for what the test itself asks
    faulty.notes_panic.store(false, Ordering::Relaxed);
    bus.run_until_idle(secs(600)).await.unwrap();
    for id in ids {
        let outcomes = bus.outcomes(id).await.unwrap();
        assert!(
            matches!(outcomes[..], [Outcome::Acked | Outcome::Buried]),
            "{outcomes:?}"
        );
    }
    bus.shutdown(secs(5)).await.unwrap();
}

/// Its journal panics at once, in the future that it returns, and when it is closed.
#[tokio::test(start_paused = true)]
async fn a_journal_that_panics_costs_no_record() {
    let world = World::memory();
    let journal = Arc::new(Bad::default());
    let probe = Probe::<u64>::new();
    let builder = world.builder().register_as(ORDERS, probe.clone());
    let bus = world
        .start(builder.shared_journal(Arc::clone(&journal) as _))
        .await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    journal.now(Mode::Panics);
    for number in 0..20 {
        queue.push(number, When::Now).await.unwrap();
    }
    bus.advance(secs(120)).await;
    assert_eq!(probe.count(), 20);
    assert!(
        bus.records().page().await.is_err(),
        "and whoever asks is told"
    );
    journal.now(Mode::Works);
    bus.advance(secs(60)).await;
    assert_eq!(journal.all().await.len(), 20);
    journal.now(Mode::Panics);
    bus.shutdown(secs(1)).await.unwrap();
}
