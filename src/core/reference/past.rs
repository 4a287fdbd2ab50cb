//! The memory of events that are over, so that a late repeat of a push or a settle is known.

use std::collections::{BTreeMap, VecDeque};

use crate::core::reference::entry::Settled;
use crate::core::reference::restore::Finished;
use crate::event::EventId;
use crate::time::Timestamp;

/// The finished events still remembered, at most `max`, and how far the forgetting has come.
#[derive(Clone, Debug)]
pub(super) struct Past {
    known: BTreeMap<EventId, Remembered>,
    /// The same ids, the one that finished first in front.
    order: VecDeque<EventId>,
    max: usize,
    /// The latest creation time among the forgotten ones.
    forgotten: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Remembered {
    pub(super) finished: Finished,
    pub(super) settled: Option<Settled>,
}

impl Past {
    pub(super) fn new(max: usize) -> Self {
        Self {
            known: BTreeMap::new(),
            order: VecDeque::new(),
            max,
            forgotten: None,
        }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
        self.forget_surplus();
    }

    pub(super) fn remember(&mut self, finished: Finished, settled: Option<Settled>) {
        let remembered = Remembered { finished, settled };
        if self.known.insert(finished.id, remembered).is_none() {
            self.order.push_back(finished.id);
        }
    }

    /// Forgets what is too much, the first to finish first.
    ///
    /// An operation does so when it is done, so that a batch which ends some events and repeats
    /// the end of others is answered by what was known before it; a push before each event.
    pub(super) fn forget_surplus(&mut self) {
        while self.order.len() > self.max {
            if let Some(id) = self.order.pop_front() {
                self.known.remove(&id);
                self.forget_until(id.created());
            }
        }
    }

    pub(super) fn forget_until(&mut self, created: Timestamp) {
        self.forgotten = self.forgotten.max(Some(created));
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
        if self.order.len() > self.max {
            return Err("more finished events are remembered than allowed".into());
        }
        match self.order.iter().find(|id| !self.known.contains_key(id)) {
            Some(id) => Err(format!("{id} is in the order of finished events only")),
            None => Ok(()),
        }
    }
}
