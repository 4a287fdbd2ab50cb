//! The tombstones of a bucket in a history.

use std::collections::VecDeque;

use duly::EventId;
use duly::store::DedupWindow;
use duly::time::Timestamp;

/// The tombstones of a bucket, oldest first, each with its time.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    ids: VecDeque<(EventId, u64)>,
    /// The latest creation time of a forgotten id.
    forgotten: Option<Timestamp>,
}

impl Tombstones {
    /// Adds a tombstone. Returns the ids that the bucket has forgotten for it.
    pub(super) fn remember(
        &mut self,
        id: EventId,
        now_us: u64,
        window: &DedupWindow,
    ) -> Vec<EventId> {
        self.ids.push_back((id, now_us));
        let mut gone = Vec::new();
        for _ in 0..self.ids.len() {
            let Some((id, _)) = self
                .ids
                .front()
                .copied()
                .filter(|_| self.surplus(now_us, window) > 0)
            else {
                break;
            };
            self.ids.pop_front();
            // One whose time is still to come is put behind the others, up to twice the cap.
            let is_to_come = id.created().as_millis() > now_us / 1_000;
            if is_to_come && self.ids.len() < 2 * window.cap {
                self.ids.push_back((id, now_us));
            } else {
                gone.push(id);
            }
        }
        let latest = gone.iter().map(|id| id.created()).max();
        self.forgotten = self.forgotten.max(latest);
        gone
    }

    /// Returns whether an unknown id is certainly as old as one that the bucket has forgotten.
    pub(super) fn is_too_old(&self, id: EventId) -> bool {
        self.forgotten.is_some_and(|until| id.created() <= until)
    }

    /// Returns whether it may be: a read of the bucket forgets as well, and is not in the history.
    pub(super) fn may_be_too_old(&self, id: EventId, now_us: u64, window: &DedupWindow) -> bool {
        let mut may_be_gone = self.ids.iter().take(self.surplus(now_us, window));
        self.is_too_old(id) || may_be_gone.any(|(gone, _)| id.created() <= gone.created())
    }

    /// Returns whether the bucket may have dropped a tombstone.
    pub(super) fn may_have_forgotten(
        &self,
        id: EventId,
        now_us: u64,
        window: &DedupWindow,
    ) -> bool {
        let mut may_be_gone = self.ids.iter().take(self.surplus(now_us, window));
        may_be_gone.any(|(gone, _)| *gone == id)
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
