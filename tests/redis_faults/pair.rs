//! A bus that pushes and one that handles, both in this process, with nothing else to do.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::Annotation;
use duly::prelude::*;

use crate::nodes::Memory;

const LETTERS: Annotation = Annotation::new("letters");

/// How long an event may take; without a word from the servers a node looks each 30 s.
const PATIENCE: Duration = Duration::from_secs(5);

/// Notes which it has seen.
struct Read(Arc<Mutex<BTreeSet<EventId>>>);

impl Handler for Read {
    type Payload = String;

    async fn handle(&self, event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        self.0.lock().expect("nobody panics").insert(event.id());
        Ok(())
    }
}

fn builder(url: &str) -> duly::BusBuilder {
    let builder = Bus::builder().only_registered();
    builder.settings(Default::default()).store_url(url)
}

/// Who pushes.
pub(crate) struct Pusher {
    bus: Bus,
    pub(crate) queue: Queue<String>,
}

/// Who handles.
pub(crate) struct Worker {
    bus: Bus,
    seen: Arc<Mutex<BTreeSet<EventId>>>,
}

impl Pusher {
    pub(crate) async fn start(url: &str) -> Self {
        let bus = builder(url).publish_only().start().await.expect("a start");
        let queue = bus.queue_named("letters").expect("a legal name");
        Self { bus, queue }
    }

    pub(crate) async fn push(&self, delay: Duration) -> duly::Result<EventId> {
        let receipt = self.queue.push("x".repeat(1_000), delay).await?;
        Ok(receipt.id())
    }

    pub(crate) async fn stop(self) {
        self.bus.shutdown(PATIENCE).await.expect("a stop");
    }
}

impl Worker {
    pub(crate) async fn start(url: &str) -> Self {
        let seen = Arc::new(Mutex::default());
        let handler = Read(Arc::clone(&seen));
        let bus = builder(url).register_as(LETTERS, handler).start().await;
        let bus = bus.expect("a start");
        Self { bus, seen }
    }

    /// Waits until it has handled so many events; answers whether it has within `patience`.
    pub(crate) async fn has_seen(&self, many: usize, patience: Duration) -> bool {
        let seen = async {
            while self.seen().len() < many {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(patience, seen).await.is_ok()
    }

    pub(crate) fn seen(&self) -> BTreeSet<EventId> {
        self.seen.lock().expect("nobody panics").clone()
    }

    pub(crate) async fn stop(self) {
        self.bus.shutdown(PATIENCE).await.expect("a stop");
    }
}

/// Events that come to a node at rest, now and for later, are handled without delay.
///
/// One that a store has forgotten, where it may, is none that nobody was told of.
pub(crate) async fn works(pusher: &Pusher, worker: &Worker, memory: Memory) {
    for delay in [0, 0, 300, 0, 300, 0].map(Duration::from_millis) {
        // It has to come to rest, and there is nothing to see of that.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let many = worker.seen().len() + 1;
        let id = pusher.push(delay).await.expect("it is accepted");
        let is_seen = worker.has_seen(many, PATIENCE).await;
        if !is_seen && memory == Memory::MayForget {
            let state = pusher.queue.get(id).await.expect("an answer");
            assert!(
                state.is_none(),
                "{id} is still {state:?}: nobody told the node"
            );
            println!("{id} was accepted and forgotten");
            continue;
        }
        assert!(is_seen, "{id} was not handled: nobody told the node");
    }
}
