//! Push, and the confirmation of pushed events.

use std::sync::Arc;

use crate::core::engine::bucket::Bucket;
use crate::core::engine::dedup::is_ahead;
use crate::core::engine::entry::{Entry, EventOptions, Place};
use crate::core::engine::limits::{bounded, check_bytes};
use crate::core::op::{ChangeSink, NewEvent, PushOutcome, PushReport, Unique};
use crate::error::{Error, Result};
use crate::event::{Envelope, EventId, State};
use crate::time::Timestamp;

impl EventOptions {
    fn of(envelope: &Envelope) -> Self {
        Self {
            fingerprint: envelope.fingerprint(),
            attempts: envelope.attempts,
            key: envelope.key.as_deref().map(Arc::from),
            unique: envelope.unique.as_deref().map(Arc::from),
            unique_for: envelope.unique_for(),
            expires: envelope.expires,
            late: envelope.late,
            tells: envelope.tells(),
            bytes: envelope.payload.len(),
        }
    }
}

impl<B: Clone> Bucket<B> {
    pub(super) fn push<L: ChangeSink<Body = B>>(
        &mut self,
        events: &[NewEvent],
        sink: &mut L,
    ) -> Result<Vec<PushReport>> {
        bounded("events", events.len())?;
        check_bytes(events.iter().map(|event| event.envelope.payload.len()))?;
        for event in events {
            self.belongs(&event.envelope)?;
            event.envelope.check(usize::MAX)?;
            event.when.checked(self.now())?;
        }
        self.dedup.heal(self.now_us);
        // Whoever pushes an id again may be the first to use its bucket in a day.
        self.dedup.forget_aged(self.now_us);
        self.note_kept(sink);
        // Those that were there before: one of this push is not over before it.
        for unique in events
            .iter()
            .filter_map(|event| event.envelope.unique.as_deref())
        {
            if let Some(holder) = self.uniques.event(unique) {
                self.end_if_over(holder, sink);
            }
        }
        let pushed = events.iter().map(|event| self.push_one(event, sink));
        Ok(pushed.collect())
    }

    fn belongs(&self, envelope: &Envelope) -> Result<()> {
        if envelope.queue != self.key.queue || envelope.bucket() != self.key.bucket {
            return Err(Error::invalid(format!(
                "event {} of queue {} belongs to bucket {}, but was pushed to {}",
                envelope.id,
                envelope.queue,
                envelope.bucket(),
                self.key
            )));
        }
        Ok(())
    }

    fn push_one<L: ChangeSink<Body = B>>(&mut self, event: &NewEvent, sink: &mut L) -> PushReport {
        let (envelope, id) = (&event.envelope, event.envelope.id);
        let due = event.when.due(self.now_us);
        let terms = EventOptions::of(envelope);
        if let Some(known) = self.known(id, due, terms.fingerprint) {
            return known;
        }
        let mut verdict = PushOutcome::Accepted;
        let (unique, now) = (terms.unique.as_deref(), self.now());
        if let Some(holder) = unique.and_then(|key| self.uniques.holder(key, now)) {
            let taken = holder.id;
            let entry = self.entries.get(&taken).filter(|_| holder.until.is_none());
            let waits = entry.is_some_and(|entry| !entry.is_leased());
            match event.on_taken {
                Unique::Keep => {
                    return PushReport {
                        due: entry.map_or(due, |entry| entry.due),
                        verdict: PushOutcome::Duplicate(taken),
                    };
                }
                Unique::Replace if waits => {
                    self.cancel_waiting(taken, sink);
                    self.forget_surplus(sink);
                    verdict = PushOutcome::Replaced(taken);
                }
                // Its handler may have started: the event is left alone and only loses the key.
                Unique::Replace if entry.is_some() && L::CONFIRMS => {
                    self.uniques.taken_from(id, taken);
                }
                Unique::Replace => {}
            }
        }
        let body = sink.added(envelope, due);
        let place = if L::CONFIRMS {
            self.unconfirmed += 1;
            Place::Unconfirmed
        } else {
            Self::wait(&mut self.waiting, self.now_us, id, due)
        };
        if let Some(key) = &terms.key {
            self.keys.insert((Arc::clone(key), id));
        }
        if let Some(unique) = &terms.unique
            && self.uniques.take(unique, id)
        {
            sink.unique_held(&self.key, unique, None);
        }
        let entry = Entry::new(body, due, place, terms);
        if entry.is_waiting() {
            self.expiring.add(id, &entry);
        }
        self.entries.insert(id, entry);
        PushReport { due, verdict }
    }

    /// Returns the reply for an id that exists, or may have existed.
    fn known(&self, id: EventId, due: Timestamp, fingerprint: u64) -> Option<PushReport> {
        let dedup = self.dedup.get(id);
        let (due, known) = match (self.entries.get(&id), dedup) {
            (Some(entry), _) => (entry.due, Some(entry.fingerprint)),
            (None, Some(dedup)) => (dedup.due, dedup.fingerprint),
            (None, None) if is_ahead(id.created(), self.now_us) => {
                let verdict = PushOutcome::TooNew;
                return Some(PushReport { due, verdict });
            }
            (None, None) if id.tells_time() && self.dedup.may_have_forgotten(id, self.now_us) => {
                let verdict = PushOutcome::TooOld;
                return Some(PushReport { due, verdict });
            }
            (None, None) => return None,
        };
        let verdict = match known {
            Some(known) if known != fingerprint => PushOutcome::Conflict,
            _ => PushOutcome::Duplicate(id),
        };
        Some(PushReport { due, verdict })
    }

    /// Makes unconfirmed events take effect, those due in the given order; others are skipped.
    ///
    /// An unconfirmed event exists for every operation that changes: it is a duplicate for a push,
    /// has its unique key, and can be cancelled, rescheduled and updated. For every operation that
    /// reads or leases it does not exist yet.
    pub fn confirm(&mut self, ids: &[EventId]) {
        for id in ids {
            if let Some(entry) = self
                .entries
                .get_mut(id)
                .filter(|entry| entry.is_unconfirmed())
            {
                self.unconfirmed -= 1;
                self.uniques.settled(*id);
                let place = Self::wait(&mut self.waiting, self.now_us, *id, entry.due);
                entry.go(place);
                self.expiring.add(*id, entry);
            }
        }
    }

    /// Ends the unconfirmed state of an event; returns the event from which it took its unique key.
    pub(super) fn end_unconfirmed(&mut self, id: EventId) -> Option<EventId> {
        self.unconfirmed -= 1;
        self.uniques.settled(id)
    }

    /// Returns its unique key to an event that lost it, if it still waits or runs and the key is
    /// free.
    fn give_back(&mut self, id: EventId, unique: &Arc<str>) {
        let entry = self.entries.get(&id);
        let lives = entry.is_some_and(|entry| entry.state() != State::Dead);
        if lives && self.uniques.holder(unique, self.now()).is_none() {
            self.uniques.take(unique, id);
        }
    }

    /// Removes unconfirmed events without a trace, as if they had never been pushed; others are
    /// skipped. What they replaced stays cancelled; a running event that only lost its unique key
    /// to them gets it back.
    pub fn forget(&mut self, ids: &[EventId]) {
        for id in ids {
            let known = self.entries.get(id);
            if known.is_some_and(Entry::is_unconfirmed)
                && let Some(entry) = self.entries.remove(id)
            {
                self.free_key(*id, &entry);
                self.free_unique(*id, entry.unique());
                if let (Some(before), Some(unique)) = (self.end_unconfirmed(*id), entry.unique()) {
                    self.give_back(before, unique);
                }
            }
        }
    }
}
