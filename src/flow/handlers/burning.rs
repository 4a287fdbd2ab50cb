//! Notices handlers that keep a thread of the runtime busy, which other queues wait for.

use std::time::Duration;

use parking_lot::Mutex;

use crate::flow::log_limiter::LogLimiter;
use crate::time::Mono;

/// The time that is looked at together.
const WINDOW: Duration = Duration::from_secs(10);

/// How much of a window is worth a log line: a tenth of a thread. A thread that its system takes
/// away for a moment looks busy too, but not for so long.
const SHARE_MAX: Duration = Duration::from_secs(1);

/// Adds up how long the handlers of a queue kept threads busy.
#[derive(Debug, Default)]
pub(crate) struct BurnMeter {
    window: Mutex<Window>,
    lines: LogLimiter,
}

#[derive(Debug, Default)]
struct Window {
    since: Mono,
    burned: Duration,
}

impl BurnMeter {
    /// Adds `burned` at `now`. Returns how much it is in this window if that is worth a log line
    /// now.
    pub(crate) fn add(&self, burned: Duration, now: Mono) -> Option<Duration> {
        let mut window = self.window.lock();
        if now.since(window.since) > WINDOW {
            *window = Window {
                since: now,
                burned: Duration::ZERO,
            };
        }
        window.burned += burned;
        let burned = window.burned;
        drop(window);
        (burned >= SHARE_MAX && self.lines.allows(now)).then_some(burned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_tenth_of_a_thread_is_said_once_a_minute() {
        let meter = BurnMeter::default();
        let start = Mono::from_nanos(1) + Duration::from_secs(100);
        let said: Vec<_> = (0..12_000)
            .filter(|at| meter.add(2 * MS, start + *at * 10 * MS).is_some())
            .collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(said[0], 499, "after a second of it");
        assert!(
            (6_499..7_500).contains(&said[1]),
            "a minute later: {said:?}"
        );
    }

    #[test]
    fn what_is_seldom_is_not_said() {
        let meter = BurnMeter::default();
        let start = Mono::from_nanos(1) + Duration::from_secs(100);
        for second in 0..1_000 {
            let now = start + Duration::from_secs(second);
            assert_eq!(meter.add(50 * MS, now), None);
        }
    }
}
