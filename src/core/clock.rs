//! What a node knows of the store's time.

use std::time::Duration;

use crate::time::{Mono, Timestamp};

/// A step back further than this is believed; a smaller one is an answer that took long.
const STEP: u64 = 2_000_000;

/// A lower bound of the store's time: that of an answer, plus what has passed since it *arrived*.
///
/// An event that starts when this says that it is due is never early, however long answers take.
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
        self.base_us + u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX / 2)
    }

    /// Whether `due` has surely been reached.
    pub(crate) fn has_reached(&self, now: Mono, due: Timestamp) -> bool {
        due.as_micros() <= self.now_us(now)
    }

    /// When `due` will surely have been reached.
    pub(crate) fn mono_at(&self, due: Timestamp) -> Mono {
        match due.as_micros().checked_sub(self.base_us) {
            Some(ahead_us) => self.at + Duration::from_micros(ahead_us),
            None => self.at,
        }
    }
}
