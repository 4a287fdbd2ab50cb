//! What a call finds: a bus with a handler, and one event of each kind.

use std::sync::Arc;
use std::time::Duration;

use duly::codec::{Key, KeyRing};
use duly::lease::{LeaseToken, Leased};
use duly::prelude::*;
use duly::store::Store;
use duly::testing::Probe;
use duly::{Annotation, BusBuilder};

use crate::world::secs;

/// A queue with a handler, which replies to calls.
pub(super) const HANDLED: Annotation = Annotation::new("handled").workers(4).buckets(1);
/// A queue that is pulled from.
pub(super) const PULLED: &str = "pulled";

/// The arguments of a call; each call has its own.
pub(super) struct Stage {
    pub(super) bus: Bus,
    pub(super) handled: Queue<u64>,
    pub(super) pulled: Queue<u64>,
    /// An event that waits for a day, with the key `key`.
    pub(super) waiting: EventId,
    /// A dead letter.
    pub(super) dead: EventId,
    pub(super) leased: Leased<u64>,
    pub(super) token: LeaseToken,
}

/// The handler: replies with what it is given.
pub(super) fn echo() -> Probe<u64> {
    Probe::answering(|event, cx| {
        cx.reply(&event.payload).expect("a number is encoded");
        Ok(())
    })
}

/// A bus on a store that the test keeps.
pub(super) fn builder(store: Arc<dyn Store>, probe: &Probe<u64>) -> BusBuilder {
    serving(Bus::builder().shared_store(store), probe)
}

/// A bus with the handler, and a key.
pub(super) fn serving(builder: BusBuilder, probe: &Probe<u64>) -> BusBuilder {
    let keys = KeyRing::new();
    keys.add("k", Key::new([7; 32])).expect("room for a key");
    keys.choose("k").expect("it is there");
    let builder = builder.only_registered().keys(keys);
    builder.register_as(HANDLED, probe.clone())
}

impl Stage {
    /// Prepares the events; they take part in nothing else.
    pub(super) async fn of(bus: &Bus) -> duly::Result<Self> {
        let (handled, pulled) = (bus.queue_named("handled")?, bus.queue_named(PULLED)?);
        let waiting = pulled.event(1).after(secs(86_400)).key("key").push();
        let waiting = waiting.await?.id();
        let doomed = lease_one(&pulled, 2).await?;
        let dead = doomed.id();
        let _ = doomed.bury("of the test").await?;
        let leased = lease_one(&pulled, 3).await?;
        Ok(Self {
            bus: bus.clone(),
            handled,
            pulled,
            waiting,
            dead,
            token: leased.token().clone(),
            leased,
        })
    }
}

/// Pushes an event to a queue and leases it, or another one that is ready there.
pub(super) async fn lease_one(queue: &Queue<u64>, payload: u64) -> duly::Result<Leased<u64>> {
    queue.push(payload, When::Now).await?;
    let request = queue.lease(1, Duration::from_secs(3_600));
    let mut leased = request.wait(secs(30)).send().await?;
    Ok(leased.pop().expect("an event was pushed"))
}
