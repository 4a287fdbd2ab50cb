//! Administrative changes of one event: cancel, reschedule, update and rewrite.

use crate::core::op::{Cancelled, Changed, Ledger, Rewriting};
use crate::core::reference::entry::{Ending, Entry, Place};
use crate::core::reference::{Bucket, bounded, check_by, check_bytes};
use crate::error::Result;
use crate::event::{Envelope, EventId, Payload, State};
use crate::record::Outcome;
use crate::time::When;

impl<B: Clone> Bucket<B> {
    pub(super) fn cancel<L: Ledger<Body = B>>(&mut self, id: EventId, ledger: &mut L) -> Cancelled {
        let truth = |haunted| match haunted {
            false => Cancelled::Cancelled,
            true => Cancelled::CancelledAfterAttempt,
        };
        let Some(entry) = self.entries.get(&id) else {
            return match self.past.get(id).map(|past| past.finished) {
                Some(past) if past.state == State::Cancelled => truth(past.haunted),
                Some(past) => Cancelled::TooLate(past.state),
                None => Cancelled::NotFound,
            };
        };
        match entry.state() {
            State::Scheduled | State::Ready => {
                let haunted = entry.haunted;
                self.cancel_waiting(id, ledger);
                truth(haunted)
            }
            state => Cancelled::TooLate(state),
        }
    }

    pub(super) fn reschedule<L: Ledger<Body = B>>(
        &mut self,
        id: EventId,
        when: When,
        ledger: &mut L,
    ) -> Result<Changed> {
        let due = when.checked(self.now())?.due(self.now_us);
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(self.changed_past(id));
        };
        let due_now = due.as_micros() <= self.now_us;
        let place = match entry.place {
            Place::Held => Place::Held,
            // It keeps its place in the list.
            Place::Ready(at) if due_now => Place::Ready(at),
            Place::Scheduled | Place::Ready(_) => {
                match entry.place {
                    Place::Ready(at) => drop(self.waiting.remove_ready(at)),
                    _ => self.waiting.unschedule(id, entry.due),
                }
                Self::wait(&mut self.waiting, self.now_us, id, due)
            }
            Place::Leased(_) | Place::Dead(_) => return Ok(Changed::TooLate(entry.state())),
        };
        entry.due = due;
        if !matches!((&entry.place, &place), (Place::Ready(_), Place::Ready(_))) {
            entry.go(place);
        }
        ledger.changed(&entry.body, due, entry.tries);
        Ok(changed(entry))
    }

    /// Changes the payload. Dead events too, as the payload may have killed them; with a record.
    pub(super) fn update<L: Ledger<Body = B>>(
        &mut self,
        id: EventId,
        payload: &Payload,
        by: Option<String>,
        dead_only: bool,
        ledger: &mut L,
    ) -> Result<Changed> {
        check_by(by.as_deref())?;
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(self.changed_past(id));
        };
        let state = entry.state();
        if entry.lease().is_some() || dead_only && state != State::Dead {
            return Ok(Changed::TooLate(state));
        }
        let envelope = Envelope::new(id, self.key.queue.clone(), payload.clone());
        entry.fingerprint = envelope.fingerprint();
        entry.resize(payload.len());
        ledger.updated(&mut entry.body, payload);
        if state == State::Dead {
            let ending = Ending::by_hand(Outcome::Edited, by, self.now_us);
            entry.record(id, &self.key.queue, ending, ledger);
        }
        Ok(changed(entry))
    }

    /// Replaces encoded payloads; returns how many. Only the encoding differs, so no record is
    /// written, not even for a dead event.
    pub(super) fn rewrite<L: Ledger<Body = B>>(
        &mut self,
        rewritings: &[Rewriting],
        ledger: &mut L,
    ) -> Result<usize> {
        bounded("events", rewritings.len())?;
        check_bytes(rewritings.iter().map(|one| one.payload.len()))?;
        let mut rewritten = 0;
        for Rewriting { id, was, payload } in rewritings {
            let Some(entry) = self.entries.get_mut(id) else {
                continue;
            };
            if entry.lease().is_some() || entry.fingerprint != *was {
                continue;
            }
            let envelope = Envelope::new(*id, self.key.queue.clone(), payload.clone());
            entry.fingerprint = envelope.fingerprint();
            entry.resize(payload.len());
            ledger.updated(&mut entry.body, payload);
            rewritten += 1;
        }
        Ok(rewritten)
    }

    fn changed_past(&self, id: EventId) -> Changed {
        let past = self.past.get(id);
        past.map_or(Changed::NotFound, |past| {
            Changed::TooLate(past.finished.state)
        })
    }
}

fn changed<B>(entry: &Entry<B>) -> Changed {
    if entry.haunted {
        Changed::ChangedAfterAttempt(entry.due)
    } else {
        Changed::Changed(entry.due)
    }
}
