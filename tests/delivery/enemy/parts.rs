//! What a bus is built from: states, handlers, upgrades and published values, each an enemy.

use duly::prelude::*;
use duly::records::Cause;
use duly::testing::Probe;
use duly::{Annotation, BusBuilder, OldPayload};
use serde::Deserializer;

use super::misdeed::{Bomb, MISDEEDS, Misdeed, Registered};
use super::places::{End, Foe, FoeError, Kind, Order, Place, expected, pushed};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    values_that_wait_in_the_ring_may_panic_when_they_are_dropped,
    values_in_the_ring_of_a_bus_that_is_dropped_may_panic_too,
    states_and_handlers_may_panic_when_they_are_dropped,
    an_upgrade_that_misbehaves_buries_its_event,
    values_that_panic_when_they_are_dropped_are_checked_like_any_other,
    a_payload_whose_decoder_misbehaves_is_refused_by_its_push,
    a_payload_that_misbehaves_is_buried_by_the_lease_of_it,
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

/// A bus whose only worker hangs.
pub(super) fn hanging(builder: BusBuilder) -> BusBuilder {
    let builder = builder.register_as(HANGS, Hangs(Explosive::new()));
    builder.state(Explosive::new())
}

/// Lets values and events wait in the ring behind the worker that hangs. `settled` waits until so
/// many do, and the worker runs.
pub(super) async fn fill_the_ring(bus: &Bus, settled: impl AsyncFn(usize)) {
    let queue = bus.queue_named::<Explosive>("hangs").unwrap();
    queue.publish(Explosive::new()).await.unwrap();
    settled(0).await;
    for _ in 0..10 {
        assert!(queue.try_publish(Explosive::new()).is_ok());
    }
    let pusher = bus.queue_named::<()>("hangs").unwrap();
    pusher.push_many([(); 10], ms(0)).await.unwrap();
    settled(20).await;
    for _ in 0..10 {
        assert!(queue.try_publish(Explosive::new()).is_ok());
    }
    assert_eq!(bus.load()[0].queued, 30);
}

async fn with_values_in_the_ring(world: &World) -> duly::testing::TestBus {
    let bus = world.start(hanging(world.builder())).await;
    fill_the_ring(&bus, async |_| bus.settle().await).await;
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

/// A bus that drops bombs.
pub(super) fn with_bombs(builder: BusBuilder) -> BusBuilder {
    struct Other(#[allow(dead_code)] Bomb);

    let builder = builder.register(First(Some(Bomb)));
    let builder = builder.register_blocking(Second(Some(Bomb)));
    builder.state(Bomb).state(Other(Bomb))
}

pub(super) async fn call_both(bus: &Bus) {
    bus.queue::<First>().call::<()>(1, secs(30)).await.unwrap();
    bus.queue::<Second>().call::<()>(1, secs(30)).await.unwrap();
}

async fn states_and_handlers_may_panic_when_they_are_dropped(world: World) {
    let bus = world.start(with_bombs(world.builder())).await;
    call_both(&bus).await;
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    // The store was closed, so that the next process can open it.
    let world = world.restart();
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    queue.call::<()>(1, secs(5)).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
}

/// What an upgrade is given: how it misbehaves, whether its error does, and the number of its bus.
#[derive(Serialize, Deserialize)]
struct OldOrder(Misdeed, bool, u64);

fn upgrade(old: OldPayload<'_>) -> Result<u64, Failure> {
    let OldOrder(misdeed, is_error, bus) = old.decode()?;
    let place = Place::ErrorDisplay;
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

/// An event that was pushed before its upgrade.
pub(super) struct Old {
    misdeed: Misdeed,
    is_error: bool,
    id: EventId,
}

impl Old {
    /// Pushes one for each misdeed. The queue is paused until the next bus is registered.
    pub(super) async fn push_each(bus: &Bus, number: u64) -> Vec<Self> {
        let old = bus.queue_named::<OldOrder>("upgraded").unwrap();
        bus.pause("upgraded").await.unwrap();
        let mut all = Vec::new();
        for misdeed in MISDEEDS {
            for is_error in [false, true] {
                let order = OldOrder(misdeed, is_error, number);
                let id = old.push(order, When::Now).await.unwrap().id();
                all.push(Self {
                    misdeed,
                    is_error,
                    id,
                });
            }
        }
        all
    }

    /// Checks how each has ended.
    pub(super) async fn check_each(all: &[Self], bus: &Bus) {
        for old in all {
            let history = bus.records().id(old.id).page().await.unwrap().items;
            let how: Vec<_> = history.iter().map(|it| (it.outcome, it.cause)).collect();
            let is_done = matches!(old.misdeed, Misdeed::Blocks | Misdeed::Reenters);
            let expected = if is_done && !old.is_error {
                (Outcome::Acked, None)
            } else {
                (Outcome::Buried, Some(Cause::Undecodable))
            };
            assert_eq!(how, [expected], "{:?}, {}", old.misdeed, old.is_error);
        }
    }
}

/// A bus that upgrades.
pub(super) fn upgrading(builder: BusBuilder) -> BusBuilder {
    builder.register(upgraded {})
}

async fn an_upgrade_that_misbehaves_buries_its_event(world: World) {
    let bus = world.start(world.builder().publish_only()).await;
    let registered = Registered::new(&bus);
    let all = Old::push_each(&bus, registered.0).await;
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    let world = world.restart();
    let bus = world.start(upgrading(world.builder())).await;
    registered.is_now(&bus);
    bus.resume("upgraded").await.unwrap();
    bus.run_until_idle(secs(60)).await.unwrap();
    Old::check_each(&all, &bus).await;
    bus.shutdown(secs(1)).await.unwrap();
}

async fn values_that_panic_when_they_are_dropped_are_checked_like_any_other(world: World) {
    let builder = world.builder().register_as(HANGS, Hangs(Explosive::new()));
    let bus = world.start(builder).await;
    bus.pause("hangs").await.unwrap();
    let queue = bus.queue_named::<()>("hangs").unwrap();
    queue.push_many([(); 10], secs(60)).await.unwrap();
    let report = bus.check_payloads().run().await.unwrap();
    assert_eq!((report.looked, report.read), (10, 10));
    bus.shutdown(secs(1)).await.unwrap();
}

async fn a_payload_whose_decoder_misbehaves_is_refused_by_its_push(world: World) {
    let (bus, queue) = world.push_only::<Foe>("foes").await;
    let registered = Registered::new(&bus);
    let mut accepted = 0;
    for misdeed in MISDEEDS {
        for place in [Place::PayloadDeserialize, Place::PayloadDrop] {
            let bus = registered.0;
            let order = Order {
                place,
                misdeed,
                bus,
            };
            let sent = queue.push(Foe::new(Some(order)), When::Now).await;
            let is_undecodable = place == Place::PayloadDeserialize
                && expected(Kind::Async, place, misdeed) == Some(End::Dead(Cause::Undecodable));
            match &sent {
                Ok(_) => accepted += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{misdeed:?}"),
            }
            assert_eq!(sent.is_err(), is_undecodable, "{place:?}, {misdeed:?}");
        }
    }
    let stats = bus.stats("foes").await.unwrap();
    assert_eq!((stats.ready, stats.leased), (accepted, 0));
    bus.shutdown(secs(1)).await.unwrap();
}

async fn a_payload_that_misbehaves_is_buried_by_the_lease_of_it(world: World) {
    let (bus, queue) = world.push_only::<Foe>("foes").await;
    let registered = Registered::new(&bus);
    let mut bad = Vec::new();
    for misdeed in MISDEEDS {
        let place = Place::PayloadDeserialize;
        let bus = registered.0;
        let order = Order {
            place,
            misdeed,
            bus,
        };
        let push = pushed(queue.push(Foe::new(Some(order)), When::Now));
        let id = push.await.unwrap().id();
        if expected(Kind::Async, place, misdeed) == Some(End::Dead(Cause::Undecodable)) {
            bad.push(id);
        }
    }
    let good = queue.push(Foe::new(None), When::Now).await.unwrap().id();
    let leased = queue.lease(100, secs(60)).send().await.unwrap();
    let ids: Vec<_> = leased.iter().map(|leased| leased.id()).collect();
    assert!(ids.contains(&good) && ids.len() == MISDEEDS.len() + 1 - bad.len());
    bus.settle().await; // the others are settled in the background
    for id in bad {
        assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Buried]);
    }
    for leased in leased {
        let _ = leased.ack().await.unwrap();
    }
    let stats = bus.stats("foes").await.unwrap();
    assert_eq!((stats.ready, stats.leased), (0, 0));
    bus.shutdown(secs(1)).await.unwrap();
}
