//! Restoring a bucket at start, from what its store has persisted.

use std::sync::Arc;
use std::time::Duration;

use crate::core::engine::bucket::Bucket;
use crate::core::engine::counts::DueKey;
use crate::core::engine::entry::{Entry, EventOptions, Place};
use crate::core::op::{ChangeSink, Tombstone};
use crate::event::{EventId, LatePolicy};
use crate::time::Timestamp;

/// An event that was live when the process ended. Leases, lost ones included, are not restored.
#[derive(Clone, Debug)]
pub struct Restored<B> {
    /// The event.
    pub id: EventId,
    /// The kept form of its envelope.
    pub body: B,
    /// When it is due.
    pub due: Timestamp,
    /// Attempts that have ended and count.
    pub tries: u16,
    /// The free interruptions in a row.
    pub interruptions: u8,
    /// The maximum number of attempts.
    pub attempts: u16,
    /// [`Envelope::fingerprint`](crate::event::Envelope::fingerprint) of its envelope.
    pub fingerprint: u64,
    /// Its key.
    pub key: Option<String>,
    /// [`Envelope::unique_for`](crate::event::Envelope::unique_for) of its envelope.
    pub unique_for: Option<Duration>,
    /// Its unique key; if several waiting events have the same, the last one restored has it.
    pub unique: Option<String>,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// Its lateness policy.
    pub late: LatePolicy,
    /// [`Envelope::tells`](crate::event::Envelope::tells) of its envelope.
    pub tells: bool,
    /// The size of its payload, in bytes.
    pub bytes: usize,
    /// When it became a dead letter, if it did.
    pub dead_at: Option<Timestamp>,
}

impl<B: Clone> Bucket<B> {
    /// Restores a live event; events come in the order in which they were accepted. A due one
    /// becomes ready with the next move.
    ///
    /// Returns `false` if the event is there already or has ended.
    #[must_use]
    pub fn restore(&mut self, restored: Restored<B>) -> bool {
        let (id, due, is_dead) = (restored.id, restored.due, restored.dead_at.is_some());
        let is_new = self.restore_unindexed(restored);
        if is_new && !is_dead {
            self.waiting.schedule(id, due);
            if let Some(entry) = self.entries.get(&id) {
                self.expiring.add(id, entry);
            }
        }
        is_new
    }

    /// The same for one of many: [`index_restored`](Self::index_restored) completes it.
    #[must_use]
    pub fn restore_unindexed(&mut self, restored: Restored<B>) -> bool {
        let id = restored.id;
        if self.dedup.get(id).is_some() || self.entries.contains_key(&id) {
            return false;
        }
        let unique = restored.unique.map(Arc::<str>::from);
        let place = match restored.dead_at {
            Some(at) => {
                self.dead.insert(id);
                Place::Dead(at)
            }
            None => {
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
        let terms = EventOptions {
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
        entry.set_interruptions(restored.interruptions);
        self.entries.insert(id, entry)
    }

    /// Builds the delay set and the expiry index of all restored events at once: to sort them is
    /// quicker than to add one at a time.
    pub fn index_restored(&mut self) {
        let waiting = self.entries.iter().filter(|(_, entry)| entry.is_waiting());
        self.expiring
            .replace(waiting.map(|(id, entry)| (*id, entry)));
        let scheduled = self.entries.iter();
        let scheduled = scheduled.filter(|(_, entry)| entry.place() == Place::Scheduled);
        let mut keys = Vec::with_capacity(self.entries.len());
        keys.extend(scheduled.map(|(id, entry)| DueKey::new(entry.due, *id)));
        self.waiting.schedule_all(keys);
    }

    /// Restores a unique key that stays taken by an event that is done; call before all events.
    pub fn restore_unique(&mut self, key: &str, id: EventId, until: Timestamp) {
        self.uniques.restore(Arc::from(key), id, until);
    }

    /// Restores a tombstone; oldest first. None is dropped for it: operations do that, and tell
    /// their sink. Returns `false` if the id has one.
    pub fn restore_tombstone(&mut self, finished: Tombstone) -> bool {
        self.dedup.remember(finished)
    }

    /// Lets no tombstone have ended after `now`, which only a clock that was ahead has written: it
    /// would stay until then. A unique key of its event stays taken for its period from `now`. Call
    /// when both are restored, and before all events.
    pub fn correct_times<L: ChangeSink<Body = B>>(&mut self, now: Timestamp, sink: &mut L) {
        let ahead = |id| {
            let ended = Timestamp::from_millis(self.dedup.get(id)?.ended_us / 1_000);
            (ended > now).then(|| ended.since(now))
        };
        for (key, id, until) in self.uniques.shorten(ahead) {
            sink.unique_held(&self.key, &key, Some((id, until)));
        }
        let tombstones = self.dedup.end_by(now);
        if tombstones.is_empty() {
            return;
        }
        // Dropped in order: one cannot be written anew alone.
        sink.forgot(&self.key, tombstones.len(), self.dedup.forgotten());
        for tombstone in tombstones {
            sink.ended(&self.key, tombstone);
        }
    }

    /// Drops the tombstones that have reached the greatest age, if the one of this id is among them:
    /// what is pushed under an id later than that is another event.
    pub fn forget_old_before<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        now: Timestamp,
        sink: &mut L,
    ) {
        let now_us = now.as_micros();
        while self.dedup.is_old(now_us) && self.dedup.get(id).is_some() {
            self.dedup.begin();
            self.dedup.forget_aged(now_us);
            self.note_kept(sink);
            let Some((dropped, ids)) = self.dedup.dropped() else {
                return;
            };
            sink.forgot(&self.key, dropped, ids);
        }
    }

    /// Returns the watermark.
    #[must_use]
    pub(crate) fn watermark(&self) -> Option<Timestamp> {
        self.dedup.forgotten().until
    }

    /// Sets the watermark to what it was last, which may be lower than it was before.
    #[cfg(feature = "embedded")]
    pub(crate) fn set_watermark(&mut self, created: Timestamp) {
        self.dedup.set_forgotten(created);
    }

    /// Raises the watermark: tombstones of ids created until `created` may have been dropped.
    pub fn raise_watermark(&mut self, created: Timestamp) {
        self.dedup.forget_until(created);
    }

    /// The same of ids whose time was still to come.
    pub fn raise_watermark_ahead(&mut self, created: Timestamp) {
        self.dedup.forget_ahead(created);
    }
}
