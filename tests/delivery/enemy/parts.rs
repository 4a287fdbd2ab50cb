//! What a bus is built from: states, handlers, upgrades, published values, a subscriber, a journal, a
//! clock and a store, each an enemy.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use duly::prelude::*;
use duly::records::Cause;
use duly::store::operation::StoreOp;
use duly::testing::Probe;
use duly::time::{Clock, Mono, SystemClock};
use duly::{Annotation, OldPayload};
use serde::Deserializer;
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::misdeed::{Bomb, MISDEEDS, Misdeed};
use super::places::{FoeError, Order, Place};
use crate::bad::{Bad, Mode};
use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    values_that_wait_in_the_ring_may_panic_when_they_are_dropped,
    values_in_the_ring_of_a_bus_that_is_dropped_may_panic_too,
    states_and_handlers_may_panic_when_they_are_dropped,
    an_upgrade_that_misbehaves_buries_its_event,
    a_subscriber_that_panics_costs_no_event,
    a_store_that_panics_now_and_then_is_called_again,
    a_type_that_misbehaves_is_checked_and_leased_like_any_other,
}

/// A value that panics when it is dropped, and decodes from anything.
struct Explosive(#[allow(dead_code)] Option<Bomb>); // kept for its drop

impl Explosive {
    fn new() -> Self {
        Self(Some(Bomb))
    }
}

impl Serialize for Explosive {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Explosive {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <()>::deserialize(from).map(|()| Self::new())
    }
}

/// Hangs until it is cut, and owns something that panics when it is dropped.
struct Hangs(#[allow(dead_code)] Explosive);

impl Handler for Hangs {
    type Payload = Explosive;

    async fn handle(&self, event: Event<Explosive>, _cx: &Context) -> Result<(), Failure> {
        let _event = event;
        std::future::pending().await
    }
}

const HANGS: Annotation = Annotation::new("hangs").workers(1).ring(64);

/// A bus whose only worker hangs, with values and events that wait in the ring behind it.
async fn with_values_in_the_ring(world: &World) -> duly::testing::TestBus {
    let builder = world.builder().register_as(HANGS, Hangs(Explosive::new()));
    let bus = world.start(builder.state(Explosive::new())).await;
    let queue = bus.queue_named::<Explosive>("hangs").unwrap();
    queue.publish(Explosive::new()).await.unwrap();
    bus.settle().await;
    for _ in 0..10 {
        assert!(queue.try_publish(Explosive::new()).is_ok());
    }
    let pusher = bus.queue_named::<()>("hangs").unwrap();
    pusher.push_many([(); 10], ms(0)).await.unwrap();
    bus.settle().await;
    for _ in 0..10 {
        assert!(queue.try_publish(Explosive::new()).is_ok());
    }
    assert_eq!(bus.load()[0].queued, 30);
    bus
}

async fn values_that_wait_in_the_ring_may_panic_when_they_are_dropped(world: World) {
    let bus = with_values_in_the_ring(&world).await;
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    let world = world.restart();
    let (bus, _queue) = world.push_only::<()>("hangs").await;
    let stats = bus.stats("hangs").await.unwrap();
    assert_eq!((stats.ready, stats.leased), (10, 0), "all were handed back");
}

async fn values_in_the_ring_of_a_bus_that_is_dropped_may_panic_too(world: World) {
    let bus = with_values_in_the_ring(&world).await;
    drop(bus);
    tokio::time::sleep(secs(60)).await; // and the tasks that it leaves end
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    queue.call::<()>(1, secs(5)).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
}

/// A handler that owns two values that panic when they are dropped would abort the process, as any
/// other value of two; one is its own matter, and another handler's is another matter.
#[delay_event(queue = "first", register = false)]
struct First(Option<Bomb>);

impl Handler for First {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        assert!(self.0.is_some());
        Ok(())
    }
}

#[delay_event(queue = "second", blocking, register = false)]
struct Second(Option<Bomb>);

impl BlockingHandler for Second {
    type Payload = u64;

    fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        assert!(self.0.is_some());
        Ok(())
    }
}

async fn states_and_handlers_may_panic_when_they_are_dropped(world: World) {
    struct Other(#[allow(dead_code)] Bomb);

    let builder = world.builder().register(First(Some(Bomb)));
    let builder = builder.register_blocking(Second(Some(Bomb)));
    let builder = builder.state(Bomb).state(Other(Bomb));
    let bus = world.start(builder).await;
    bus.queue::<First>().call::<()>(1, secs(5)).await.unwrap();
    bus.queue::<Second>().call::<()>(1, secs(5)).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    // The store was closed, so that the next process can open it.
    let world = world.restart();
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    queue.call::<()>(1, secs(5)).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
}

/// What an upgrade is given: how it misbehaves, and whether its error does.
#[derive(Serialize, Deserialize)]
struct OldOrder(Misdeed, bool);

fn upgrade(old: OldPayload<'_>) -> Result<u64, Failure> {
    let OldOrder(misdeed, is_error) = old.decode()?;
    let (place, bus) = (Place::ErrorDisplay, 0);
    let order = Order {
        place,
        misdeed,
        bus,
    };
    match (misdeed, is_error) {
        (_, true) => Err(FoeError(order).into()),
        (Misdeed::Fails | Misdeed::NeverEnds, false) => Err("not today".into()),
        (misdeed, false) => {
            misdeed.commit(bus);
            Ok(7)
        }
    }
}

#[delay_event(queue = "upgraded", version = 2, upgrade = upgrade, register = false)]
async fn upgraded(event: Event<u64>) -> Result<(), Failure> {
    assert_eq!(event.payload, 7);
    Ok(())
}

async fn an_upgrade_that_misbehaves_buries_its_event(world: World) {
    let (bus, old) = world.push_only::<OldOrder>("upgraded").await;
    let mut ids = Vec::new();
    for misdeed in MISDEEDS {
        for is_error in [false, true] {
            let receipt = old.push_now(OldOrder(misdeed, is_error)).await.unwrap();
            let is_done = !is_error && matches!(misdeed, Misdeed::Blocks | Misdeed::Reenters);
            ids.push((misdeed, is_error, is_done, receipt.id()));
        }
    }
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, old));
    let world = world.restart();
    let bus = world.start(world.builder().register(upgraded {})).await;
    bus.run_until_idle(secs(60)).await.unwrap();
    for (misdeed, is_error, is_done, id) in ids {
        let history = bus.history(id).await.unwrap();
        let how: Vec<_> = history.iter().map(|it| (it.outcome, it.cause)).collect();
        let expected = match is_done {
            true => (Outcome::Acked, None),
            false => (Outcome::Buried, Some(Cause::Undecodable)),
        };
        assert_eq!(how, [expected], "{misdeed:?}, {is_error}");
    }
    bus.shutdown(secs(1)).await.unwrap();
}

/// A layer that panics at lines, at new spans, when a span is entered, or when it ends.
struct Panicking(&'static AtomicUsize);

const LINES: usize = 1;
const NEW_SPANS: usize = 2;
const ENTERED: usize = 3;
const CLOSED: usize = 4;

impl Panicking {
    fn at(&self, what: usize) {
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

async fn a_type_that_misbehaves_is_checked_and_leased_like_any_other(world: World) {
    let builder = world.builder().register_as(HANGS, Hangs(Explosive::new()));
    let bus = world.start(builder).await;
    bus.pause("hangs").await.unwrap();
    let queue = bus.queue_named::<()>("hangs").unwrap();
    queue.push_many([(); 10], secs(60)).await.unwrap();
    let report = bus.check_payloads().run().await.unwrap();
    assert_eq!((report.looked, report.read), (10, 10));
    bus.shutdown(secs(1)).await.unwrap();
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
        queue.push_now(number).await.unwrap();
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

/// A clock that panics at every seventh look.
#[derive(Debug, Default)]
struct PanickingClock {
    near: SystemClock,
    looks: AtomicU64,
    is_on: AtomicBool,
}

impl PanickingClock {
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

#[tokio::test]
async fn a_clock_that_panics_now_and_then_stops_nothing() {
    let clock = Arc::new(PanickingClock::default());
    let probe = Probe::<u64>::new();
    let builder = Bus::builder()
        .only_registered()
        .settings(Default::default());
    let builder = builder.clock(Arc::clone(&clock) as _).store_url("memory:");
    let bus = builder
        .register_as(ORDERS, probe.clone())
        .start()
        .await
        .unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    clock.is_on.store(true, Ordering::Relaxed);
    for number in 0..20 {
        let called = queue.call::<()>(number, secs(60)).await;
        called.unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    let acked = async {
        loop {
            let page = bus.records().outcome(Outcome::Acked).page().await.unwrap();
            if page.items.len() == 20 {
                break;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(secs(60), acked).await.unwrap();
    bus.shutdown(secs(30)).await.unwrap();
}
