//! How much one queue can take.

use crate::core::rate::Rate;
use crate::core::starts::StartWindow;
use crate::event::QueueName;

/// The credits of one queue: they bound what is in its ring, its stash and its handlers together.
///
/// A credit is taken when an event is published and given back when its handler ends, so a full
/// ring stops fetching for this queue and for no other.
#[derive(Debug)]
pub(crate) struct QueueCare {
    pub(crate) name: QueueName,
    /// How many events may be published and not ended; 0 = paused.
    pub(crate) capacity: usize,
    /// Published and not ended.
    pub(crate) outstanding: usize,
    /// Asked for by fetches that are on their way.
    pub(crate) reserved: usize,
    /// Held read ahead.
    pub(crate) ahead: usize,
    /// How many handlers run at once.
    pub(crate) workers: usize,
    /// Held, and handlers may start on it, or may as soon as the store has acknowledged it.
    pub(crate) pledged: usize,
    /// Held and due, or about to be, and waits for the store to acknowledge the start.
    pub(crate) waiting: usize,
    /// On so many of what fetches on their way bring handlers may start.
    pub(crate) fetched_starts: usize,
    pub(crate) window: StartWindow,
    /// How fast its handlers may start, where that is limited.
    pub(crate) rate: Option<Rate>,
    /// How many nodes consume it, this one among them.
    pub(crate) nodes: usize,
    /// Buckets, by their place in the node.
    pub(crate) buckets: Vec<usize>,
}

impl QueueCare {
    pub(crate) fn new(name: QueueName, capacity: usize, starts_min: usize) -> Self {
        Self {
            name,
            capacity,
            outstanding: 0,
            reserved: 0,
            ahead: 0,
            workers: 0,
            pledged: 0,
            waiting: 0,
            fetched_starts: 0,
            window: StartWindow::new(starts_min),
            rate: None,
            nodes: 1,
            buckets: Vec::new(),
        }
    }

    /// How many more events can be asked for.
    pub(crate) fn room(&self) -> usize {
        match self.rate {
            // They wait here for their turn, and not for a credit.
            Some(_) if self.free() == 0 => 0,
            Some(_) => self.soon(),
            None => self
                .capacity
                .saturating_sub(self.outstanding + self.reserved + self.waiting),
        }
    }

    /// How many of these one fetch asks for: half of them where there are other buckets, so that
    /// one that does not answer leaves room for the others.
    pub(crate) fn share(&self) -> usize {
        match self.buckets.len() {
            0 | 1 => self.room(),
            _ => self.room().div_ceil(2),
        }
    }

    /// How many more may be held beside what a fetch of `limit` brings, at most `ahead_max`.
    pub(crate) fn may_hold(&self, limit: usize, ahead_max: usize) -> usize {
        let room = ahead_max.saturating_sub(self.ahead);
        room.min(self.soon().saturating_sub(limit))
    }

    /// How many more start soon enough to be taken from the store, as far as the rate goes.
    fn soon(&self) -> usize {
        let taken = self.ahead + self.reserved;
        let soon = self.rate.as_ref().map(Rate::soon);
        soon.map_or(usize::MAX, |soon| soon.saturating_sub(taken))
    }

    /// How many events that are held already can be published.
    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.outstanding)
    }

    /// Whether there is no credit for more than what is published or waits for the store's word.
    pub(crate) fn is_full(&self) -> bool {
        self.outstanding + self.waiting >= self.capacity
    }

    /// It takes so many events from now on, and runs so many handlers at once.
    pub(crate) fn resize(&mut self, capacity: usize, workers: usize) {
        (self.capacity, self.workers) = (capacity, workers);
        self.window.resize(workers);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.capacity == 0
    }
}
