//! What a node knows of the store's time.

use std::time::Duration;

use crate::time::{Mono, Timestamp};

/// A step back further than this is believed; a smaller one is an answer that took long.
const STEP: u64 = 2_000_000;

/// A node's clock runs faster than the store's by less than one part in so many: quartz is wrong by
/// 1 in 10,000 at most, and a clock that is being set right runs off by 1 in 2,000.
const DRIFT: u64 = 1_000;

/// A lower bound of the store's time: that of an answer, plus what has surely passed since it
/// *arrived*.
///
/// An event that starts when this says that it is due is never early, however long answers take
/// and however long ago the last one was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreClock {
    base_us: u64,
    at: Mono,
}

impl StoreClock {
    /// Learns from an answer that was given at `answer_us` and arrived `now`.
    pub(crate) fn learn(&mut self, now: Mono, answer_us: u64) {
        let known = self.now_us(now);
        if answer_us > known || answer_us + STEP < known {
            *self = Self {
                base_us: answer_us,
                at: now,
            };
        }
    }

    /// The store's time is at least this.
    pub(crate) fn now_us(&self, now: Mono) -> u64 {
        let passed_us = u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX / 2);
        self.base_us + (passed_us - passed_us.div_ceil(DRIFT))
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
                let passed_us = ahead_us.saturating_add(ahead_us / (DRIFT - 1) + 1);
                self.at + Duration::from_micros(passed_us)
            }
            None => self.at,
        }
    }
}
