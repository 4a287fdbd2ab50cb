//! The credits of one queue on a node.

use crate::core::rate::Rate;
use crate::core::starts::StartWindow;
use crate::event::QueueName;

/// The credits of one queue: they bound the events in its ring, its stash and its handlers
/// together.
///
/// Publishing an event takes a credit, the end of its handler returns it; so a full ring stops the
/// fetches of this queue and of no other.
#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) name: QueueName,
    /// How many unfinished events may be published; 0 is paused.
    pub(crate) capacity: usize,
    /// Published and not ended.
    pub(crate) outstanding: usize,
    /// Requested by fetches in flight.
    pub(crate) reserved: usize,
    /// Prefetched.
    pub(crate) ahead: usize,
    /// How many handlers run at once.
    pub(crate) workers: usize,
    /// Its handlers are over whatever they return, so nothing is said to the store: its leases are
    /// left to other nodes.
    pub(crate) is_halted: bool,
    /// Prefetched events that may start, or may as soon as the store has acknowledged it.
    pub(crate) pledged: usize,
    /// Prefetched events that are due or about to be and wait for the store's acknowledgement.
    pub(crate) waiting: usize,
    /// Events of fetches in flight on which handlers may start.
    pub(crate) fetched_starts: usize,
    pub(crate) window: StartWindow,
    /// The rate limit, if any.
    pub(crate) rate: Option<Rate>,
    /// How many nodes consume the queue, this one included.
    pub(crate) nodes: usize,
    /// Its buckets, by their index in the node.
    pub(crate) buckets: Vec<usize>,
}

impl QueueState {
    pub(crate) fn new(name: QueueName, capacity: usize, starts_min: usize) -> Self {
        Self {
            name,
            capacity,
            outstanding: 0,
            reserved: 0,
            ahead: 0,
            workers: 0,
            is_halted: false,
            pledged: 0,
            waiting: 0,
            fetched_starts: 0,
            window: StartWindow::new(starts_min),
            rate: None,
            nodes: 1,
            buckets: Vec::new(),
        }
    }

    /// Returns how many more events may be requested.
    pub(crate) fn room(&self) -> usize {
        match self.rate {
            // They wait here for the rate limit, not for a credit.
            Some(_) if self.free() == 0 => 0,
            Some(_) => self.soon(),
            None => self
                .capacity
                .saturating_sub(self.outstanding + self.reserved + self.waiting),
        }
    }

    /// Returns how many one fetch requests: half of the room where there are other buckets, so that
    /// one without a reply leaves room for the others.
    pub(crate) fn share(&self) -> usize {
        match self.buckets.len() {
            0 | 1 => self.room(),
            _ => self.room().div_ceil(2),
        }
    }

    /// Returns whether ready events are worth a fetch: a quarter of the credits is free, or workers
    /// may soon be idle. What a fuller node would fetch waits in its ring then.
    pub(crate) fn is_low(&self) -> bool {
        let used = self.outstanding + self.reserved + self.waiting;
        self.rate.is_some() || used <= 2 * self.workers || self.room() >= self.capacity / 4
    }

    /// Returns how many may be prefetched beside a fetch of `limit`, at most `ahead_max` in all.
    pub(crate) fn prefetch_room(&self, limit: usize, ahead_max: usize) -> usize {
        let room = ahead_max.saturating_sub(self.ahead);
        room.min(self.soon().saturating_sub(limit))
    }

    /// Returns how many more start soon enough to be fetched, by the rate limit.
    fn soon(&self) -> usize {
        let taken = self.ahead + self.reserved;
        let soon = self.rate.as_ref().map(Rate::soon);
        soon.map_or(usize::MAX, |soon| soon.saturating_sub(taken))
    }

    /// Returns how many prefetched events can be published.
    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.outstanding)
    }

    /// Returns whether published and waiting events use all credits.
    pub(crate) fn is_full(&self) -> bool {
        self.outstanding + self.waiting >= self.capacity
    }

    /// Sets capacity and number of workers.
    pub(crate) fn resize(&mut self, capacity: usize, workers: usize) {
        (self.capacity, self.workers) = (capacity, workers);
        self.window.resize(workers);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.capacity == 0
    }

    /// Returns whether more is prefetched than starts soon, by the rate limit or a pause.
    pub(crate) fn is_beyond_need(&self) -> bool {
        let is_early = |rate: &Rate| self.ahead > rate.soon();
        self.is_paused() || self.rate.as_ref().is_some_and(is_early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_events_are_fetched_when_workers_may_idle_or_a_quarter_of_the_credits_is_free() {
        let name: QueueName = "mail".parse().expect("a name");
        let mut queue = QueueState::new(name, 1_024, 64);
        queue.workers = 16;
        for (outstanding, reserved, waiting, is_low) in [
            (0, 0, 0, true),
            (1_024, 0, 0, false),
            (700, 68, 0, true),
            (700, 69, 0, false),
            (700, 0, 69, false),
        ] {
            (queue.outstanding, queue.reserved, queue.waiting) = (outstanding, reserved, waiting);
            assert_eq!(queue.is_low(), is_low, "{queue:?}");
        }
        queue.resize(64, 40);
        (queue.outstanding, queue.waiting) = (60, 0);
        assert!(queue.is_low(), "most of what is fetched runs already");
    }
}
