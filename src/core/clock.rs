//! An estimate of the store's clock.

use std::time::Duration;

use crate::time::{Mono, Timestamp};

/// Parts in a million.
const MILLION: u64 = 1_000_000;

/// A lower bound of the store's time: that of the latest reply plus the time that has certainly
/// passed since it *arrived*.
///
/// An event that starts once this clock has reached its due time is never early, however slow or
/// old the replies are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreClock {
    base_us: u64,
    at: Mono,
    /// By how much this node's clock may run faster than the store's, in parts per million.
    drift_ppm: u64,
}

impl StoreClock {
    pub(crate) fn new(drift_ppm: u32) -> Self {
        Self {
            drift_ppm: u64::from(drift_ppm).min(MILLION / 2),
            ..Self::default()
        }
    }

    /// Updates the bound from a reply: sent at `sent`, stamped `answer_us` by the store, arrived
    /// `now`.
    ///
    /// A stamp below what was known at `sent` means that the store's clock was set back, and is
    /// accepted. A step back shorter than the request's way to the store goes unnoticed, and an
    /// event may start that much early.
    pub(crate) fn learn(&mut self, sent: Mono, now: Mono, answer_us: u64) {
        let was_set_back = sent >= self.at && answer_us < self.now_us(sent);
        if was_set_back || answer_us > self.now_us(now) {
            (self.base_us, self.at) = (answer_us, now);
        }
    }

    /// Returns the least possible store time.
    pub(crate) fn now_us(&self, now: Mono) -> u64 {
        let passed_us = u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX / 2);
        let surely = u128::from(passed_us) * u128::from(MILLION - self.drift_ppm);
        self.base_us + u64::try_from(surely / u128::from(MILLION)).unwrap_or(passed_us)
    }

    /// Returns whether `due` has certainly been reached.
    pub(crate) fn has_reached(&self, now: Mono, due: Timestamp) -> bool {
        due.as_micros() <= self.now_us(now)
    }

    /// Returns when `due` will certainly have been reached.
    pub(crate) fn mono_at(&self, due: Timestamp) -> Mono {
        match due.as_micros().checked_sub(self.base_us) {
            Some(ahead_us) => {
                // The shortest span that is `ahead_us` after the drift is taken off.
                let passed_us = (u128::from(ahead_us) * u128::from(MILLION))
                    .div_ceil(u128::from(MILLION - self.drift_ppm));
                self.at + Duration::from_micros(u64::try_from(passed_us).unwrap_or(u64::MAX))
            }
            None => self.at,
        }
    }
}
