//! A live event of the engine.

use std::sync::Arc;
use std::time::Duration;

use crate::core::op::{BATCH_BYTES, ChangeSink, LastSettlement, UsedAttempts};
use crate::event::{EventId, LatePolicy, QueueName, StaleReason, State};
use crate::record::{Cause, NodeId, Outcome, Record, Stages, cut_error};
use crate::time::Timestamp;

/// A live event. Kept small: there may be ten million of them.
#[derive(Clone, Debug)]
pub(super) struct Entry<B> {
    pub(super) body: B,
    pub(super) fingerprint: u64,
    pub(super) due: Timestamp,
    /// What its place says beside the state.
    at: u64,
    /// Fields that few events have.
    more: Option<Box<RareFields>>,
    pub(super) tries: u16,
    pub(super) attempts: u16,
    /// The size of its payload in KiB, rounded up.
    kib: u16,
    state: PlaceKind,
    /// Its records need data from its envelope.
    tells: bool,
}

// With a body of 8 bytes, as the stores have. A place would take 16 by itself.
const _: () = assert!(size_of::<Entry<u64>>() == 48);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceKind {
    Unconfirmed,
    Scheduled,
    Ready,
    Leased,
    Dead,
}

/// Where a lease is among those of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseIndex(pub(super) u64);

/// The place of an event; it is in the index of that place and in no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Pushed, not confirmed yet.
    Unconfirmed,
    Scheduled,
    /// At this position of the ready list.
    Ready(i64),
    Leased(LeaseIndex),
    /// Since then.
    Dead(Timestamp),
}

#[derive(Clone, Debug, Default)]
struct RareFields {
    key: Option<Arc<str>>,
    unique: Option<Arc<str>>,
    unique_for: Option<Duration>,
    expires: Option<Timestamp>,
    late: LatePolicy,
    settled: Option<LastSettlement>,
    /// A lease of it was lost once, so a node believed dead may still run it.
    maybe_running: bool,
    /// The free interruptions in a row.
    interruptions: u8,
}

/// The options of an envelope that the engine needs.
#[derive(Clone, Debug)]
pub(super) struct EventOptions {
    pub(super) fingerprint: u64,
    pub(super) attempts: u16,
    pub(super) key: Option<Arc<str>>,
    pub(super) unique: Option<Arc<str>>,
    pub(super) unique_for: Option<Duration>,
    pub(super) expires: Option<Timestamp>,
    pub(super) late: LatePolicy,
    pub(super) tells: bool,
    /// The size of the payload.
    pub(super) bytes: usize,
}

impl<B> Entry<B> {
    pub(super) fn new(body: B, due: Timestamp, place: Place, terms: EventOptions) -> Self {
        let EventOptions {
            fingerprint,
            attempts,
            key,
            unique,
            unique_for,
            expires,
            late,
            tells,
            bytes,
        } = terms;
        let plain =
            key.is_none() && unique.is_none() && expires.is_none() && late == LatePolicy::Deliver;
        let more = (!plain).then(|| {
            Box::new(RareFields {
                key,
                unique,
                unique_for,
                expires,
                late,
                ..RareFields::default()
            })
        });
        let mut entry = Self {
            body,
            fingerprint,
            due,
            at: 0,
            more,
            tries: 0,
            attempts,
            kib: kib(bytes),
            state: PlaceKind::Unconfirmed,
            tells,
        };
        entry.put(place);
        entry
    }

    pub(super) fn place(&self) -> Place {
        match self.state {
            PlaceKind::Unconfirmed => Place::Unconfirmed,
            PlaceKind::Scheduled => Place::Scheduled,
            PlaceKind::Ready => Place::Ready(self.at.cast_signed()),
            PlaceKind::Leased => Place::Leased(LeaseIndex(self.at)),
            PlaceKind::Dead => Place::Dead(Timestamp::from_millis(self.at)),
        }
    }

    fn put(&mut self, place: Place) {
        (self.state, self.at) = match place {
            Place::Unconfirmed => (PlaceKind::Unconfirmed, 0),
            Place::Scheduled => (PlaceKind::Scheduled, 0),
            Place::Ready(at) => (PlaceKind::Ready, at.cast_unsigned()),
            Place::Leased(LeaseIndex(at)) => (PlaceKind::Leased, at),
            Place::Dead(since) => (PlaceKind::Dead, since.as_millis()),
        };
    }

    /// Sets the size of its payload.
    pub(super) fn resize(&mut self, bytes: usize) {
        self.kib = kib(bytes);
    }

    pub(super) fn state(&self) -> State {
        match self.state {
            PlaceKind::Unconfirmed | PlaceKind::Scheduled => State::Scheduled,
            PlaceKind::Ready => State::Ready,
            PlaceKind::Leased => State::Leased,
            PlaceKind::Dead => State::Dead,
        }
    }

    /// Moves it to another place.
    pub(super) fn go(&mut self, place: Place) {
        let before = self.state();
        self.put(place);
        debug_assert!(
            before.may_become(self.state()),
            "{before} became {}",
            self.state()
        );
    }

    pub(super) fn is_unconfirmed(&self) -> bool {
        self.state == PlaceKind::Unconfirmed
    }

    pub(super) fn is_leased(&self) -> bool {
        self.state == PlaceKind::Leased
    }

    /// Returns whether it is scheduled or ready.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, PlaceKind::Scheduled | PlaceKind::Ready)
    }

    pub(super) fn key(&self) -> Option<&Arc<str>> {
        self.more.as_ref()?.key.as_ref()
    }

    pub(super) fn unique(&self) -> Option<&Arc<str>> {
        self.more.as_ref()?.unique.as_ref()
    }

    pub(super) fn unique_for(&self) -> Option<Duration> {
        self.more.as_ref()?.unique_for
    }

    pub(super) fn settled(&self) -> Option<LastSettlement> {
        self.more.as_ref()?.settled
    }

    pub(super) fn settle(&mut self, settled: LastSettlement) {
        self.more.get_or_insert_default().settled = Some(settled);
    }

    pub(super) fn maybe_running(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.maybe_running)
    }

    pub(super) fn set_maybe_running(&mut self) {
        self.more.get_or_insert_default().maybe_running = true;
    }

    /// Returns the attempts that have ended.
    pub(super) fn used(&self) -> UsedAttempts {
        UsedAttempts {
            tries: self.tries,
            interruptions: self.more.as_ref().map_or(0, |more| more.interruptions),
        }
    }

    pub(super) fn set_interruptions(&mut self, interruptions: u8) {
        if interruptions != self.used().interruptions {
            self.more.get_or_insert_default().interruptions = interruptions;
        }
    }

    /// Returns whether its expiry has passed at `now_us`, whatever its due time.
    pub(super) fn has_expired(&self, now_us: u64) -> bool {
        let expires = self.more.as_ref().and_then(|more| more.expires);
        expires.is_some_and(|at| at.as_micros() <= now_us)
    }

    /// Returns why it must not be delivered at `now_us`, if so.
    pub(super) fn stale(&self, now_us: u64) -> Option<StaleReason> {
        let more = self.more.as_ref()?;
        StaleReason::at(now_us, more.expires, (more.late, self.due))
    }

    /// Returns the first microsecond in which it must not be delivered, if there is one; earlier
    /// ones do not come back, however its state changes with its due time unchanged.
    pub(super) fn stale_from_us(&self) -> Option<u64> {
        let more = self.more.as_ref()?;
        let expires = more.expires.map(Timestamp::as_micros);
        let late = match more.late {
            LatePolicy::Expire(limit) | LatePolicy::Bury(limit) => {
                let limit_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
                let last_us = self.due.as_micros().saturating_add(limit_us);
                Some(last_us.saturating_add(1))
            }
            LatePolicy::Deliver => None,
        };
        expires.into_iter().chain(late).min()
    }

    /// Records the end of an attempt or an event, or an administrative change.
    pub(super) fn record<L: ChangeSink<Body = B>>(
        &self,
        id: EventId,
        queue: &QueueName,
        ending: RecordDetails,
        sink: &mut L,
    ) {
        let key = self.more.as_ref().and_then(|more| more.key.as_deref());
        let record = Record {
            id,
            queue: queue.clone(),
            key: key.map(str::to_owned),
            attempt: ending.attempt,
            outcome: ending.outcome,
            cause: ending.cause,
            due: self.due,
            stages: ending.stages,
            node: ending.node,
            error: ending.error.map(cut_error),
            trace: None,
            payload: None,
            by: ending.by,
        };
        sink.recorded(record, self.tells.then_some(&self.body));
    }
}

/// Small, so that an entry is.
fn kib(bytes: usize) -> u16 {
    u16::try_from(bytes.div_ceil(1024)).unwrap_or(u16::MAX)
}

/// The byte limit of an operation: it ends with the event that exhausts it.
pub(super) struct Budget {
    left_kib: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            left_kib: BATCH_BYTES / 1024,
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left_kib == 0
    }

    pub(super) fn spend<B>(&mut self, entry: &Entry<B>) {
        self.left_kib = self.left_kib.saturating_sub(usize::from(entry.kib));
    }
}

/// The data of a record that the entry does not have.
#[derive(Debug)]
pub(super) struct RecordDetails {
    pub(super) outcome: Outcome,
    pub(super) cause: Option<Cause>,
    /// 0 if no attempt had begun.
    pub(super) attempt: u16,
    pub(super) node: NodeId,
    pub(super) stages: Stages,
    pub(super) error: Option<String>,
    /// The actor of an administrative change.
    pub(super) by: Option<String>,
    /// The settlement that was accepted.
    pub(super) settled: Option<LastSettlement>,
}

impl RecordDetails {
    /// Creates the end of an event that was not leased.
    pub(super) fn unheld(outcome: Outcome, moved_us: u64, finished_us: u64) -> Self {
        Self {
            outcome,
            cause: None,
            attempt: 0,
            node: NodeId::default(),
            stages: Stages {
                moved_us,
                finished_us,
                ..Stages::default()
            },
            error: None,
            by: None,
            settled: None,
        }
    }

    /// Creates an administrative change of a dead letter.
    pub(super) fn by_operator(outcome: Outcome, by: Option<String>, finished_us: u64) -> Self {
        Self {
            by,
            ..Self::unheld(outcome, 0, finished_us)
        }
    }
}
