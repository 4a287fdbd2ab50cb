//! An estimate of a server's clock: its offset from the process's own, which never steps.
//!
//! Each call on a bucket carries the server's time as it is by that, so that a script knows a step of
//! its server's clock from time that has passed (`lua/bucket.lua`).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::panics;

/// The least time between two lines in the log, in microseconds: a step shows in each bucket.
const LOGGED_EVERY_US: u64 = 10_000_000;

/// An offset that has stood for so long, in microseconds, holds for all buckets of its server: that is
/// how long a script goes on by the offset of its bucket where the server's clock differs.
const STOOD_US: u64 = 10_000_000;

/// There was no reply yet.
const UNKNOWN: i64 = i64::MIN;

/// The offset of a server's clock from that of this process, in microseconds.
#[derive(Debug)]
pub(in crate::store::redis) struct ServerClock(AtomicI64);

impl Default for ServerClock {
    fn default() -> Self {
        Self(AtomicI64::new(UNKNOWN))
    }
}

impl ServerClock {
    /// Returns the offset, if there was a reply.
    pub(in crate::store::redis) fn offset(&self) -> Option<i64> {
        let offset_us = self.0.load(Ordering::Relaxed);
        (offset_us != UNKNOWN).then_some(offset_us)
    }

    /// Moves the offset as little as it must to be `between` these, as a reply proves, so that a slow
    /// one teaches nothing wrong. Returns by how much it moved.
    pub(in crate::store::redis) fn learn(&self, between: (i64, i64)) -> i64 {
        let (least_us, most_us) = (between.0, between.1.max(between.0));
        let before_us = self.offset();
        let offset_us = before_us.unwrap_or(least_us).clamp(least_us, most_us);
        if before_us != Some(offset_us) {
            self.0.store(offset_us, Ordering::Relaxed);
        }
        before_us.map_or(0, |before_us| offset_us.saturating_sub(before_us))
    }
}

/// Returns a server's time minus one of this process.
pub(in crate::store::redis) fn apart(server_us: u64, mono_us: u64) -> i64 {
    let apart_us = i128::from(server_us) - i128::from(mono_us);
    i64::try_from(apart_us).unwrap_or(0)
}

/// Steps that the store's time has followed.
#[derive(Debug, Default)]
pub(in crate::store::redis) struct ClockSteps {
    /// The last one, by the clock of this process.
    last_us: AtomicU64,
    logged_us: AtomicU64,
}

impl ClockSteps {
    /// Notes a step at a time of this process.
    pub(in crate::store::redis) fn note(&self, mono_us: u64) {
        self.last_us.store(mono_us.max(1), Ordering::Relaxed);
    }

    /// Returns whether there was no step for a while.
    pub(in crate::store::redis) fn have_ended(&self, mono_us: u64) -> bool {
        let last_us = self.last_us.load(Ordering::Relaxed);
        last_us == 0 || mono_us.saturating_sub(last_us) >= STOOD_US
    }

    /// Logs a step, unless another was logged a moment ago. `mono_us`: the time of this process.
    pub(in crate::store::redis) fn log(&self, mono_us: u64, stepped_us: i64) {
        let last_us = self.logged_us.load(Ordering::Relaxed);
        if last_us != 0 && mono_us.saturating_sub(last_us) < LOGGED_EVERY_US {
            return;
        }
        self.logged_us.store(mono_us.max(1), Ordering::Relaxed);
        #[allow(clippy::cast_precision_loss)] // seconds to read
        let stepped_s = stepped_us as f64 / 1e6;
        panics::reported(|| {
            tracing::warn!(
                stepped_s,
                "the server's clock was set; the store's time follows"
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::ServerClock;

    #[test]
    fn a_slow_reply_teaches_nothing_wrong() {
        let clock = ServerClock::default();
        assert_eq!(clock.learn((95, 105)), 0);
        assert_eq!(clock.learn((-3_000_000, 200)), 0, "it took three seconds");
        assert_eq!(clock.offset(), Some(95));
        assert_eq!(clock.learn((99, 110)), 4, "the clock drifts");
        assert_eq!(clock.learn((-901, -890)), -989, "it was set back");
    }
}
