//! Tombstones: what is kept of an event that has ended.

use crate::core::op::{AttemptOutcome, RequestId, Settlement};
use crate::event::{EventId, State};
use crate::record::NodeId;
use crate::time::Timestamp;

/// A tombstone: an event that has ended, kept to recognise a late repeat of its push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The event.
    pub id: EventId,
    /// How it ended: done, cancelled or expired.
    pub state: State,
    /// The fingerprint of its envelope; without one, any push of this id is a duplicate.
    pub fingerprint: Option<u64>,
    /// When it was due.
    pub due: Timestamp,
    /// Attempts that ended and count.
    pub tries: u16,
    /// Whether a lease of it was lost before it was cancelled.
    pub maybe_running: bool,
    /// The settlement that ended it, to recognise its repeat.
    pub settled: Option<LastSettlement>,
    /// When it ended, in microseconds since the epoch.
    pub ended_us: u64,
}

/// Up to which creation times a bucket may have forgotten ids of events that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgottenIds {
    /// Of those whose time had come: the watermark.
    pub until: Option<Timestamp>,
    /// Of those whose time was still to come. It counts for ids whose time is still to come alone, so
    /// that it closes the bucket to nobody whose clock is right.
    pub ahead: Option<Timestamp>,
}

/// The last accepted settlement, to recognise its repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSettlement {
    /// Who settled.
    pub node: NodeId,
    /// The fetch that the lease was from.
    pub request: RequestId,
    /// The number of the outcome.
    pub verdict: u8,
}

impl LastSettlement {
    /// The settlement of `node`.
    pub(in crate::core) fn new(node: NodeId, settlement: &Settlement) -> Self {
        let verdict = match &settlement.verdict {
            AttemptOutcome::Ack => 0,
            AttemptOutcome::Retry(..) => 1,
            AttemptOutcome::Snooze(_) => 2,
            AttemptOutcome::Bury(_) => 3,
            AttemptOutcome::Discard(_) => 4,
            AttemptOutcome::Expire => 5,
            AttemptOutcome::Release => 6,
            AttemptOutcome::Interrupt { .. } => 7,
        };
        Self {
            node,
            request: settlement.request,
            verdict,
        }
    }
}
