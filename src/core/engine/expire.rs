//! The end of what has expired.
//!
//! Nothing else than the time ends these events, and nobody may come to fetch them: their queue may
//! be paused, or without a consumer. So each operation ends what has expired before it does
//! anything else, up to a bound; what is left beyond the bound is not shown, not counted and holds
//! no key.

use crate::core::engine::bucket::Bucket;
use crate::core::engine::entry::{Entry, Place, RecordDetails};
use crate::core::op::ChangeSink;
use crate::event::{EventId, StaleReason, State};
use crate::record::{Cause, Outcome};
use crate::time::Timestamp;

/// The most events that one operation ends because they have expired, beside those that it is
/// about, so that none takes long.
pub(super) const EXPIRE_MAX: usize = 500;

impl<B: Clone> Bucket<B> {
    /// Ends what has expired, the first first, up to [`EXPIRE_MAX`].
    pub(super) fn end_expired<L: ChangeSink<Body = B>>(&mut self, sink: &mut L) {
        if !self.expiring.has_until(self.now_us) {
            return;
        }
        let first = self.expiring.until(self.now_us).take(EXPIRE_MAX);
        for id in first.collect::<Vec<_>>() {
            self.end_if_expired(id, sink);
        }
    }

    /// Takes back the lease of an event if it is over, and ends the event if it has expired. An
    /// operation on one event calls it, as that may be beyond the bound.
    pub(super) fn end_if_over<L: ChangeSink<Body = B>>(&mut self, id: EventId, sink: &mut L) {
        self.end_if_overdue(id, sink);
        self.end_if_expired(id, sink);
    }

    fn end_if_expired<L: ChangeSink<Body = B>>(&mut self, id: EventId, sink: &mut L) {
        let Some(entry) = self.entries.get(&id).filter(|entry| entry.is_waiting()) else {
            return;
        };
        if let Some(stale) = entry.stale(self.now_us) {
            let tries = entry.tries;
            let moved_us = self.unwait(id);
            self.set_aside(id, stale, tries, moved_us, sink);
        }
    }

    /// Ends an event that is of no use and has left its place, as its policy says.
    pub(super) fn set_aside<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        stale: StaleReason,
        tries: u16,
        moved_us: u64,
        sink: &mut L,
    ) {
        match stale {
            StaleReason::Expired => {
                self.aside.expired += 1;
                let ending = RecordDetails::unheld(Outcome::Expired, moved_us, self.now_us);
                self.finish(id, State::Expired, ending, sink);
            }
            StaleReason::TooLate => {
                self.aside.late += 1;
                let ending = RecordDetails {
                    cause: Some(Cause::TooLate),
                    ..RecordDetails::unheld(Outcome::Buried, moved_us, self.now_us)
                };
                self.bury(id, tries, ending, sink);
            }
        }
    }

    /// Returns the waiting events that have expired and are beyond the bound of an operation.
    pub(super) fn expired(&self) -> impl Iterator<Item = (EventId, &Entry<B>)> + '_ {
        let ids = self.expiring.until(self.now_us);
        ids.filter_map(|id| Some((id, self.entries.get(&id)?)))
    }

    /// Returns the state of an event whose lease is past its deadline, or that has expired, once that is
    /// ended.
    pub(super) fn state_beyond(&self, entry: &Entry<B>) -> State {
        if entry.is_leased() && entry.tries.saturating_add(1) >= entry.attempts {
            return State::Dead;
        }
        match entry.stale(self.now_us) {
            Some(StaleReason::TooLate) => State::Dead,
            Some(StaleReason::Expired) => State::Expired,
            None if entry.due.as_micros() <= self.now_us => State::Ready,
            None => State::Scheduled,
        }
    }

    /// Returns when the first event of the ready list that has not expired was moved there, or when the
    /// first one in the delay set was due, whichever is earlier.
    pub(super) fn oldest_ready_us(&self) -> Option<u64> {
        let has_expired = self.expiring.has_until(self.now_us);
        let is_of_use = |id: &EventId| {
            let is_good = |entry: &Entry<B>| entry.stale(self.now_us).is_none();
            !has_expired || self.entries.get(id).is_some_and(is_good)
        };
        let mut moved = self.waiting.ready().map(|(_, ready)| ready);
        let moved = moved.find(|ready| is_of_use(&ready.id));
        let due = self.waiting.scheduled();
        let mut due = due.take_while(|(due, _)| due.as_micros() <= self.now_us);
        let due = due.find(|(_, id)| is_of_use(id));
        let moved_us = moved.map(|ready| ready.moved_us);
        let due_us = due.map(|(due, _)| due.as_micros());
        moved_us.into_iter().chain(due_us).min()
    }

    /// Returns the due times of what has expired in the delay set, sorted.
    pub(super) fn expired_dues(&self) -> Vec<Timestamp> {
        let scheduled = self
            .expired()
            .filter(|(_, entry)| entry.place() == Place::Scheduled);
        let mut dues: Vec<_> = scheduled.map(|(_, entry)| entry.due).collect();
        dues.sort_unstable();
        dues
    }
}
