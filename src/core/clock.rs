//! What a node knows of the store's time.

use std::time::Duration;

use crate::time::{Mono, Timestamp};

/// A step back further than this is believed; a smaller one is an answer that took long.
const STEP: u64 = 2_000_000;

/// Parts of a drift that is given in millionths.
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
    /// How much faster than the store's the node's clock may run, in millionths.
    drift: u64,
}

impl StoreClock {
    /// Knows nothing yet; the node's clock may run this much faster than the store's.
    pub(crate) fn new(drift_ppm: u32) -> Self {
        Self {
            drift: drift_ppm.into(),
            ..Self::default()
        }
    }

    /// Learns from an answer that was given at `answer_us` and arrived `now`.
    pub(crate) fn learn(&mut self, now: Mono, answer_us: u64) {
        let known = self.now_us(now);
        if answer_us > known || answer_us + STEP < known {
            *self = Self {
                base_us: answer_us,
                at: now,
                drift: self.drift,
            };
        }
    }

    /// The store's time is at least this.
    pub(crate) fn now_us(&self, now: Mono) -> u64 {
        let passed_us = u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX / 2);
        let drifted_us = passed_us.saturating_mul(self.drift).div_ceil(MILLION);
        self.base_us + passed_us.saturating_sub(drifted_us)
    }

    /// Whether `due` has surely been reached.
    pub(crate) fn has_reached(&self, now: Mono, due: Timestamp) -> bool {
        due.as_micros() <= self.now_us(now)
    }

    /// When `due` will surely have been reached.
    pub(crate) fn mono_at(&self, due: Timestamp) -> Mono {
        match due.as_micros().checked_sub(self.base_us) {
            Some(ahead_us) => self.at + Duration::from_micros(self.passes(ahead_us)),
            None => self.at,
        }
    }

    /// How much has to pass by the node's clock until `span_us` has surely passed by the store's.
    fn passes(&self, span_us: u64) -> u64 {
        if self.drift == 0 {
            return span_us;
        }
        // The least that becomes `span_us` when the drift is taken off, and one for the rounding.
        let whole = u128::from(span_us) * u128::from(MILLION);
        let passed = whole.div_ceil(u128::from(MILLION - self.drift)) + 1;
        u64::try_from(passed).unwrap_or(u64::MAX)
    }
}
