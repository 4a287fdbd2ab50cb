//! What a store that outlives its process gives back to the reference store at start.

use crate::event::{EventId, Late, State};
use crate::time::Timestamp;

/// An event that was not over when the process ended.
///
/// Its leases, and the shadow of lost ones, died with the process.
#[derive(Clone, Debug)]
pub struct Restored<B> {
    /// The event.
    pub id: EventId,
    /// What to keep of its envelope.
    pub body: B,
    /// When it is due.
    pub due: Timestamp,
    /// Attempts that have ended and count.
    pub tries: u16,
    /// How often it is tried at most.
    pub attempts: u16,
    /// [`Envelope::fingerprint`](crate::event::Envelope::fingerprint) of its envelope.
    pub fingerprint: u64,
    /// What it belongs to.
    pub key: Option<String>,
    /// Its unique key; where several waiting events have the same, the last one restored has it.
    pub unique: Option<String>,
    /// From then on it is not started any more.
    pub expires: Option<Timestamp>,
    /// What becomes of it when it reaches its consumer late.
    pub late: Late,
    /// When it became a dead letter, if it did.
    pub dead_at: Option<Timestamp>,
}

/// An event that is over and still remembered, so that a late repeat of its push is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The event.
    pub id: EventId,
    /// How it ended: done, cancelled or expired.
    pub state: State,
    /// The fingerprint of its envelope; without one, any push of this id is a duplicate.
    pub fingerprint: Option<u64>,
    /// When it was due.
    pub due: Timestamp,
    /// Attempts that had ended and count.
    pub tries: u16,
    /// Whether a lease of it was lost before it was cancelled.
    pub haunted: bool,
}
