//! The memory of events that are over, so that a late repeat of a push or a settle is known.

use std::collections::{BTreeMap, VecDeque};

use crate::core::reference::entry::Settled;
use crate::core::reference::restore::Finished;
use crate::core::reference::window::{DedupWindow, FORGET_MAX, ID_AHEAD_MAX};
use crate::event::EventId;
use crate::time::Timestamp;

/// The finished events still remembered, and how far the forgetting has come.
#[derive(Clone, Debug)]
pub(super) struct Past {
    known: BTreeMap<EventId, Remembered>,
    /// The same ids and when they ended, us; the one that finished first in front.
    order: VecDeque<(EventId, u64)>,
    window: DedupWindow,
    /// The latest creation time among the forgotten ones.
    forgotten: Option<Timestamp>,
    /// How many the operation under way may still forget.
    budget: usize,
    /// Whether the operation under way has ended an event.
    has_new: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Remembered {
    pub(super) finished: Finished,
    pub(super) settled: Option<Settled>,
}

impl Past {
    pub(super) fn new(window: DedupWindow) -> Self {
        Self {
            known: BTreeMap::new(),
            order: VecDeque::new(),
            window,
            forgotten: None,
            budget: FORGET_MAX,
            has_new: false,
        }
    }

    pub(super) fn set_window(&mut self, window: DedupWindow) {
        self.window = window;
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// An operation begins.
    pub(super) fn begin(&mut self) {
        (self.budget, self.has_new) = (FORGET_MAX, false);
    }

    /// Whether the operation under way has ended an event.
    pub(super) fn has_new(&self) -> bool {
        self.has_new
    }

    pub(super) fn remember(&mut self, finished: Finished, settled: Option<Settled>, ended_us: u64) {
        let remembered = Remembered { finished, settled };
        self.has_new = true;
        if self.known.insert(finished.id, remembered).is_none() {
            self.order.push_back((finished.id, ended_us));
        }
    }

    /// Forgets what the window does not hold, the first to finish first, as far as the operation
    /// under way may.
    ///
    /// An operation that ended something does so when it is done, so that a batch which ends some
    /// events and repeats the end of others is answered by what was known before it; a push does
    /// so as soon as it has replaced an event.
    pub(super) fn forget_surplus(&mut self, now_us: u64) {
        self.forget(now_us, self.window.max);
    }

    /// Forgets what is too old, and what is more than the cap: what the periodic look does, so that
    /// a bucket in which nothing ends any more costs next to nothing.
    pub(super) fn forget_old(&mut self, now_us: u64) {
        self.forget(now_us, usize::MAX);
    }

    fn forget(&mut self, now_us: u64, max: usize) {
        while self.budget > 0
            && let Some((id, ended_us)) = self.order.front().copied()
            && self.is_surplus(now_us.saturating_sub(ended_us), max)
        {
            self.order.pop_front();
            self.known.remove(&id);
            self.budget -= 1;
            self.heal(now_us);
            // One that is further ahead is refused for that.
            if !is_ahead(id.created(), now_us) {
                self.forget_until(id.created());
            }
        }
    }

    /// Whether the first one, which ended so long ago, is to be forgotten.
    fn is_surplus(&self, age_us: u64, max: usize) -> bool {
        let (len, age_us) = (self.order.len(), u128::from(age_us));
        len > self.window.cap
            || age_us >= self.window.max_age.as_micros()
            || (len > max && age_us >= self.window.keep_for.as_micros())
    }

    pub(super) fn forget_until(&mut self, created: Timestamp) {
        self.forgotten = self.forgotten.max(Some(created));
    }

    /// No id that was ever accepted is so far ahead: a watermark that is, from a time when the
    /// clock was wrong or ids of any time were accepted, would close the bucket to all.
    pub(super) fn heal(&mut self, now_us: u64) {
        if self.forgotten.is_some_and(|until| is_ahead(until, now_us)) {
            let before_now = Timestamp::from_millis((now_us / 1_000).saturating_sub(1));
            self.forgotten = Some(before_now);
        }
    }

    pub(super) fn get(&self, id: EventId) -> Option<&Remembered> {
        self.known.get(&id)
    }

    /// The remembered ones.
    pub(super) fn ids(&self) -> impl Iterator<Item = EventId> + '_ {
        self.known.keys().copied()
    }

    /// Whether an id that is not known may be one of the forgotten.
    pub(super) fn may_have_forgotten(&self, id: EventId) -> bool {
        self.forgotten.is_some_and(|until| id.created() <= until)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.order.len() != self.known.len() {
            return Err("the memory of finished events counts differently twice".into());
        }
        match self
            .order
            .iter()
            .find(|(id, _)| !self.known.contains_key(id))
        {
            Some((id, _)) => Err(format!("{id} is in the order of finished events only")),
            None => Ok(()),
        }
    }
}

/// Whether an id made then is further ahead of the store's time than one may be.
pub(super) fn is_ahead(created: Timestamp, now_us: u64) -> bool {
    let ahead_ms = created.as_millis().saturating_sub(now_us / 1_000);
    u128::from(ahead_ms) > ID_AHEAD_MAX.as_millis()
}
