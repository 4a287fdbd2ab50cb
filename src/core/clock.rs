//! The clock of a store, and the estimate that a node has of it.
//!
//! [`SteadyClock`] is the one rule by which a store's time follows the wall clock of its machine;
//! [`StoreClock`] is what a node knows of the time of its store.

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

/// Differences below this are the time between two readings.
const TOLERANCE_US: i64 = 1_000;
/// A difference above this is a jump; it is logged and reported.
pub(crate) const JUMP_US: i64 = 1_000_000;
/// How long the wall clock must show another time before it is believed: longer than a glitch.
const BELIEVED_AFTER: Duration = Duration::from_secs(10);
/// The store's time makes up for a difference by this part of the time that passes.
const SLEW: i64 = 20;

/// The clock of a store in a process: monotonic time, with an offset that follows the wall clock.
///
/// Delays keep their length, as monotonic time has no jumps. Another time of the wall clock is not
/// believed before it has stood for ten seconds: after a glitch that ends before, no instant is
/// early or late. Then the store's time follows at once if the wall clock is more than a second
/// ahead: it was set right, or the machine was suspended and its monotonic clock with it. It makes
/// up for a smaller difference, and for a wall clock that was set back, by a twentieth of the time
/// that passes, as time never goes back.
///
/// The first reading is believed, so nothing of an earlier process holds a later one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SteadyClock {
    /// The store's time minus monotonic time; `None` before the first reading.
    offset_us: Option<i64>,
    jump: Option<Jump>,
    /// The latest reading.
    at: Mono,
}

/// The wall clock shows another time.
#[derive(Clone, Copy, Debug)]
struct Jump {
    since: Mono,
    /// The smallest difference since then: all of it has stood for so long.
    least_us: i64,
}

/// A reading of a [`SteadyClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SteadyReading {
    /// The store's time.
    pub(crate) now_us: u64,
    /// The store's time minus monotonic time.
    pub(crate) offset_us: i64,
    /// By how much the wall clock is ahead of it.
    pub(crate) ahead_us: i64,
    /// By how much the store's time was set forward with this reading.
    pub(crate) jumped_us: i64,
}

impl SteadyReading {
    /// Returns whether the next reading is the same but for the time that passes.
    pub(crate) fn is_steady(&self) -> bool {
        self.ahead_us.abs() <= TOLERANCE_US
    }
}

impl SteadyClock {
    /// Reads the store's time, given both clocks of the machine.
    pub(crate) fn read(&mut self, now: Mono, wall_us: u64) -> SteadyReading {
        let mono_us = i64::try_from(now.as_nanos() / 1_000).unwrap_or(i64::MAX);
        let wall_us = i64::try_from(wall_us).unwrap_or(i64::MAX);
        let shown_us = wall_us.saturating_sub(mono_us);
        let before_us = *self.offset_us.get_or_insert(shown_us);
        let passed = now.since(self.at);
        self.at = self.at.max(now);
        let (moved_us, is_jump) = self.step(now, passed, shown_us.saturating_sub(before_us));
        let offset_us = before_us.saturating_add(moved_us);
        self.offset_us = Some(offset_us);
        SteadyReading {
            now_us: u64::try_from(mono_us.saturating_add(offset_us)).unwrap_or(0),
            offset_us,
            ahead_us: shown_us.saturating_sub(offset_us),
            jumped_us: if is_jump { moved_us } else { 0 },
        }
    }

    /// Returns by how much the offset moves, and whether that is a jump.
    fn step(&mut self, now: Mono, passed: Duration, ahead_us: i64) -> (i64, bool) {
        if ahead_us.abs() <= TOLERANCE_US {
            self.jump = None;
            return (0, false);
        }
        let jump = match &mut self.jump {
            Some(jump) if jump.least_us.signum() == ahead_us.signum() => jump,
            jump => jump.insert(Jump {
                since: now,
                least_us: ahead_us,
            }),
        };
        if ahead_us.abs() < jump.least_us.abs() {
            jump.least_us = ahead_us;
        }
        let Some(stood) = now.since(jump.since).checked_sub(BELIEVED_AFTER) else {
            return (0, false);
        };
        let least_us = jump.least_us;
        if least_us > JUMP_US {
            self.jump = None;
            return (least_us, true);
        }
        // Of the time that has passed since it is believed.
        let passed_us = i64::try_from(passed.min(stood).as_micros()).unwrap_or(i64::MAX);
        let most_us = passed_us / SLEW;
        let moved_us = least_us.clamp(-most_us, most_us);
        jump.least_us -= moved_us;
        if jump.least_us == 0 {
            self.jump = None;
        }
        (moved_us, false)
    }
}

#[cfg(test)]
mod tests;
