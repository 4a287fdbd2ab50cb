//! The real engine on virtual time, with a clock that can be set wrong.

mod tell;

use std::sync::Arc;
use std::time::Duration;

use duly::__internal::{Bucket, ChangeSink, UsedAttempts};
use duly::event::{BucketKey, Envelope, Payload};
use duly::records::{Outcome, Record};
use duly::store::DedupWindow;
use duly::store::operation::{Response, StoreOp};
use duly::time::Timestamp;
use duly::{ErrorKind, EventId};
use duly_conformance::history::{EntryKind, Lease};

pub use self::tell::ending_of;
use self::tell::{Asked, is_too_late, tell};
use crate::roll::Membership;

/// What is kept of an event: all of it.
pub type Body = Arc<Envelope>;

/// When every world begins, by the store's clock.
const EPOCH_US: u64 = 1_700_000_000_000_000;

/// A lookup of what an event was pushed as: which value, in which version.
pub fn value_of(payload: &Payload) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&payload.as_bytes()[..8]);
    u64::from_be_bytes(bytes)
}

/// A payload of so many bytes that says which value was pushed, in which version.
pub fn payload_of(value: u64, bytes: usize) -> Payload {
    let mut payload = value.to_be_bytes().to_vec();
    payload.resize(bytes, 0);
    Payload::from(payload)
}

/// The store: buckets, and what they said while an operation was applied.
#[derive(Debug)]
pub struct SimStore {
    pub buckets: Vec<Bucket<Body>>,
    clock: WallClock,
    /// Whether it cannot be reached.
    pub is_down: bool,
    /// Whether it says so, or keeps silent.
    pub refuses: bool,
    /// Whether it has no room for anything new.
    pub is_full: bool,
    pub health: Health,
    /// For how long the consumers of this operation were promised their leases, where a planted bug
    /// gives them others.
    pub promised: Option<Duration>,
    /// For each bucket what it said and no history has told yet.
    notes: Vec<Notes>,
    pub roll: Membership,
    /// For each bucket when it showed a time, and by how much that was ahead of the true one; only
    /// what is ahead of all that came later.
    shown: Vec<Vec<(u64, u64)>>,
}

/// Whether the store can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    /// What it does next fails, and nobody knows how much of it has happened.
    FailureReason,
    /// It has stopped itself, and does nothing until it is opened again.
    Failed,
}

/// A clock that jumps.
#[derive(Debug, Default)]
struct WallClock {
    offset_us: i64,
    /// The largest offset ever.
    furthest_us: i64,
}

/// What happened in an operation.
#[derive(Debug, Default)]
struct Notes(Vec<(EventId, EntryKind)>);

/// An answer, and what happened to which event beside.
pub type Applied = (Result<Response<Body>, ErrorKind>, Vec<(EventId, EntryKind)>);

impl ChangeSink for Notes {
    type Body = Body;

    fn added(&mut self, envelope: &Arc<Envelope>, due: Timestamp) -> Body {
        let what = EntryKind::Added {
            due,
            payload: value_of(&envelope.payload),
            attempts: envelope.attempts,
        };
        self.0.push((envelope.id, what));
        Arc::clone(envelope)
    }

    fn changed(&mut self, _: EventId, _: &Body, _: Timestamp, _: UsedAttempts) {}

    fn updated(&mut self, _: EventId, body: &mut Body, payload: &Payload) {
        let mut envelope = Envelope::clone(body);
        envelope.payload = payload.clone();
        *body = Arc::new(envelope);
    }

    fn buried(&mut self, _: EventId, body: &Body, _: Timestamp, _: u16) {
        self.0.push((body.id, EntryKind::Buried));
    }

    fn revived(&mut self, _: EventId, body: &Body, _: Timestamp) {
        self.0.push((body.id, EntryKind::Revived));
    }

    fn removed(&mut self, _: EventId, body: &Body) {
        self.0.push((body.id, EntryKind::Removed));
    }

    fn handed_back(&mut self, _: EventId, body: &Body, lease: Lease) {
        self.0.push((body.id, EntryKind::HandedBack { lease }));
    }

    fn recorded(&mut self, record: Record, _telling: Option<&Self::Body>) {
        let what = EntryKind::Recorded {
            node: record.node,
            attempt: record.attempt,
            outcome: record.outcome,
            due: record.due,
        };
        self.0.push((record.id, what));
    }
}

impl SimStore {
    /// A store whose buckets have this dedup window.
    pub fn new(keys: impl Iterator<Item = BucketKey>, window: DedupWindow) -> Self {
        let new = |key| Bucket::new(key).with_window(window);
        let buckets: Vec<_> = keys.map(new).collect();
        Self {
            shown: vec![Vec::new(); buckets.len()],
            notes: buckets.iter().map(|_| Notes::default()).collect(),
            buckets,
            clock: WallClock::default(),
            is_down: false,
            refuses: false,
            is_full: false,
            health: Health::Well,
            promised: None,
            roll: Membership::default(),
        }
    }

    /// What the store's clock shows.
    pub fn clock_us(&self, now_us: u64) -> u64 {
        (EPOCH_US + now_us).saturating_add_signed(self.clock.offset_us)
    }

    /// The time that an operation on a bucket would be given now.
    pub fn time_us(&self, now_us: u64, bucket: Option<usize>) -> u64 {
        let seen_us = bucket.map_or(0, |bucket| self.buckets[bucket].now_us());
        seen_us.max(self.clock_us(now_us))
    }

    /// The time of a clock that goes on at its own pace from the latest time that the bucket has
    /// shown since `since_us`: before that nothing may start.
    pub fn paced_us(&self, now_us: u64, bucket: usize, since_us: u64) -> u64 {
        let shown = &self.shown[bucket];
        let first = shown.partition_point(|(at_us, _)| *at_us < since_us);
        let paced_us = shown
            .get(first)
            .map_or(0, |(_, ahead_us)| now_us + ahead_us);
        paced_us.max(self.time_us(now_us, Some(bucket)))
    }

    pub fn step_clock(&mut self, by_us: i64) {
        self.clock.offset_us += by_us;
        self.clock.furthest_us = self.clock.furthest_us.max(self.clock.offset_us);
    }

    /// Sets the clock right: not behind what it has shown before.
    pub fn mend_clock(&mut self) {
        self.clock.offset_us = self.clock.furthest_us;
    }

    /// Applies an operation; answers what happened to which event beside.
    pub fn apply(&mut self, now_us: u64, bucket: usize, op: StoreOp) -> Applied {
        let clock_us = self.clock_us(now_us);
        let asked = Asked::of(&op);
        let response = self.buckets[bucket].apply(clock_us, op, &mut self.notes[bucket]);
        let response = response.map_err(|error| error.kind());
        let (shown, ahead_us) = (
            &mut self.shown[bucket],
            self.buckets[bucket].now_us() - now_us,
        );
        while shown
            .pop_if(|(_, before_us)| *before_us <= ahead_us)
            .is_some()
        {}
        shown.push((now_us, ahead_us));
        let mut asked_of = Vec::new();
        if let Ok(response) = &response {
            tell(&asked, response, self.promised, &mut asked_of);
        }
        let mut ended = std::mem::take(&mut self.notes[bucket].0);
        // Leases past their deadline end before anything else.
        let is_end = |(_, what): &(EventId, EntryKind)| {
            let lost = Outcome::LeaseLost;
            matches!(what, EntryKind::Recorded { outcome, .. } if *outcome == lost)
        };
        let ends = ended.iter().rposition(is_end).map_or(0, |last| {
            let more = ended[last + 1..].iter();
            let buried = more.take_while(|(_, what)| matches!(what, EntryKind::Buried));
            last + 1 + buried.count()
        });
        let noted = ended.split_off(ends);
        // What was asked comes before what followed from it. Nothing follows from a change that
        // came too late: what its operation did, it did before, because time had passed.
        let (first, then) = if asked_of.iter().any(|(_, what)| is_too_late(what)) {
            (noted, asked_of)
        } else {
            (asked_of, noted)
        };
        let all = ended.into_iter().chain(first).chain(then);
        (response, all.collect())
    }

    /// Applies at `clock_us` what is no part of the history. What ends by then, the bucket's next
    /// operation tells.
    pub fn look(
        &mut self,
        clock_us: u64,
        bucket: usize,
        op: StoreOp,
    ) -> duly::Result<Response<Body>> {
        self.buckets[bucket].apply(clock_us, op, &mut self.notes[bucket])
    }
}
