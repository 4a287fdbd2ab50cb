//! The clocks of the server: wall-clock time for ids, expiry and headers, and a clock that is moved
//! by requests.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::time::{Clock, Mono, SystemClock, Timestamp};

static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);
/// The monotonic time of a manual clock at its start: zero means *never* to the library.
const MONO_START: Duration = Duration::from_secs(1);

/// Returns the time now.
pub(crate) fn now() -> Timestamp {
    CLOCK.now()
}

/// A clock that shows the time of its creation, and moves only when it is told to.
#[derive(Debug)]
pub(crate) struct ManualClock {
    start: Timestamp,
    /// Both times are made of it, so that they cannot differ.
    moved_us: AtomicU64,
}

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self {
            start: now(),
            moved_us: AtomicU64::new(0),
        }
    }

    /// Moves it forth, by whole microseconds.
    pub(crate) fn advance(&self, span: Duration) {
        let span_us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.moved_us.fetch_add(span_us, Ordering::SeqCst);
    }

    fn moved(&self) -> Duration {
        Duration::from_micros(self.moved_us.load(Ordering::SeqCst))
    }
}

impl Clock for ManualClock {
    fn wall_us(&self) -> u64 {
        (self.start + self.moved()).as_micros()
    }

    fn mono(&self) -> Mono {
        Mono::default() + MONO_START + self.moved()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_both_times_by_what_it_is_told() {
        let clock = ManualClock::new();
        let (wall, mono) = (clock.now(), clock.mono());
        assert_eq!((clock.now(), clock.mono()), (wall, mono));
        let span = Duration::from_millis(1_800_000);
        clock.advance(span);
        assert_eq!(clock.now(), wall + span);
        assert_eq!(clock.mono().since(mono), span);
    }
}
