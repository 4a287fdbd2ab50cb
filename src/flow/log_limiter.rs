//! A rate limit for log lines: at most one a minute.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::time::Mono;

/// The least time between two lines.
const EVERY: Duration = Duration::from_secs(60);

/// Allows a line at most once a minute; the first one at once.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    /// When the next line is allowed, in nanoseconds.
    next: AtomicU64,
}

impl LogLimiter {
    /// Returns whether a line is allowed at `now`.
    pub(crate) fn allows(&self, now: Mono) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let after = (now + EVERY).as_nanos();
        now.as_nanos() >= next
            && self
                .next
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_allowed_at_once_and_then_once_a_minute() {
        let (seldom, start) = (LogLimiter::default(), Mono::from_nanos(1));
        let allowed: Vec<_> = (0..200)
            .filter(|s| seldom.allows(start + Duration::from_secs(*s)))
            .collect();
        assert_eq!(allowed, [0, 60, 120, 180]);
    }
}
