//! Administrative changes: cancel, reschedule, update and rewrite; and of dead letters: revive, edit
//! and drop.

use crate::core::engine::bucket::Bucket;
use crate::core::engine::entry::{Entry, Place, RecordDetails};
use crate::core::engine::limits::{bounded, check_by, check_bytes};
use crate::core::op::{CancelOutcome, ChangeOutcome, ChangeSink, DeadLetterEdit, Rewriting};
use crate::error::Result;
use crate::event::{Envelope, EventId, Payload, State};
use crate::record::Outcome;
use crate::time::When;

impl<B: Clone> Bucket<B> {
    pub(super) fn cancel<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        sink: &mut L,
    ) -> CancelOutcome {
        let truth = |maybe_running: bool| {
            if !maybe_running {
                CancelOutcome::Cancelled
            } else {
                CancelOutcome::CancelledAfterAttempt
            }
        };
        self.end_if_over(id, sink);
        let Some(entry) = self.entries.get(&id) else {
            return match self.dedup.get(id) {
                Some(dedup) if dedup.state == State::Cancelled => truth(dedup.maybe_running),
                Some(dedup) => CancelOutcome::TooLate(dedup.state),
                None => CancelOutcome::NotFound,
            };
        };
        match entry.state() {
            State::Scheduled | State::Ready => {
                let maybe_running = entry.maybe_running();
                self.cancel_waiting(id, sink);
                truth(maybe_running)
            }
            state => CancelOutcome::TooLate(state),
        }
    }

    /// Cancels a waiting event, with a record.
    pub(super) fn cancel_waiting<L: ChangeSink<Body = B>>(&mut self, id: EventId, sink: &mut L) {
        let moved_us = self.unwait(id);
        let ending = RecordDetails::unheld(Outcome::Cancelled, moved_us, self.now_us);
        self.finish(id, State::Cancelled, ending, sink);
    }

    pub(super) fn reschedule<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        when: When,
        sink: &mut L,
    ) -> Result<ChangeOutcome> {
        let due = when.checked(self.now())?.due(self.now_us);
        self.end_if_over(id, sink);
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(self.changed_past(id));
        };
        let due_now = due.as_micros() <= self.now_us;
        let before = entry.place();
        let place = match before {
            Place::Unconfirmed => Place::Unconfirmed,
            // It keeps its place in the list.
            Place::Ready(at) if due_now => {
                self.expiring.remove(id, entry);
                Place::Ready(at)
            }
            Place::Scheduled | Place::Ready(_) => {
                self.expiring.remove(id, entry);
                match before {
                    Place::Ready(at) => drop(self.waiting.remove_ready(at)),
                    _ => self.waiting.unschedule(id, entry.due),
                }
                Self::wait(&mut self.waiting, self.now_us, id, due)
            }
            Place::Leased(_) | Place::Dead(_) => return Ok(ChangeOutcome::TooLate(entry.state())),
        };
        entry.due = due;
        if !matches!((before, place), (Place::Ready(_), Place::Ready(_))) {
            entry.go(place);
        }
        if place != Place::Unconfirmed {
            self.expiring.add(id, entry);
        }
        sink.changed(id, &entry.body, due, entry.used());
        Ok(changed(entry))
    }

    /// Changes the payload. Dead events too, as the payload may have killed them; with a record.
    pub(super) fn update<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        payload: &Payload,
        by: Option<String>,
        dead_only: bool,
        sink: &mut L,
    ) -> Result<ChangeOutcome> {
        check_by(by.as_deref())?;
        self.end_if_over(id, sink);
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(self.changed_past(id));
        };
        let state = entry.state();
        if entry.is_leased() || dead_only && state != State::Dead {
            return Ok(ChangeOutcome::TooLate(state));
        }
        let envelope = Envelope::new(id, self.key.queue.clone(), payload.clone());
        entry.fingerprint = envelope.fingerprint();
        entry.resize(payload.len());
        sink.updated(id, &mut entry.body, payload);
        if state == State::Dead {
            let ending = RecordDetails::by_operator(Outcome::Edited, by, self.now_us);
            entry.record(id, &self.key.queue, ending, sink);
        }
        Ok(changed(entry))
    }

    /// Replaces encoded payloads; returns how many. Only the encoding differs, so no record is
    /// written, not even for a dead event.
    pub(super) fn rewrite<L: ChangeSink<Body = B>>(
        &mut self,
        rewritings: &[Rewriting],
        sink: &mut L,
    ) -> Result<usize> {
        bounded("events", rewritings.len())?;
        check_bytes(rewritings.iter().map(|one| one.payload.len()))?;
        let mut rewritten = 0;
        for Rewriting { id, was, payload } in rewritings {
            self.end_if_over(*id, sink);
            let Some(entry) = self.entries.get_mut(id) else {
                continue;
            };
            if entry.is_leased() || entry.fingerprint != *was {
                continue;
            }
            let envelope = Envelope::new(*id, self.key.queue.clone(), payload.clone());
            entry.fingerprint = envelope.fingerprint();
            entry.resize(payload.len());
            sink.updated(*id, &mut entry.body, payload);
            rewritten += 1;
        }
        Ok(rewritten)
    }

    fn changed_past(&self, id: EventId) -> ChangeOutcome {
        let dedup = self.dedup.get(id);
        dedup.map_or(ChangeOutcome::NotFound, |dedup| {
            ChangeOutcome::TooLate(dedup.state)
        })
    }

    /// Makes dead letters ready again, due now, with all their attempts. One whose unique key was
    /// taken meanwhile is revived without it; one whose expiry has passed stays dead, as the next
    /// operation would end it.
    pub(super) fn revive<L: ChangeSink<Body = B>>(
        &mut self,
        ids: &[EventId],
        by: Option<&str>,
        sink: &mut L,
    ) -> Result<usize> {
        bounded("ids", ids.len())?;
        check_by(by)?;
        let due = self.now();
        let mut revived = 0;
        for id in ids {
            self.end_if_over(*id, sink);
            let Some(entry) = self.entries.get_mut(id) else {
                continue;
            };
            if entry.has_expired(self.now_us) || !self.dead.remove(id) {
                continue;
            }
            entry.tries = 0;
            entry.set_interruptions(0);
            entry.due = due;
            let at = self.waiting.append(*id, self.now_us);
            entry.go(Place::Ready(at));
            self.expiring.add(*id, entry);
            let ending =
                RecordDetails::by_operator(Outcome::Revived, by.map(str::to_owned), self.now_us);
            entry.record(*id, &self.key.queue, ending, sink);
            sink.revived(*id, &entry.body, due);
            let unique = entry.unique().cloned();
            let holder = unique.as_deref().and_then(|key| self.uniques.event(key));
            if let Some(holder) = holder {
                self.end_if_over(holder, sink);
            }
            if let Some(unique) = unique.filter(|key| self.uniques.holder(key, due).is_none())
                && self.uniques.take(&unique, *id)
            {
                sink.unique_held(&self.key, &unique, None);
            }
            revived += 1;
        }
        Ok(revived)
    }

    /// Replaces the payload of a dead letter that is still as it was read, and revives it, unless its
    /// expiry has passed.
    pub(super) fn edit_and_revive<L: ChangeSink<Body = B>>(
        &mut self,
        edit: DeadLetterEdit,
        sink: &mut L,
    ) -> Result<ChangeOutcome> {
        let DeadLetterEdit {
            id,
            was,
            payload,
            by,
        } = edit;
        check_by(by.as_deref())?;
        self.end_if_over(id, sink);
        if let Some(entry) = self.entries.get(&id) {
            let state = entry.state();
            if entry.fingerprint != was {
                return Ok(ChangeOutcome::TooLate(state));
            }
            if state == State::Dead && entry.has_expired(self.now_us) {
                return Ok(ChangeOutcome::TooLate(State::Expired));
            }
        }
        let changed = self.update(id, &payload, by.clone(), true, sink)?;
        let ready = match changed {
            ChangeOutcome::Changed(_) => ChangeOutcome::Changed(self.now()),
            ChangeOutcome::ChangedAfterAttempt(_) => ChangeOutcome::ChangedAfterAttempt(self.now()),
            ChangeOutcome::TooLate(_) | ChangeOutcome::NotFound => return Ok(changed),
        };
        self.revive(&[id], by.as_deref(), sink)?;
        Ok(ready)
    }

    /// Removes dead letters for good.
    pub(super) fn drop_dead<L: ChangeSink<Body = B>>(
        &mut self,
        ids: &[EventId],
        by: Option<&str>,
        sink: &mut L,
    ) -> Result<usize> {
        bounded("ids", ids.len())?;
        check_by(by)?;
        let mut dropped = 0;
        for id in ids {
            self.end_if_over(*id, sink);
            if self.dead.remove(id) {
                let ending = RecordDetails::by_operator(
                    Outcome::Dropped,
                    by.map(str::to_owned),
                    self.now_us,
                );
                self.finish(*id, State::Cancelled, ending, sink);
                dropped += 1;
            }
        }
        Ok(dropped)
    }
}

fn changed<B>(entry: &Entry<B>) -> ChangeOutcome {
    if entry.maybe_running() {
        ChangeOutcome::ChangedAfterAttempt(entry.due)
    } else {
        ChangeOutcome::Changed(entry.due)
    }
}
