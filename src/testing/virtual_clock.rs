//! A clock that follows the runtime's time, which tests pause.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::{Clock, Mono, Timestamp};

/// A clock that moves with Tokio's timers, so that pausing one pauses both.
///
/// Read it inside the runtime with paused time, where handlers run; elsewhere it shows how much
/// real time has passed.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use duly::testing::VirtualClock;
/// use duly::time::Clock;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let clock = VirtualClock::new();
/// let before = clock.now();
/// tokio::time::sleep(Duration::from_secs(30 * 86_400)).await; // no time at all
/// assert_eq!(clock.now(), before + Duration::from_secs(30 * 86_400));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct VirtualClock {
    start: Timestamp,
    started: Instant,
}

impl VirtualClock {
    /// Creates a clock that shows midnight of 1 January 2026, UTC, now.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Timestamp::from_millis(1_767_225_600_000))
    }

    /// Creates a clock that shows `start` now.
    #[must_use]
    pub fn at(start: Timestamp) -> Self {
        Self {
            start,
            started: Instant::now(),
        }
    }

    /// Returns the time of its creation.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// Returns how long ago it was created.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn wall_us(&self) -> u64 {
        let elapsed_us = u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.start.as_micros().saturating_add(elapsed_us)
    }

    fn mono(&self) -> Mono {
        // Not zero at the start, which the state machines take for *never*.
        Mono::from_nanos(1_000_000_000) + self.elapsed()
    }
}
