//! What a store that outlives its process gives back to the reference store at start.

use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;
use std::time::Duration;

use crate::core::reference::Bucket;
use crate::core::reference::entry::{Entry, Place, Terms};
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
    /// [`Envelope::unique_for`](crate::event::Envelope::unique_for) of its envelope.
    pub unique_for: Option<Duration>,
    /// Its unique key; where several waiting events have the same, the last one restored has it.
    pub unique: Option<String>,
    /// From then on it is not started any more.
    pub expires: Option<Timestamp>,
    /// What becomes of it when it reaches its consumer late.
    pub late: Late,
    /// [`Envelope::tells`](crate::event::Envelope::tells) of its envelope.
    pub tells: bool,
    /// How long its payload is, in bytes.
    pub bytes: usize,
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

impl<B: Clone> Bucket<B> {
    /// Takes up an event from before the start; events come in the order in which they were
    /// accepted. One that is due becomes ready with the next move.
    ///
    /// Answers whether it was taken up: one that is there already, or is over, is not.
    #[must_use]
    pub fn restore(&mut self, restored: Restored<B>) -> bool {
        let id = restored.id;
        if self.past.get(id).is_some() {
            return false;
        }
        let Slot::Vacant(slot) = self.entries.entry(id) else {
            return false;
        };
        let unique = restored.unique.map(Arc::<str>::from);
        let place = match restored.dead_at {
            Some(at) => {
                self.dead.insert(id);
                Place::Dead(at)
            }
            None => {
                self.waiting.schedule(id, restored.due);
                if let Some(unique) = &unique {
                    self.uniques.take(unique, id);
                }
                Place::Scheduled
            }
        };
        let key = restored.key.map(Arc::<str>::from);
        if let Some(key) = &key {
            self.keys.insert((Arc::clone(key), id));
        }
        let terms = Terms {
            fingerprint: restored.fingerprint,
            attempts: restored.attempts,
            key,
            unique,
            unique_for: restored.unique_for,
            expires: restored.expires,
            late: restored.late,
            tells: restored.tells,
            bytes: restored.bytes,
        };
        let mut entry = Entry::new(restored.body, restored.due, place, terms);
        entry.tries = restored.tries;
        slot.insert(entry);
        true
    }

    /// Takes up a unique key that stays taken by an event that is done; before all events.
    pub fn restore_unique(&mut self, key: &str, id: EventId, until: Timestamp) {
        self.uniques.restore(Arc::from(key), id, until);
    }

    /// Takes up the memory of a finished event from before the start, with when it ended, in
    /// microseconds since the epoch; the one that finished first comes first.
    pub fn restore_finished(&mut self, finished: Finished, ended_us: u64) {
        self.past.begin();
        self.past.remember(finished, None, ended_us);
        // It is at least so late.
        self.past.forget_surplus(ended_us);
    }

    /// Says that finished ids created until `created` may have been forgotten before the start.
    pub fn forgotten_before(&mut self, created: Timestamp) {
        self.past.forget_until(created);
    }
}
