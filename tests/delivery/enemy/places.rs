//! What an event meets on its way: its payload, its handler, and its handler's error, each of which
//! commits the misdeed that the event names.

use std::error::Error as StdError;
use std::fmt;

use duly::prelude::*;
use duly::records::Cause;
use serde::{Deserializer, Serializer, de, ser};

use super::misdeed::Misdeed;

/// Where users' code is called on an event's way. A payload is neither cloned nor printed but by its
/// handler: it need not be `Clone` or `Debug`, and the one here is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Place {
    /// The payload, when it is pushed.
    PayloadSerialize,
    /// The payload, when it is decoded.
    PayloadDeserialize,
    /// The payload, when the handler drops it.
    PayloadDrop,
    Handler,
    /// What the handler owns, when it returns.
    LocalDrop,
    /// What the handler owns, when it is dropped at its timeout.
    LocalDropAtTimeout,
    /// The value of a reply.
    Reply,
    ErrorDisplay,
    ErrorSource,
    ErrorDrop,
    ErrorDebug,
}

pub(super) const PLACES: [Place; 11] = [
    Place::PayloadSerialize,
    Place::PayloadDeserialize,
    Place::PayloadDrop,
    Place::Handler,
    Place::LocalDrop,
    Place::LocalDropAtTimeout,
    Place::Reply,
    Place::ErrorDisplay,
    Place::ErrorSource,
    Place::ErrorDrop,
    Place::ErrorDebug,
];

/// How an event is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Async,
    Delayed,
    Blocking,
}

/// How an event ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// A dead letter, after two attempts where attempts help.
    Dead(Cause),
    /// Its push fails or panics, and nothing of it is in the store.
    Refused,
}

/// How the event of a cell ends; `None` where there is no such thing.
pub(super) fn expected(kind: Kind, place: Place, misdeed: Misdeed) -> Option<End> {
    use Misdeed::{Blocks, Fails, IsHuge, NeverEnds, Panics, PanicsWithABomb, Reenters};
    let panicked = match misdeed {
        Panics | PanicsWithABomb | IsHuge => Some(End::Dead(Cause::Panicked)),
        Blocks | Reenters => Some(End::Done),
        Fails | NeverEnds => None,
    };
    match (place, misdeed) {
        (Place::PayloadSerialize, Panics | PanicsWithABomb | IsHuge | Fails) => Some(End::Refused),
        (Place::PayloadDeserialize, Panics | PanicsWithABomb | IsHuge | Fails) => {
            Some(End::Dead(Cause::Undecodable))
        }
        // Whatever becomes of its text, a failure says what is next.
        (Place::ErrorDisplay | Place::ErrorSource | Place::ErrorDrop | Place::ErrorDebug, _)
        | (Place::Handler | Place::Reply, Fails) => Some(End::Dead(Cause::Failed)),
        (Place::Handler, NeverEnds)
        | (Place::LocalDropAtTimeout, Panics | PanicsWithABomb | IsHuge | Blocks | Reenters) => {
            // Virtual time stands still while a thread is blocked.
            (kind != Kind::Blocking).then_some(End::Dead(Cause::TimedOut))
        }
        _ => panicked,
    }
}

/// What an event says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) place: Place,
    pub(super) misdeed: Misdeed,
    /// The number of its bus.
    pub(super) bus: u64,
}

/// A payload that commits the misdeed of its order at its place; one without an order is good.
pub(super) struct Foe {
    pub(super) order: Option<Order>,
    /// Whether a store has had it: what its pusher drops does no harm.
    is_armed: bool,
}

impl Foe {
    pub(super) fn new(order: Option<Order>) -> Self {
        let is_armed = false;
        Self { order, is_armed }
    }

    fn at(&self, place: Place) -> Option<Order> {
        self.order.filter(|order| order.place == place)
    }
}

tokio::task_local! {
    /// While a value is pushed its decoder behaves, or the push would refuse it.
    static PUSHED: ();
}

/// Pushes a value that misbehaves only when it is decoded later.
pub(super) async fn pushed<F: Future>(push: F) -> F::Output {
    PUSHED.scope((), push).await
}

impl Serialize for Foe {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if let Some(Order { misdeed, bus, .. }) = self.at(Place::PayloadSerialize) {
            if misdeed == Misdeed::Fails {
                return Err(ser::Error::custom("not today"));
            }
            misdeed.commit(bus);
        }
        self.order.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Foe {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let order = Option::<Order>::deserialize(from)?;
        let is_armed = PUSHED.try_with(|()| {}).is_err();
        let foe = Self { order, is_armed };
        let order = foe.at(Place::PayloadDeserialize).filter(|_| is_armed);
        if let Some(Order { misdeed, bus, .. }) = order {
            if misdeed == Misdeed::Fails {
                return Err(de::Error::custom("not today"));
            }
            misdeed.commit(bus);
        }
        Ok(foe)
    }
}

impl Drop for Foe {
    fn drop(&mut self) {
        if let Some(order) = self.at(Place::PayloadDrop).filter(|_| self.is_armed) {
            order.misdeed.commit(order.bus);
        }
    }
}

/// An error of a handler that commits the misdeed of an order.
pub(super) struct FoeError(pub(super) Order);

impl FoeError {
    fn at(&self, place: Place) -> Option<Order> {
        Some(self.0).filter(|order| order.place == place)
    }
}

impl fmt::Display for FoeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at(Place::ErrorDisplay) {
            Some(order) => order.misdeed.write(order.bus, f),
            None => f.write_str("a foe's error"),
        }
    }
}

impl fmt::Debug for FoeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at(Place::ErrorDebug) {
            Some(order) => order.misdeed.write(order.bus, f),
            None => f.write_str("FoeError"),
        }
    }
}

impl StdError for FoeError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let order = self.at(Place::ErrorSource)?;
        match order.misdeed {
            Misdeed::NeverEnds => Some(self),
            misdeed => {
                misdeed.commit(order.bus);
                None
            }
        }
    }
}

impl Drop for FoeError {
    fn drop(&mut self) {
        if let Some(order) = self.at(Place::ErrorDrop) {
            order.misdeed.commit(order.bus);
        }
    }
}

/// Something that a handler owns.
struct Local(Order);

impl Drop for Local {
    fn drop(&mut self) {
        self.0.misdeed.commit(self.0.bus);
    }
}

/// A value to reply with.
struct Reply(Order);

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0.misdeed == Misdeed::Fails {
            return Err(ser::Error::custom("not today"));
        }
        self.0.misdeed.commit(self.0.bus);
        to.serialize_unit()
    }
}

/// What a handler does, as far as it does not wait.
fn handle(event: &Event<Foe>, cx: &Context) -> Result<Option<Local>, Failure> {
    let Some(order) = event.payload.order else {
        return Ok(None);
    };
    match order.place {
        Place::Handler if order.misdeed == Misdeed::Fails => return Err("not today".into()),
        Place::Handler => order.misdeed.commit(order.bus),
        Place::Reply => cx.reply(&Reply(order))?,
        Place::LocalDrop | Place::LocalDropAtTimeout => return Ok(Some(Local(order))),
        Place::ErrorDisplay | Place::ErrorSource | Place::ErrorDrop | Place::ErrorDebug => {
            return Err(FoeError(order).into());
        }
        _ => {}
    }
    Ok(None)
}

/// The handler on the runtime.
#[delay_event(
    queue = "foes",
    workers = 4,
    ring = 64,
    attempts = 2,
    timeout = "1s",
    backoff = "fixed(1ms)",
    register = false
)]
pub(super) struct Foes;

impl Handler for Foes {
    type Payload = Foe;

    async fn handle(&self, event: Event<Foe>, cx: &Context) -> Result<(), Failure> {
        let _local = handle(&event, cx)?;
        let order = event.payload.order;
        let hangs = order.is_some_and(|order| match order.place {
            Place::Handler => order.misdeed == Misdeed::NeverEnds,
            place => place == Place::LocalDropAtTimeout,
        });
        if hangs {
            std::future::pending::<()>().await;
        }
        tokio::task::yield_now().await;
        Ok(())
    }
}

/// The handler on threads.
#[delay_event(
    queue = "blocking-foes",
    blocking,
    workers = 4,
    ring = 64,
    attempts = 2,
    timeout = "1m",
    backoff = "fixed(1ms)",
    register = false
)]
pub(super) struct BlockingFoes;

impl BlockingHandler for BlockingFoes {
    type Payload = Foe;

    fn handle(&self, event: Event<Foe>, cx: &Context) -> Result<(), Failure> {
        handle(&event, cx).map(drop)
    }
}
