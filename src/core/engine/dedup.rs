//! The dedup window of a bucket: tombstones of ended events, to recognise late repeats.

use std::collections::VecDeque;

use crate::core::engine::dense::DenseMap;
use crate::core::engine::window::{DedupWindow, FORGET_MAX, ID_AHEAD_MAX, KEPT_MAX};
use crate::core::op::{ForgottenIds, Tombstone};
use crate::event::EventId;
use crate::time::Timestamp;

/// The tombstones of a bucket, and the watermark of the dropped ones.
#[derive(Clone, Debug)]
pub(super) struct DedupState {
    known: DenseMap<EventId, Tombstone>,
    /// The same ids and when they ended, in µs; oldest first.
    order: VecDeque<(EventId, u64)>,
    window: DedupWindow,
    /// The latest creation times among the dropped ones.
    forgotten: ForgottenIds,
    /// How many the current operation may still drop.
    budget: usize,
    /// Whether the current operation has ended an event.
    has_new: bool,
    /// Whether the current operation has lowered the watermark.
    has_healed: bool,
    /// Tombstones that the current operation has put behind the others.
    kept: Vec<Tombstone>,
}

impl DedupState {
    pub(super) fn new(window: DedupWindow) -> Self {
        Self {
            known: DenseMap::default(),
            order: VecDeque::new(),
            window,
            forgotten: ForgottenIds::default(),
            budget: FORGET_MAX,
            has_new: false,
            has_healed: false,
            kept: Vec::new(),
        }
    }

    pub(super) fn set_window(&mut self, window: DedupWindow) {
        self.window = window;
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Starts an operation.
    pub(super) fn begin(&mut self) {
        (self.budget, self.has_new, self.has_healed) = (FORGET_MAX, false, false);
    }

    /// Returns whether the current operation has ended an event.
    pub(super) fn has_new(&self) -> bool {
        self.has_new
    }

    /// Takes the tombstones that were put behind the others: each counts as dropped, and as new.
    pub(super) fn take_kept(&mut self) -> Vec<Tombstone> {
        std::mem::take(&mut self.kept)
    }

    /// Returns how many the current operation has dropped, and which ids may ever have been; `None` if
    /// both are as they were.
    pub(super) fn dropped(&self) -> Option<(usize, ForgottenIds)> {
        let many = FORGET_MAX - self.budget;
        (many > 0 || self.has_healed).then_some((many, self.forgotten))
    }

    /// Adds a tombstone. Returns `false` if there is one of its id, which stays.
    pub(super) fn remember(&mut self, finished: Tombstone) -> bool {
        self.has_new = true;
        let is_new = self.known.insert(finished.id, finished);
        if is_new {
            self.order.push_back((finished.id, finished.ended_us));
        }
        is_new
    }

    /// Drops what exceeds the window, oldest first, within the budget of the current operation.
    ///
    /// An operation that ends events calls this last, so that a batch that ends some events and
    /// repeats the end of others sees the window as it was before; a push calls it as soon as it
    /// has replaced an event.
    pub(super) fn forget_surplus(&mut self, now_us: u64) {
        self.forget(now_us, self.window.max, self.window.cap);
    }

    /// Drops what is too old or exceeds the cap. The periodic scan calls this, so that an unused
    /// bucket costs next to nothing.
    pub(super) fn forget_old(&mut self, now_us: u64) {
        self.forget(now_us, usize::MAX, self.window.cap);
    }

    /// Drops what is too old, and nothing else.
    pub(super) fn forget_aged(&mut self, now_us: u64) {
        self.forget(now_us, usize::MAX, usize::MAX);
    }

    fn forget(&mut self, now_us: u64, max: usize, cap: usize) {
        let mut unseen = self.order.len();
        while self.budget > 0
            && unseen > 0
            && self.kept.len() < KEPT_MAX
            && let Some((id, ended_us)) = self.order.front().copied()
            && self.is_surplus(now_us.saturating_sub(ended_us), max, cap)
        {
            self.order.pop_front();
            self.budget -= 1;
            unseen -= 1;
            if self.is_to_come(id, now_us)
                && let Some(tombstone) = self.known.get(&id)
            {
                self.kept.push(*tombstone);
                self.order.push_back((id, now_us));
                continue;
            }
            self.known.remove(&id);
            self.heal(now_us);
            // The watermark never passes now, as that would refuse every id until then.
            let created = id.created();
            if !is_later(id, now_us) {
                self.forget_until(created);
            } else if !is_ahead(created, now_us) {
                self.forgotten.ahead = self.ahead(now_us);
                self.forget_ahead(created);
            }
        }
    }

    /// Returns whether the time of an id is still to come, so that no watermark can say that it is
    /// forgotten. Beyond twice the cap it is dropped nevertheless.
    fn is_to_come(&self, id: EventId, now_us: u64) -> bool {
        is_later(id, now_us) && !is_ahead(id.created(), now_us) && !self.is_full()
    }

    /// Returns whether there are twice as many as the cap says.
    fn is_full(&self) -> bool {
        self.order.len() >= self.window.cap.max(1).saturating_mul(2)
    }

    /// Returns whether the oldest tombstone, of the given age, is to be dropped.
    fn is_surplus(&self, age_us: u64, max: usize, cap: usize) -> bool {
        let (len, age_us) = (self.order.len(), u128::from(age_us));
        len > cap
            || age_us >= self.window.max_age.as_micros()
            || (len > max && age_us >= self.window.keep_for.as_micros())
    }

    pub(super) fn forget_until(&mut self, created: Timestamp) {
        self.forgotten.until = self.forgotten.until.max(Some(created));
    }

    pub(super) fn forget_ahead(&mut self, created: Timestamp) {
        self.forgotten.ahead = self.forgotten.ahead.max(Some(created));
    }

    /// Sets the watermark, which may have been higher: see [`Self::heal`].
    #[cfg(feature = "embedded")]
    pub(super) fn set_forgotten(&mut self, created: Timestamp) {
        self.forgotten.until = Some(created);
    }

    /// Returns whether the oldest tombstone has reached the greatest age.
    pub(super) fn is_old(&self, now_us: u64) -> bool {
        let max_age = self.window.max_age.as_micros();
        let age = |ended_us: u64| u128::from(now_us.saturating_sub(ended_us));
        self.order
            .front()
            .is_some_and(|(_, ended_us)| age(*ended_us) >= max_age)
    }

    /// Lets no tombstone have ended after `now`. Returns all of them, oldest first, if one had.
    pub(super) fn end_by(&mut self, now: Timestamp) -> Vec<Tombstone> {
        let mut is_changed = false;
        for (id, ended_us) in &mut self.order {
            if Timestamp::from_millis(*ended_us / 1_000) > now
                && let Some(tombstone) = self.known.get_mut(id)
            {
                (*ended_us, tombstone.ended_us) = (now.as_micros(), now.as_micros());
                is_changed = true;
            }
        }
        let all = self.order.iter().filter(|_| is_changed);
        all.filter_map(|(id, _)| self.known.get(id).copied())
            .collect()
    }

    pub(super) fn forgotten(&self) -> ForgottenIds {
        self.forgotten
    }

    /// Lowers a watermark that is too far ahead. No id that far ahead is ever accepted, so such a
    /// watermark is from a time when the clock was wrong or any id was accepted, and would close
    /// the bucket to all.
    pub(super) fn heal(&mut self, now_us: u64) {
        let until = self.forgotten.until;
        if until.is_some_and(|until| is_ahead(until, now_us)) {
            let before_now = Timestamp::from_millis((now_us / 1_000).saturating_sub(1));
            self.forgotten.until = Some(before_now);
            self.has_healed = true;
        }
    }

    pub(super) fn get(&self, id: EventId) -> Option<&Tombstone> {
        self.known.get(&id)
    }

    /// Returns the ids of all tombstones.
    pub(super) fn ids(&self) -> impl Iterator<Item = EventId> + '_ {
        self.known.iter().map(|(id, _)| *id)
    }

    /// Returns whether the tombstone of an unknown id may have been dropped.
    pub(super) fn may_have_forgotten(&self, id: EventId, now_us: u64) -> bool {
        let is_among = |until: Option<Timestamp>| until.is_some_and(|until| id.created() <= until);
        is_among(self.forgotten.until) || (is_later(id, now_us) && is_among(self.ahead(now_us)))
    }

    /// Returns the watermark of ids whose time was still to come, unless it is too far ahead, as in
    /// [`heal`](Self::heal).
    fn ahead(&self, now_us: u64) -> Option<Timestamp> {
        self.forgotten
            .ahead
            .filter(|until| !is_ahead(*until, now_us))
    }

    /// Returns whether ids were forgotten whose time is still to come.
    pub(super) fn has_ahead(&self, now_us: u64) -> bool {
        let ahead = self.ahead(now_us);
        ahead.is_some_and(|until| until.as_millis() > now_us / 1_000)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.order.len() != self.known.len() {
            return Err("the two indexes of the tombstones differ in length".into());
        }
        match self
            .order
            .iter()
            .find(|(id, _)| !self.known.contains_key(id))
        {
            Some((id, _)) => Err(format!("{id} is only in the order of the tombstones")),
            None => Ok(()),
        }
    }
}

/// Returns whether the time of an id is still to come.
fn is_later(id: EventId, now_us: u64) -> bool {
    id.created().as_millis() > now_us / 1_000
}

/// Returns whether an id created then is too far ahead of the store's time.
pub(super) fn is_ahead(created: Timestamp, now_us: u64) -> bool {
    let ahead_ms = created.as_millis().saturating_sub(now_us / 1_000);
    u128::from(ahead_ms) > ID_AHEAD_MAX.as_millis()
}
