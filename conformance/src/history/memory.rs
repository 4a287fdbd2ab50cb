//! The tombstones of a bucket in a history.

use std::collections::{BTreeSet, VecDeque};

use duly::EventId;
use duly::store::DedupWindow;
use duly::time::Timestamp;

/// The longest time from a decision of a store to its answer.
const ANSWER_MAX_US: u64 = 10_000_000;

/// The tombstones of a bucket, oldest first, each with its time.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    ids: VecDeque<(EventId, u64)>,
    /// The latest creation time of a forgotten id: the latest that is certain, and that may be.
    forgotten: Option<Timestamp>,
    may_be_forgotten: Option<Timestamp>,
    /// Ids that the bucket may have forgotten, or others in their place.
    unsure: BTreeSet<EventId>,
    /// Ids that may have been forgotten while their time was to come, and the latest of their times:
    /// those up to it are refused while theirs is still to come.
    may_return: BTreeSet<EventId>,
    may_be_ahead: Option<Timestamp>,
    /// How many may be at another place in the bucket.
    out_of_order: usize,
}

impl Tombstones {
    /// Adds a tombstone. Returns the ids that the bucket has forgotten for it.
    pub(super) fn remember(
        &mut self,
        id: EventId,
        now_us: u64,
        window: &DedupWindow,
    ) -> Vec<EventId> {
        self.put(id, now_us);
        let is_in_order = self.out_of_order == 0;
        let all: Vec<_> = if is_in_order {
            Vec::new()
        } else {
            self.ids.iter().map(|(id, _)| *id).collect()
        };
        let mut gone = Vec::new();
        for _ in 0..self.ids.len() {
            if self.surplus(now_us, window) == 0 {
                break;
            }
            let Some((id, ended_us)) = self.ids.pop_front() else {
                break;
            };
            self.out_of_order -= usize::from(self.is_out_of_order(id, ended_us));
            // One whose time is still to come is put behind the others, up to twice the cap.
            let is_to_come = id.created().as_millis() > now_us / 1_000;
            if is_to_come && !self.is_full(window) {
                self.put(id, now_us);
            } else {
                gone.push(id);
            }
        }
        if gone.is_empty() {
            return gone;
        }
        let candidates = if is_in_order { &gone } else { &all };
        // The watermark never passes now.
        let is_past = |id: &&EventId| id.created().as_millis() <= now_us / 1_000;
        let latest = candidates
            .iter()
            .filter(is_past)
            .map(|id| id.created())
            .max();
        self.may_be_forgotten = self.may_be_forgotten.max(latest);
        let to_come = candidates.iter().filter(|id| !is_past(id));
        let latest_ahead = to_come.clone().map(|id| id.created()).max();
        self.may_be_ahead = self.may_be_ahead.max(latest_ahead);
        self.may_return.extend(to_come);
        if is_in_order {
            self.forgotten = self.forgotten.max(latest);
        } else {
            let all_are_past = candidates.iter().all(|id| is_past(&id));
            let certain = candidates.iter().map(|id| id.created()).min();
            self.forgotten = self.forgotten.max(certain.filter(|_| all_are_past));
            self.unsure.extend(all);
            self.out_of_order = self.ids.len();
        }
        gone
    }

    fn is_full(&self, window: &DedupWindow) -> bool {
        self.ids.len() >= 2 * window.cap.max(1)
    }

    fn put(&mut self, id: EventId, ended_us: u64) {
        self.ids.push_back((id, ended_us));
        self.out_of_order += usize::from(self.is_out_of_order(id, ended_us));
    }

    /// Returns whether an id may be at another place in the bucket. A read that forgets is not in the
    /// history, and puts ids whose time is still to come behind the others.
    fn is_out_of_order(&self, id: EventId, ended_us: u64) -> bool {
        id.created().as_millis() > ended_us / 1_000 || self.unsure.contains(&id)
    }

    /// Returns the ids of which a read may have forgotten some.
    fn may_be_gone(&self, now_us: u64, window: &DedupWindow) -> impl Iterator<Item = EventId> {
        let count = match self.surplus(now_us, window) {
            0 => 0,
            surplus if self.out_of_order == 0 => surplus,
            _ => self.ids.len(),
        };
        self.ids.iter().take(count).map(|(id, _)| *id)
    }

    /// Returns whether an unknown id is certainly as old as one that the bucket has forgotten.
    pub(super) fn is_too_old(&self, id: EventId) -> bool {
        self.forgotten.is_some_and(|until| id.created() <= until)
    }

    /// Returns whether the bucket may take an id that it has forgotten for a new one.
    pub(super) fn may_return(&self, id: EventId) -> bool {
        self.may_return.contains(&id)
    }

    /// Returns whether it may be: a read of the bucket forgets as well, and is not in the history.
    pub(super) fn may_be_too_old(&self, id: EventId, now_us: u64, window: &DedupWindow) -> bool {
        let mut may_be_gone = self.may_be_gone(now_us, window);
        let is_among = |until: Option<Timestamp>| until.is_some_and(|until| id.created() <= until);
        let was_to_come = id.created().as_micros() + ANSWER_MAX_US > now_us;
        (was_to_come && is_among(self.may_be_ahead))
            || is_among(self.may_be_forgotten)
            || may_be_gone.any(|gone| id.created() <= gone.created())
    }

    /// Returns whether the bucket may have dropped a tombstone.
    pub(super) fn may_have_forgotten(
        &self,
        id: EventId,
        now_us: u64,
        window: &DedupWindow,
    ) -> bool {
        let mut may_be_gone = self.may_be_gone(now_us, window);
        self.unsure.contains(&id) || may_be_gone.any(|gone| gone == id)
    }

    /// Returns how many of the oldest are outside of the window.
    fn surplus(&self, now_us: u64, window: &DedupWindow) -> usize {
        let is_surplus = |(at, (_, ended_us)): &(usize, &(EventId, u64))| {
            let (left, age_us) = (
                self.ids.len() - at,
                u128::from(now_us.saturating_sub(*ended_us)),
            );
            left > window.cap
                || age_us >= window.max_age.as_micros()
                || (left > window.max && age_us >= window.keep_for.as_micros())
        };
        self.ids.iter().enumerate().take_while(is_surplus).count()
    }
}
