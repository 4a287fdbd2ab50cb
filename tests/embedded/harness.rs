//! A store in a directory of its own, on a clock that is moved by hand.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::event::{BucketId, BucketKey, Envelope, Payload, TRACE_HEADER, UNIQUE_HEADER};
use duly::records::NodeId;
use duly::store::operation::{
    AttemptOutcome, Delivery, Fetch, NewEvent, Operation, PushOutcome, PushReport, Reply,
    Settlement, Snapshot, StartMark, Stats, StoreOp,
};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::{Clock, Mono, Timestamp, When};
use duly::{EventId, Result, Unique};
use futures_util::FutureExt;

pub(crate) const NODE: NodeId = NodeId(1);

/// Noon of the tests: the time at which every clock starts.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A clock that is moved by hand.
#[derive(Debug)]
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn at(time: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(time.as_micros())))
    }

    pub(crate) fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, span: Duration) {
        let span = u64::try_from(span.as_micros()).expect("a short span");
        self.0.fetch_add(span, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn wall_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn mono(&self) -> Mono {
        Mono::from_nanos(self.wall_us() * 1_000)
    }
}

/// A directory for one store; it goes when this does.
pub(crate) struct Place {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) clock: Arc<Hand>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            clock: Hand::at(START),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("duly.db")
    }

    /// Small, so that a test does not write megabytes.
    pub(crate) fn options(&self) -> EmbeddedOptions {
        let clock = Arc::clone(&self.clock);
        EmbeddedOptions::inline().clock(clock).reserve_bytes(4_096)
    }

    pub(crate) fn try_open(&self) -> Result<EmbeddedStore> {
        EmbeddedStore::open_with(self.path(), self.options())
    }

    pub(crate) fn open(&self) -> EmbeddedStore {
        self.try_open().expect("a store")
    }

    /// The error of an open that must fail.
    pub(crate) fn open_error(&self) -> duly::Error {
        self.try_open().expect_err("the store must not open")
    }
}

pub(crate) fn key() -> BucketKey {
    BucketKey::new("order-close".parse().expect("a legal name"), BucketId(0))
}

/// The id of the `n`th event of a test.
pub(crate) fn id(n: u64) -> EventId {
    EventId::from_parts(START, BucketId(0), n)
}

/// What the `n`th event carries: it says whose it is.
pub(crate) fn payload(n: u64) -> Payload {
    Payload::from(format!("payload of event {n}").into_bytes())
}

/// The `n`th event, with `attempts` attempts.
pub(crate) fn event(n: u64, when: When, attempts: u16) -> NewEvent {
    let mut envelope = Envelope::new(id(n), key().queue, payload(n));
    envelope.attempts = attempts;
    NewEvent {
        envelope: Arc::new(envelope),
        when,
        on_taken: Unique::Keep,
    }
}

/// The `n`th event, whose records tell its trace and keep its payload.
pub(crate) fn telling(n: u64, attempts: u16) -> NewEvent {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut event = event(n, When::Now, attempts);
    let envelope = Arc::make_mut(&mut event.envelope);
    envelope.headers = vec![(TRACE_HEADER.to_owned(), trace.to_owned())];
    envelope.keeps_payload = true;
    event
}

/// The `n`th event, with a unique key that stays taken for an hour when it is done.
pub(crate) fn unique(n: u64) -> NewEvent {
    let mut event = event(n, When::Now, 3);
    let envelope = Arc::make_mut(&mut event.envelope);
    envelope.unique = Some("k".to_owned());
    envelope.headers = vec![(UNIQUE_HEADER.to_owned(), "3600000".to_owned())];
    event
}

/// Asks an inline store, whose futures are ready.
pub(crate) fn ask(store: &EmbeddedStore, op: StoreOp) -> Result<Reply> {
    let answer = store.apply(&key(), op).now_or_never();
    Ok(answer.expect("an inline store replies at once")?.reply)
}

fn typed<R>(store: &EmbeddedStore, op: Operation<R>) -> Result<R> {
    let reply = op.apply(store, &key()).now_or_never();
    reply.expect("an inline store replies at once")
}

pub(crate) fn push(store: &EmbeddedStore, event: NewEvent) -> Result<PushReport> {
    Ok(typed(store, StoreOp::push(vec![event]))?[0])
}

pub(crate) fn push_now(store: &EmbeddedStore, n: u64) {
    let pushed = push(store, event(n, When::Now, 3)).expect("a push");
    assert_eq!(pushed.verdict, PushOutcome::Accepted);
}

pub(crate) fn fetch_of(request: u64) -> Fetch {
    Fetch {
        node: NODE,
        request,
        limit: 1_000,
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold: None,
        starts: usize::MAX,
    }
}

pub(crate) fn fetch_op(request: u64) -> StoreOp {
    StoreOp::Fetch(fetch_of(request))
}

/// Moves what is due and leases all of it.
pub(crate) fn fetch(store: &EmbeddedStore, request: u64) -> Vec<Delivery> {
    try_fetch(store, request).expect("a fetch")
}

pub(crate) fn try_fetch(store: &EmbeddedStore, request: u64) -> Result<Vec<Delivery>> {
    typed(store, StoreOp::move_due(1_000, false))?;
    Ok(typed(store, StoreOp::fetch(fetch_of(request)))?.deliveries)
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

pub(crate) fn settle(
    store: &EmbeddedStore,
    delivery: &Delivery,
    verdict: AttemptOutcome,
) -> Result<bool> {
    let settlements = vec![settlement(delivery, verdict)];
    let settle = StoreOp::settle(NODE, settlements, StartMark::default());
    Ok(typed(store, settle)?[0])
}

/// What becomes of a push.
pub(crate) fn verdict(store: &EmbeddedStore, event: NewEvent) -> PushOutcome {
    push(store, event).expect("a push").verdict
}

/// Pushes an event that is due and ends it.
pub(crate) fn end(store: &EmbeddedStore, event: NewEvent) {
    let request = event.envelope.id.entropy();
    assert_eq!(verdict(store, event), PushOutcome::Accepted);
    let delivery = fetch(store, request).remove(0);
    assert!(settle(store, &delivery, AttemptOutcome::Ack).expect("a settle"));
}

pub(crate) fn get(store: &EmbeddedStore, n: u64) -> Option<Snapshot> {
    typed(store, StoreOp::get(id(n))).expect("a look")
}

pub(crate) fn stats(store: &EmbeddedStore) -> Stats {
    typed(store, StoreOp::stats()).expect("stats")
}
