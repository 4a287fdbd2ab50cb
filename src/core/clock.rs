//! What a node knows of the store's time.

use std::time::Duration;

use crate::time::{Mono, Timestamp};

/// Parts in a million.
const MILLION: u64 = 1_000_000;

/// A lower bound of the store's time: that of an answer, plus what has surely passed since it
/// *arrived*.
///
/// An event that starts when this says that it is due is never early, however long answers take
/// and however long ago the last one was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreClock {
    base_us: u64,
    at: Mono,
    /// By how much this node's clock may run faster than the store's, in parts per million.
    drift_ppm: u64,
}

impl StoreClock {
    /// Knows nothing yet.
    pub(crate) fn new(drift_ppm: u32) -> Self {
        Self {
            drift_ppm: u64::from(drift_ppm).min(MILLION / 2),
            ..Self::default()
        }
    }

    /// Learns from an answer to what was sent at `sent`, that was given at `answer_us` and arrived
    /// `now`.
    ///
    /// One that says less than was known when its question was sent shows that the store's clock
    /// was set back, and is believed. A step back by less than a question takes to the store is not
    /// seen, and so much earlier an event may start.
    pub(crate) fn learn(&mut self, sent: Mono, now: Mono, answer_us: u64) {
        let was_set_back = sent >= self.at && answer_us < self.now_us(sent);
        if was_set_back || answer_us > self.now_us(now) {
            (self.base_us, self.at) = (answer_us, now);
        }
    }

    /// The store's time is at least this.
    pub(crate) fn now_us(&self, now: Mono) -> u64 {
        let passed_us = u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX / 2);
        let surely = u128::from(passed_us) * u128::from(MILLION - self.drift_ppm);
        self.base_us + u64::try_from(surely / u128::from(MILLION)).unwrap_or(passed_us)
    }

    /// Whether `due` has surely been reached.
    pub(crate) fn has_reached(&self, now: Mono, due: Timestamp) -> bool {
        due.as_micros() <= self.now_us(now)
    }

    /// When `due` will surely have been reached.
    pub(crate) fn mono_at(&self, due: Timestamp) -> Mono {
        match due.as_micros().checked_sub(self.base_us) {
            Some(ahead_us) => {
                // The least that becomes `ahead_us` when the drift is taken off.
                let passed_us = (u128::from(ahead_us) * u128::from(MILLION))
                    .div_ceil(u128::from(MILLION - self.drift_ppm));
                self.at + Duration::from_micros(u64::try_from(passed_us).unwrap_or(u64::MAX))
            }
            None => self.at,
        }
    }
}
