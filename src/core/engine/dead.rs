//! Dead letters: revive, edit and drop.

use crate::core::engine::entry::{Place, RecordDetails};
use crate::core::engine::{Bucket, bounded, check_by};
use crate::core::op::{ChangeOutcome, ChangeSink, DeadLetterEdit};
use crate::error::Result;
use crate::event::{EventId, State};
use crate::record::Outcome;

impl<B: Clone> Bucket<B> {
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
                self.end_if_expired(holder, sink);
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
        self.end_if_expired(id, sink);
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
