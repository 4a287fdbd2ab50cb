//! A batching queue of finished attempts on their way to the store.

use std::collections::VecDeque;

use crate::core::op::Settlement;
use crate::core::options::NodeOptions;
use crate::time::Mono;

/// How soon finished attempts are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettlePace {
    /// The node stops.
    AtOnce,
    /// In batches.
    Steady,
    /// Late: due events wait to be started, and starting them comes first.
    StartsFirst,
}

/// The unsettled attempts of one bucket.
///
/// One batch is in flight at a time; what finishes meanwhile makes up the next one. A batch whose
/// reply is lost is resent unchanged: settling is idempotent.
#[derive(Debug, Default)]
pub(crate) struct Settler {
    waiting: VecDeque<Settlement>,
    /// When the oldest of `waiting` arrived.
    since: Mono,
    /// When the last batch was sent.
    last: Mono,
    sent: Vec<Settlement>,
    in_flight: bool,
}

impl Settler {
    pub(crate) fn add(&mut self, now: Mono, settlement: Settlement) {
        if self.waiting.is_empty() {
            self.since = now;
        }
        self.waiting.push_back(settlement);
    }

    /// Returns the number of attempts that are not known to be settled.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.sent.len()
    }

    /// Returns when the next batch has to go.
    pub(crate) fn wakes(&self, options: &NodeOptions, pace: SettlePace) -> Mono {
        if self.in_flight || self.len() == 0 {
            return Mono::MAX;
        }
        let is_full = self.waiting.len() >= options.batch;
        match pace {
            SettlePace::AtOnce => Mono::default(),
            SettlePace::Steady if is_full || !self.sent.is_empty() => Mono::default(),
            SettlePace::Steady => {
                let soon = self.since + options.settle_linger;
                soon.max(self.last + options.settle_apart)
            }
            SettlePace::StartsFirst if self.len() >= options.unsettled_max / 2 => Mono::default(),
            SettlePace::StartsFirst => self.since + options.settle_wait,
        }
    }

    /// Returns the next batch, or the last one again when its reply was lost.
    pub(crate) fn send(&mut self, now: Mono, options: &NodeOptions) -> Vec<Settlement> {
        if self.sent.is_empty() {
            let many = self.waiting.len().min(options.batch);
            self.sent.extend(self.waiting.drain(..many));
            (self.since, self.last) = (now, now);
        }
        self.in_flight = true;
        self.sent.clone()
    }

    /// Handles the reply; returns the settled batch.
    pub(crate) fn settled(&mut self) -> Vec<Settlement> {
        self.in_flight = false;
        std::mem::take(&mut self.sent)
    }

    /// Handles a lost reply: the batch is resent.
    pub(crate) fn handle_failure(&mut self) {
        self.in_flight = false;
    }
}
