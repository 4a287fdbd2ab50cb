//! One queue that callers pull from.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::pull::RequesterId;
use crate::core::rate::Rate;
use crate::event::QueueName;
use crate::time::Mono;

/// The callers and the settings of a queue.
#[derive(Debug)]
pub(super) struct PulledQueue {
    pub(super) name: QueueName,
    pub(super) buckets: Vec<usize>,
    /// The callers that may get more events, in the order of arrival.
    pub(super) requesters: BTreeSet<RequesterId>,
    /// The callers that get a reply once nothing more is ready.
    pub(super) unresolved: BTreeSet<RequesterId>,
    /// The queues that callers of this one want events of right after it, each with how many callers.
    pub(super) followers: BTreeMap<usize, usize>,
    is_paused: bool,
    per_second: Option<f64>,
    rate: Option<Rate>,
    /// Events of fetches in flight, which count for the rate.
    pub(super) requested: usize,
    /// The bucket to fetch from first; it changes, so that none is always last.
    pub(super) turn: usize,
    /// How many callers have it among their queues.
    pub(super) users: usize,
    /// When the last one came or left.
    pub(super) used_at: Mono,
    /// Its entry among the timers.
    pub(super) timer: Mono,
}

impl PulledQueue {
    pub(super) fn new(name: QueueName, now: Mono) -> Self {
        Self {
            name,
            buckets: Vec::new(),
            requesters: BTreeSet::new(),
            unresolved: BTreeSet::new(),
            followers: BTreeMap::new(),
            is_paused: false,
            per_second: None,
            rate: None,
            requested: 0,
            turn: 0,
            users: 0,
            used_at: now,
            timer: Mono::MAX,
        }
    }

    /// Applies runtime settings.
    pub(super) fn set(&mut self, now: Mono, is_paused: bool, rate: Option<f64>) {
        self.is_paused = is_paused;
        if self.per_second == rate {
            return;
        }
        self.per_second = rate;
        match (&mut self.rate, rate) {
            (Some(paced), Some(rate)) => paced.change(now, rate, 1),
            (paced, Some(rate)) => *paced = Some(Rate::new(rate, 1)),
            (paced, None) => *paced = None,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns how many events may be leased now.
    pub(super) fn allows(&self, now: Mono) -> usize {
        match &self.rate {
            _ if self.is_paused => 0,
            None => usize::MAX,
            Some(rate) => rate.allows(now).saturating_sub(self.requested),
        }
    }

    /// `many` events were leased.
    pub(super) fn took(&mut self, now: Mono, many: usize) {
        if let Some(rate) = self.rate.as_mut().filter(|_| many > 0) {
            rate.took(now, many);
        }
    }

    /// Returns whether its rate lets no event be leased before later.
    pub(super) fn is_held(&self, now: Mono) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.wakes() > now)
    }

    /// Returns when more may be leased; `None` if that does not depend on time.
    pub(super) fn wakes(&self) -> Option<Mono> {
        let rate = self.rate.as_ref().filter(|_| !self.is_paused)?;
        Some(rate.wakes())
    }
}
