//! Delays that double from one failure to the next.

use std::time::Duration;

/// A first delay, which doubles with each failure in a row up to a longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// Creates delays from `first` to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Returns the delay after so many failures in a row.
    #[must_use]
    pub fn after(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let delay = self.first.saturating_mul(2_u32.pow(doublings));
        delay.min(self.longest)
    }

    /// Returns between half of the delay and all of it, so that many who failed at the same time do
    /// not try again at the same time.
    #[must_use]
    pub fn jittered(self, failures: u32) -> Duration {
        self.after(failures).mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_doubles_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(70));
        let delays = [0, 1, 2, 3, 4, u32::MAX].map(|failures| backoff.after(failures).as_millis());
        assert_eq!(delays, [20, 20, 40, 70, 70, 70]);
        for failures in 0..100 {
            let (whole, jittered) = (backoff.after(failures), backoff.jittered(failures));
            assert!(jittered >= whole / 2 && jittered <= whole, "{jittered:?}");
        }
    }
}
