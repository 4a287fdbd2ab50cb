//! What every part of this package says of events: their names, ids and payloads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::records::NodeId;
use duly::store::EmbeddedOptions;
use duly::store::operation::{
    AttemptOutcome, Delivery, Fetch, NewEvent, Settlement, StartMark, StoreOp,
};
use duly::time::{Timestamp, When};
use duly::{EventId, Unique};

pub(crate) const NODE: NodeId = NodeId(1);
/// How far away "later" is: no test lasts so long.
pub(crate) const LATER: Duration = Duration::from_secs(3_600);
/// How many queues there are.
pub(crate) const QUEUES: u64 = 2;
/// How many attempts an event has.
pub(crate) const ATTEMPTS: u16 = 3;

/// Where the store lies on a disk: two folders down, which it makes itself.
pub(crate) fn store_in(folder: &Path) -> PathBuf {
    folder.join("state").join("bus").join("duly.db")
}

/// As users open it, but for the size of the reserve: nobody waits for 32 MiB.
pub(crate) fn options() -> EmbeddedOptions {
    EmbeddedOptions::new().reserve_bytes(64 << 10)
}

/// The queue of an event: its number says it.
pub(crate) fn bucket(n: u64) -> BucketKey {
    let name = format!("queue-{}", n % QUEUES);
    BucketKey::new(name.parse().expect("a legal name"), BucketId(0))
}

pub(crate) fn id(n: u64) -> EventId {
    EventId::from_parts(Timestamp::from_millis(1_767_225_600_000), BucketId(0), n)
}

/// What the event carries in this version: from nothing to some pages, the same each time.
pub(crate) fn payload(n: u64, version: u32) -> Payload {
    let mut random = fastrand::Rng::with_seed(n << 8 | u64::from(version));
    let len = match random.u32(..20) {
        0 => random.usize(..20_000),
        1..=5 => random.usize(..3_000),
        _ => random.usize(..100),
    };
    let mut bytes = format!("event {n} as of {version} ").into_bytes();
    bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(len));
    Payload::from(bytes)
}

pub(crate) fn event(n: u64, when: When) -> NewEvent {
    let mut envelope = Envelope::new(id(n), bucket(n).queue, payload(n, 0));
    envelope.attempts = ATTEMPTS;
    NewEvent {
        envelope: Arc::new(envelope),
        when,
        on_taken: Unique::Keep,
    }
}

pub(crate) fn fetch(request: u64, limit: usize) -> StoreOp {
    StoreOp::Fetch(Fetch {
        node: NODE,
        request,
        limit,
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold: None,
        starts: usize::MAX,
    })
}

pub(crate) fn settlement(delivery: &Delivery, verdict: AttemptOutcome) -> Settlement {
    Settlement {
        id: delivery.id,
        request: delivery.request,
        verdict,
        started_us: 0,
        fetched_us: 0,
    }
}

pub(crate) fn settle(settlements: Vec<Settlement>) -> StoreOp {
    StoreOp::Settle {
        node: NODE,
        settlements,
        started: StartMark::default(),
    }
}

/// A number from the environment.
pub(crate) fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")),
    )
}

/// Waits for an answer of the store.
pub(crate) fn wait<T>(answer: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(answer)
}
