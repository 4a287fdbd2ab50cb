//! The waiting events of a bucket: the delay set and the ready list.

use std::collections::BTreeMap;

use crate::core::engine::counts::{DueCounts, DueKey, Scheduled};
use crate::core::op::{CROWD, CROWD_SPAN};
use crate::event::EventId;
use crate::time::Timestamp;

/// The delay set, ordered by due time, and the ready list, ordered by arrival.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingEvents {
    scheduled: Scheduled,
    counts: DueCounts,
    ready: BTreeMap<i64, ReadyItem>,
    /// The next free position before the first, and the one after the last.
    front: i64,
    back: i64,
}

/// An item of the ready list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyItem {
    pub(super) id: EventId,
    /// When it was moved there.
    pub(super) moved_us: u64,
}

impl WaitingEvents {
    pub(super) fn schedule(&mut self, id: EventId, due: Timestamp) {
        if self.scheduled.insert(DueKey::new(due, id), ()) {
            self.counts.add(due, &self.scheduled);
        }
    }

    /// Replaces the delay set.
    pub(super) fn schedule_all(&mut self, mut keys: Vec<DueKey>) {
        keys.sort_unstable();
        self.scheduled = Scheduled::of_sorted(&keys);
        self.counts = DueCounts::of(&self.scheduled);
    }

    pub(super) fn unschedule(&mut self, id: EventId, due: Timestamp) {
        if self.scheduled.remove(&DueKey::new(due, id)).is_some() {
            self.counts.remove(due);
        }
    }

    /// Returns the next scheduled event, if it is due until `until_us`.
    pub(super) fn due_until(&self, until_us: u64) -> Option<(Timestamp, EventId)> {
        let (first, ()) = self.scheduled.first()?;
        (first.due.as_micros() <= until_us).then(|| (first.due, first.id()))
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.scheduled.first().map(|(first, ())| first.due)
    }

    /// Returns when the last of a crowd is due, if the next events are one.
    pub(super) fn due_of_crowd(&self) -> Option<Timestamp> {
        let (last, ()) = self.scheduled.iter().nth(CROWD - 1)?;
        (last.due.since(self.next_due()?) <= CROWD_SPAN).then_some(last.due)
    }

    /// Returns how many are due until each of these instants; cheapest if ascending.
    pub(super) fn count_until_each(&self, ends_us: impl Iterator<Item = u64>) -> Vec<usize> {
        let mut count = self.counts.counting(&self.scheduled);
        let ends = ends_us.map(|end_us| Timestamp::from_millis(end_us / 1_000));
        ends.map(|end| count.until(end)).collect()
    }

    /// Appends to the ready list; returns the position.
    pub(super) fn append(&mut self, id: EventId, moved_us: u64) -> i64 {
        let at = self.back;
        self.back += 1;
        self.ready.insert(at, ReadyItem { id, moved_us });
        at
    }

    /// Reserves `count` positions before the first; returns the first of them.
    pub(super) fn make_room(&mut self, count: usize) -> i64 {
        self.front -= i64::try_from(count).unwrap_or(0); // a batch always fits
        self.front
    }

    /// Puts an event at a position reserved by [`make_room`](Self::make_room).
    pub(super) fn put(&mut self, at: i64, id: EventId, moved_us: u64) {
        self.ready.insert(at, ReadyItem { id, moved_us });
    }

    pub(super) fn remove_ready(&mut self, at: i64) -> Option<ReadyItem> {
        self.ready.remove(&at)
    }

    /// Returns when the event at this position was moved there.
    pub(super) fn moved_us(&self, at: i64) -> Option<u64> {
        self.ready.get(&at).map(|ready| ready.moved_us)
    }

    pub(super) fn pop_ready(&mut self) -> Option<ReadyItem> {
        self.ready.pop_first().map(|(_, ready)| ready)
    }

    pub(super) fn ready(&self) -> impl Iterator<Item = (i64, ReadyItem)> + '_ {
        self.ready.iter().map(|(at, ready)| (*at, *ready))
    }

    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn scheduled(&self) -> impl Iterator<Item = (Timestamp, EventId)> + '_ {
        self.scheduled.iter().map(|(key, ())| (key.due, key.id()))
    }

    pub(super) fn scheduled_len(&self) -> usize {
        self.scheduled.len()
    }

    /// Checks the counters.
    pub(super) fn check(&self) -> Result<(), String> {
        self.counts.check(&self.scheduled)?;
        let inside = |at: &i64| (self.front..self.back).contains(at);
        if !self.ready.keys().all(inside) {
            return Err("the ready list has a position outside its bounds".into());
        }
        Ok(())
    }
}
