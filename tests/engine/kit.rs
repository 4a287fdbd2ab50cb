//! A bucket of the engine over a ledger that confirms late, as that of a file does.

use std::sync::Arc;
use std::time::Duration;

use duly::__internal::{Bucket, ChangeSink, UsedAttempts};
use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::records::{NodeId, Record};
use duly::store::DedupWindow;
use duly::store::operation::{Delivery, Fetch, FetchReport, NewEvent, PushOutcome, Reply, StoreOp};
use duly::time::{Timestamp, When};
use duly::{EventId, Unique};

/// Keeps a number for each envelope, as a store with a file does, and confirms late.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) written: Vec<String>,
    pub(crate) records: Vec<Record>,
    next: u64,
}

impl ChangeSink for Rows {
    type Body = u64;
    const CONFIRMS: bool = true;

    fn added(&mut self, _: &Arc<Envelope>, due: Timestamp) -> u64 {
        self.next += 1;
        self.written
            .push(format!("added {} {}", self.next, due.as_millis()));
        self.next
    }

    fn changed(&mut self, _: EventId, row: &u64, due: Timestamp, used: UsedAttempts) {
        let UsedAttempts { tries, .. } = used;
        self.written
            .push(format!("changed {row} {} {tries}", due.as_millis()));
    }

    fn updated(&mut self, _: EventId, row: &mut u64, _: &Payload) {
        self.next += 1;
        self.written.push(format!("updated {row} to {}", self.next));
        *row = self.next;
    }

    fn buried(&mut self, _: EventId, row: &u64, at: Timestamp, tries: u16) {
        self.written
            .push(format!("buried {row} {} {tries}", at.as_millis()));
    }

    fn revived(&mut self, _: EventId, row: &u64, due: Timestamp) {
        self.written
            .push(format!("revived {row} {}", due.as_millis()));
    }

    fn removed(&mut self, _: EventId, row: &u64) {
        self.written.push(format!("removed {row}"));
    }

    fn recorded(&mut self, record: Record, _telling: Option<&Self::Body>) {
        self.records.push(record);
    }
}

/// A bucket, and what is written of it.
pub(crate) struct Side {
    pub(crate) bucket: Bucket<u64>,
    pub(crate) rows: Rows,
    pub(crate) now_us: u64,
    request: u64,
}

impl Side {
    pub(crate) fn new() -> Self {
        let key = BucketKey::new("rows".parse().expect("a legal name"), BucketId(0));
        Self {
            bucket: Bucket::new(key).with_window(DedupWindow {
                max: 2,
                cap: 2,
                ..DedupWindow::default()
            }),
            rows: Rows::default(),
            now_us: 1_000_000,
            request: 0,
        }
    }

    pub(crate) fn op(&mut self, op: StoreOp) -> Reply<u64> {
        let answer = self.bucket.apply(self.now_us, op, &mut self.rows);
        let answer = answer.expect("it is accepted");
        self.bucket.check().expect("all is in its place");
        answer.reply
    }

    pub(crate) fn push(&mut self, event: NewEvent) -> PushOutcome {
        match self.op(StoreOp::Push(vec![event])) {
            Reply::Pushed(pushed) => pushed[0].verdict,
            other => panic!("a push answered {other:?}"),
        }
    }

    pub(crate) fn fetch(&mut self) -> Vec<Delivery<u64>> {
        self.request += 1;
        self.op(StoreOp::MoveDue {
            limit: 10,
            calls: false,
        });
        let fetch = Fetch {
            node: NodeId(1),
            request: self.request,
            limit: 10,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: None,
            starts: usize::MAX,
        };
        match self.op(StoreOp::Fetch(fetch)) {
            Reply::Fetched(FetchReport { deliveries, .. }) => deliveries,
            other => panic!("a fetch answered {other:?}"),
        }
    }
}

pub(crate) fn id(created_ms: u64, entropy: u64) -> EventId {
    EventId::from_parts(Timestamp::from_millis(created_ms), BucketId(0), entropy)
}

pub(crate) fn event(id: EventId, when: When) -> NewEvent {
    let payload = Payload::from(b"x".as_slice());
    let mut envelope = Envelope::new(id, "rows".parse().expect("a legal name"), payload);
    envelope.attempts = 3;
    NewEvent {
        envelope: Arc::new(envelope),
        when,
        on_taken: Unique::Keep,
    }
}

pub(crate) fn unique(id: EventId, on_taken: Unique) -> NewEvent {
    let mut event = event(id, When::Now);
    Arc::make_mut(&mut event.envelope).unique = Some("k".into());
    NewEvent { on_taken, ..event }
}

pub(crate) const FAR: Duration = Duration::from_secs(60);
