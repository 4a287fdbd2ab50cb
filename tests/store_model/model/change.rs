//! Changes by hand, dead letters, and looking.

use std::sync::Arc;
use std::time::Duration;

use duly::event::{Payload, State};
use duly::records::Outcome;
use duly::store::operation::{
    DeadLetterEdit, DeadPage, PeekBy, PeekPage, Reply, Rewriting, Snapshot, Stats,
};
use duly::time::{Timestamp, When};
use duly::{CancelOutcome, ChangeOutcome, EventId};

use crate::store_model::model::{Event, Model};

impl Model {
    pub(crate) fn cancel(&mut self, id: EventId) -> Reply {
        let Some(event) = self.event(id) else {
            return Reply::Cancelled(CancelOutcome::NotFound);
        };
        let (state, maybe_running) = (event.state, event.maybe_running);
        match state {
            State::Scheduled | State::Ready => {
                self.record(id, 0, Outcome::Cancelled, None);
                self.end(id, State::Cancelled);
            }
            State::Cancelled => {}
            _ => return Reply::Cancelled(CancelOutcome::TooLate(state)),
        }
        Reply::Cancelled(if maybe_running {
            CancelOutcome::CancelledAfterAttempt
        } else {
            CancelOutcome::Cancelled
        })
    }

    fn changed(event: &Event) -> ChangeOutcome {
        if event.maybe_running {
            ChangeOutcome::ChangedAfterAttempt(event.due)
        } else {
            ChangeOutcome::Changed(event.due)
        }
    }

    pub(crate) fn reschedule(&mut self, id: EventId, when: When) -> Reply {
        let due = self.due(when);
        let is_due = self.is_due(due);
        Reply::Rescheduled(match self.event(id) {
            None => ChangeOutcome::NotFound,
            Some(event) if event.state == State::Ready && is_due => {
                event.due = due;
                Self::changed(event)
            }
            Some(event) if matches!(event.state, State::Scheduled | State::Ready) => {
                self.wait(id, due);
                Self::changed(self.event(id).expect("it is there"))
            }
            Some(event) => ChangeOutcome::TooLate(event.state),
        })
    }

    pub(crate) fn update(
        &mut self,
        id: EventId,
        payload: &Payload,
        by: Option<&String>,
        dead_only: bool,
    ) -> Reply {
        let answer = Reply::Updated(match self.event(id) {
            None => ChangeOutcome::NotFound,
            Some(event) if event.state.is_final() || event.state == State::Leased => {
                ChangeOutcome::TooLate(event.state)
            }
            Some(event) if dead_only && event.state != State::Dead => {
                ChangeOutcome::TooLate(event.state)
            }
            Some(event) => {
                let mut envelope = (*event.envelope).clone();
                envelope.payload = payload.clone();
                event.envelope = Arc::new(envelope);
                Self::changed(event)
            }
        });
        if self
            .event(id)
            .is_some_and(|event| event.state == State::Dead)
        {
            self.record_by_hand(id, Outcome::Edited, by);
        }
        answer
    }

    /// Returns the fingerprint of an event that is known.
    pub(crate) fn payload_of(&mut self, id: EventId) -> Option<u64> {
        Some(self.event(id)?.envelope.fingerprint())
    }

    /// Only a dead one that still has the payload that was read.
    pub(crate) fn edit_and_revive(&mut self, edit: &DeadLetterEdit) -> Reply {
        let (id, by, now_us) = (edit.id, edit.by.as_ref(), self.now_us);
        match self.event(id) {
            None => return Reply::Updated(ChangeOutcome::NotFound),
            Some(event)
                if event.state != State::Dead || event.envelope.fingerprint() != edit.was =>
            {
                return Reply::Updated(ChangeOutcome::TooLate(event.state));
            }
            Some(event) if Self::has_expired(event, now_us) => {
                return Reply::Updated(ChangeOutcome::TooLate(State::Expired));
            }
            Some(_) => {}
        }
        self.update(id, &edit.payload, by, true);
        self.revive(&[id], by);
        Reply::Updated(Self::changed(self.event(id).expect("it is there")))
    }

    /// Only of what still has the payload that was read, and without a record.
    pub(crate) fn rewrite(&mut self, rewritings: &[Rewriting]) -> Reply {
        let mut rewritten = 0;
        for Rewriting { id, was, payload } in rewritings {
            let Some(event) = self.event(*id) else {
                continue;
            };
            let is_held = event.state.is_final() || event.state == State::Leased;
            if is_held || event.envelope.fingerprint() != *was {
                continue;
            }
            let mut envelope = (*event.envelope).clone();
            envelope.payload = payload.clone();
            event.envelope = Arc::new(envelope);
            rewritten += 1;
        }
        Reply::Counted(rewritten)
    }

    fn snapshot(event: &Event) -> Snapshot {
        let is_over = event.state.is_final();
        Snapshot {
            id: event.envelope.id,
            state: event.state,
            due: event.due,
            tries: event.tries,
            since: match event.state {
                State::Ready => Some(ms_of(event.moved_us)),
                State::Leased => event.lease.as_ref().map(|lease| ms_of(lease.fetched_us)),
                State::Dead => Some(ms_of(event.died_us)),
                _ => None,
            },
            ended: None,
            until: event.lease.as_ref().and_then(|lease| lease.deadline),
            holder: event.lease.as_ref().map(|lease| lease.node),
            request: event.lease.as_ref().map(|lease| lease.request),
            done_by: match event.settled {
                Some((node, request, _)) if event.state == State::Done => Some((node, request)),
                _ => None,
            },
            body: (!is_over).then(|| Arc::clone(&event.envelope)),
        }
    }

    pub(crate) fn get(&mut self, id: EventId) -> Reply {
        Reply::Snapshot(self.event(id).map(|event| Self::snapshot(event)))
    }

    /// What a whole pass finds, in the order of the ids.
    pub(crate) fn peek(&self, by: &PeekBy) -> Reply {
        let matches = |event: &Event| match by {
            PeekBy::All => true,
            PeekBy::Key(key) => event.envelope.key.as_ref() == Some(key),
            PeekBy::Unique(key) => event.has_key && event.envelope.unique.as_ref() == Some(key),
        };
        Reply::Peeked(PeekPage {
            events: self.read(|event| !event.state.is_final() && matches(event), None),
            next: None,
        })
    }

    pub(crate) fn read_dead(&self, after: Option<EventId>, limit: usize) -> Reply {
        let mut found = self.read(|event| event.state == State::Dead, after);
        let is_last = found.len() <= limit.max(1);
        found.truncate(limit.max(1));
        let next = found.last().filter(|_| !is_last).map(|last| last.id);
        Reply::Dead(DeadPage {
            letters: found,
            next,
        })
    }

    fn read(&self, is_it: impl Fn(&Event) -> bool, after: Option<EventId>) -> Vec<Snapshot> {
        let events = self.events.iter().filter(|event| is_it(event));
        let mut found: Vec<_> = events.map(Self::snapshot).collect();
        found.retain(|found| after.is_none_or(|after| found.id > after));
        found.sort_by_key(|found| found.id);
        found
    }

    pub(crate) fn revive(&mut self, ids: &[EventId], by: Option<&String>) -> Reply {
        let (mut count, now_us) = (0, self.now_us);
        for id in ids {
            let dead = |event: &Event| {
                let is_dead = event.envelope.id == *id && event.state == State::Dead;
                is_dead && !Self::has_expired(event, now_us)
            };
            if self.ids(dead).is_empty() {
                continue;
            }
            self.wait(*id, self.now());
            self.record_by_hand(*id, Outcome::Revived, by);
            let event = self.event(*id).expect("it is there");
            (event.tries, event.interruptions) = (0, 0);
            let unique = event.envelope.unique.clone();
            let taken = |event: &Event| event.has_key && event.envelope.unique == unique;
            let free = unique.is_some()
                && self.ids(taken).is_empty()
                && self.hold(unique.as_ref()).is_none();
            if free {
                self.holds.retain(|hold| Some(&hold.1) != unique.as_ref());
            }
            self.event(*id).expect("it is there").has_key = free;
            count += 1;
        }
        Reply::Counted(count)
    }

    pub(crate) fn drop_dead(&mut self, ids: &[EventId], by: Option<&String>) -> Reply {
        let mut count = 0;
        for id in ids {
            let dead = |event: &Event| event.envelope.id == *id && event.state == State::Dead;
            if !self.ids(dead).is_empty() {
                self.record_by_hand(*id, Outcome::Dropped, by);
                self.end(*id, State::Cancelled);
                count += 1;
            }
        }
        Reply::Counted(count)
    }

    pub(crate) fn stats(&self) -> Reply {
        let count = |state| self.ids(|event| event.state == state).len();
        let ready = self.events.iter();
        let ready = ready.filter(|event| event.state == State::Ready);
        let due = self.scheduled(self.now_us);
        let oldest = ready.min_by_key(|event| event.position);
        let oldest = oldest.map(|event| ms_of(event.moved_us));
        let is_first = |event: &&Event| due.first() == Some(&event.envelope.id);
        let first_due = self.events.iter().find(is_first).map(|event| event.due);
        Reply::Stats(Stats {
            scheduled: count(State::Scheduled) - due.len(),
            ready: count(State::Ready) + due.len(),
            leased: count(State::Leased),
            dead: count(State::Dead),
            oldest_ready: oldest.into_iter().chain(first_due).min(),
        })
    }

    pub(crate) fn forecast(&self, within: &[Duration]) -> Reply {
        let spans = within
            .iter()
            .map(|span| u64::try_from(span.as_micros()).expect("short"));
        Reply::Forecast(
            spans
                .map(|us| self.scheduled(self.now_us + us).len())
                .collect(),
        )
    }
}

fn ms_of(us: u64) -> Timestamp {
    Timestamp::from_millis(us / 1_000)
}
