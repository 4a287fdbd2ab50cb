//! The test world: a store, a clock and one bucket.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::store_contract::harness::{StoreHarness, Subject};
use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::records::{Cause, NodeId};
use duly::store::operation::{AttemptOutcome, FailureReason, Fetch, NewEvent, Operation, StoreOp};
use duly::store::{DedupWindow, Store};
use duly::testing::ManualClock;
use duly::time::{Clock, Timestamp, When};
use duly::{ErrorKind, EventId, LatePolicy, QueueName, Result, Unique};

/// Two nodes, and a third that never held anything.
pub(super) const A: NodeId = NodeId(0xA);
pub(super) const B: NodeId = NodeId(0xB);
pub(super) const STRANGER: NodeId = NodeId(0xC);

/// A fresh store with its clock, and helpers for operations on one of its buckets.
#[derive(Debug)]
pub(super) struct World {
    subject: Arc<dyn Subject>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) bucket: BucketKey,
    entropy: AtomicU64,
    request: AtomicU64,
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(super) fn failed(error: &str) -> FailureReason {
    FailureReason {
        cause: Cause::Failed,
        error: Some(error.to_owned()),
    }
}

pub(super) fn retry(delay: Duration) -> AttemptOutcome {
    AttemptOutcome::Retry(delay, failed("it failed"))
}

pub(super) fn bury() -> AttemptOutcome {
    AttemptOutcome::Bury(failed("it is broken"))
}

/// An event about to be pushed.
#[derive(Clone, Debug)]
pub(super) struct EventDraft(pub(super) NewEvent);

impl EventDraft {
    pub(super) fn id(&self) -> EventId {
        self.0.envelope.id
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Envelope)) -> Self {
        change(Arc::make_mut(&mut self.0.envelope));
        self
    }

    pub(super) fn when(mut self, when: impl Into<When>) -> Self {
        self.0.when = when.into();
        self
    }

    pub(super) fn attempts(self, attempts: u16) -> Self {
        self.with(|envelope| envelope.attempts = attempts)
    }

    pub(super) fn payload(self, payload: &str) -> Self {
        self.with(|envelope| envelope.payload = Payload::from(payload.as_bytes()))
    }

    pub(super) fn key(self, key: &str) -> Self {
        self.with(|envelope| envelope.key = Some(key.to_owned()))
    }

    pub(super) fn unique(mut self, unique: &str, on_taken: Unique) -> Self {
        self.0.on_taken = on_taken;
        self.with(|envelope| envelope.unique = Some(unique.to_owned()))
    }

    pub(super) fn expires(self, at: Timestamp) -> Self {
        self.with(|envelope| envelope.expires = Some(at))
    }

    pub(super) fn late(self, late: LatePolicy) -> Self {
        self.with(|envelope| envelope.late = late)
    }
}

impl World {
    pub(super) async fn new(harness: &dyn StoreHarness) -> Self {
        Self::within(harness, DedupWindow::default()).await
    }

    /// Creates a world whose store keeps this many tombstones, however young they are.
    pub(super) async fn remembering(harness: &dyn StoreHarness, many: usize) -> Self {
        let window = DedupWindow {
            max: many,
            cap: many,
            ..DedupWindow::default()
        };
        Self::within(harness, window).await
    }

    pub(super) async fn within(harness: &dyn StoreHarness, window: DedupWindow) -> Self {
        let clock = Arc::new(ManualClock::new());
        let queue: QueueName = "contract".parse().expect("a legal name");
        Self {
            subject: harness.fresh(Arc::clone(&clock), window).await,
            clock,
            bucket: BucketKey::new(queue, BucketId(3)),
            entropy: AtomicU64::new(1),
            request: AtomicU64::new(1),
        }
    }

    /// Returns the world after a restart of the process; `None` where nothing survives it.
    pub(super) async fn reopened(mut self) -> Option<Self> {
        self.subject = self.subject.reopen()?.await;
        Some(self)
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.subject.store()
    }

    pub(super) fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Applies an operation, and checks all invariants.
    pub(super) async fn try_op<R>(&self, op: Operation<R>) -> Result<R> {
        let reply = op.apply(&*self.subject.store(), &self.bucket).await;
        self.check().await;
        reply
    }

    pub(super) async fn check(&self) {
        if let Err(wrong) = self.subject.check().await {
            panic!("the store is inconsistent: {wrong}");
        }
    }

    /// Applies an operation that the store must refuse, and returns the kind of its error.
    pub(super) async fn refused(&self, op: StoreOp) -> ErrorKind {
        let name = format!("{op:?}");
        let result = self.subject.store().apply(&self.bucket, op).await;
        self.check().await;
        match result {
            Err(error) => error.kind(),
            Ok(result) => panic!("{name} was not refused: {:?}", result.reply),
        }
    }

    pub(super) async fn op<R: fmt::Debug>(&self, op: Operation<R>) -> R {
        let name = format!("{op:?}");
        match self.try_op(op).await {
            Ok(reply) => reply,
            Err(error) => panic!("{name} was refused: {error}"),
        }
    }

    /// Creates an event that is due at once, with three attempts and its own id.
    pub(super) fn event(&self) -> EventDraft {
        self.event_made(self.now())
    }

    /// Creates such an event with an id of this creation time.
    pub(super) fn event_made(&self, created: Timestamp) -> EventDraft {
        let count = self.entropy.fetch_add(1, Ordering::Relaxed);
        let entropy = ((count / 64) << 8) | (128 + count % 64); // runs of ids, which a store may keep together
        let id = EventId::from_parts(created, self.bucket.bucket, entropy);
        let payload = Payload::from(b"payload".as_slice());
        let envelope = Envelope::new(id, self.bucket.queue.clone(), payload);
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when: When::Now,
            on_taken: Unique::Keep,
        };
        EventDraft(event).attempts(3)
    }

    /// Creates a fetch of ready events only, with its own number.
    pub(super) fn fetching(&self, node: NodeId, limit: usize) -> Fetch {
        Fetch {
            node,
            request: self.request.fetch_add(1, Ordering::Relaxed),
            limit,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: None,
            starts: usize::MAX,
        }
    }
}
