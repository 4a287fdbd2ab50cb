//! A manual clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::time::{Clock, Mono, Timestamp};

/// A clock that moves only by method calls.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use duly::testing::ManualClock;
/// use duly::time::{Clock, Timestamp};
///
/// let clock = ManualClock::at(Timestamp::from_millis(1_000));
/// clock.advance(Duration::from_micros(1_500));
/// assert_eq!((clock.wall_us(), clock.mono().as_nanos()), (1_001_500, 1_500_000));
/// clock.set_wall(Timestamp::from_millis(500)); // somebody set it back
/// assert_eq!((clock.wall_us(), clock.mono().as_nanos()), (500_000, 1_500_000));
/// ```
#[derive(Debug)]
pub struct ManualClock {
    wall_us: AtomicU64,
    mono_ns: AtomicU64,
}

impl ManualClock {
    /// Creates a clock at midnight of 1 January 2026, UTC.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Timestamp::from_millis(1_767_225_600_000))
    }

    /// Creates a clock at `wall`.
    #[must_use]
    pub fn at(wall: Timestamp) -> Self {
        Self {
            wall_us: AtomicU64::new(wall.as_micros()),
            mono_ns: AtomicU64::new(0),
        }
    }

    /// Advances wall time and monotonic time by `span`; fractions of a microsecond of the wall time
    /// are lost.
    pub fn advance(&self, span: Duration) {
        let us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.wall_us.fetch_add(us, Ordering::SeqCst);
        self.mono_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Sets the wall clock, forth or back; monotonic time does not move.
    ///
    /// A store follows it forth when another ten seconds have passed by [`advance`](Self::advance),
    /// and never back.
    pub fn set_wall(&self, wall: Timestamp) {
        self.set_wall_us(wall.as_micros());
    }

    /// Sets the wall clock to so many microseconds since the epoch.
    pub fn set_wall_us(&self, wall_us: u64) {
        self.wall_us.store(wall_us, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn wall_us(&self) -> u64 {
        self.wall_us.load(Ordering::SeqCst)
    }

    fn mono(&self) -> Mono {
        Mono::from_nanos(self.mono_ns.load(Ordering::SeqCst))
    }
}
