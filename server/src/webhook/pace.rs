//! The pace of a target: a token bucket of this server.

use std::time::Duration;

use tokio::time::Instant;

/// How much of a second's requests may begin at once.
const BURST: f64 = 0.05;

/// A token bucket.
#[derive(Debug)]
pub(super) struct Pace {
    /// Requests in a second.
    rate: f64,
    burst: f64,
    tokens: f64,
    counted: Instant,
}

impl Pace {
    pub(super) fn new(rate: f64, now: Instant) -> Self {
        let burst = (rate * BURST).max(1.0);
        Self {
            rate,
            burst,
            tokens: burst,
            counted: now,
        }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns how many requests may begin now, or how long to wait for the first.
    pub(super) fn ready(&mut self, now: Instant) -> Result<usize, Duration> {
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        self.counted = now;
        if self.tokens >= 1.0 {
            Ok(self.tokens as usize)
        } else {
            Err(Duration::from_secs_f64((1.0 - self.tokens) / self.rate)
                .max(Duration::from_millis(1)))
        }
    }

    /// Takes the places of requests that begin.
    #[allow(clippy::cast_precision_loss)] // a burst at most
    pub(super) fn take(&mut self, requests: usize) {
        self.tokens -= requests as f64;
    }
}

/// Returns the calls and the window of a rate that servers share: whole calls, and at least a
/// second.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the rate has bounds
pub(super) fn window(rate: f64) -> (u64, Duration) {
    let calls = rate.ceil().max(1.0);
    (calls as u64, Duration::from_secs_f64(calls / rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_webhook_pace_lets_no_more_begin_than_its_rate() {
        let mut now = Instant::now();
        let began = now;
        let mut pace = Pace::new(100.0, now);
        let mut begun = 0;
        while now - began < Duration::from_secs(10) {
            match pace.ready(now) {
                Ok(many) => {
                    pace.take(many);
                    begun += many;
                }
                Err(wait) => now += wait,
            }
        }
        assert!((999..=1_006).contains(&begun), "{begun}");
    }

    #[tokio::test]
    async fn a_slow_webhook_pace_waits_for_whole_requests() {
        let now = Instant::now();
        let mut pace = Pace::new(0.1, now);
        assert_eq!(pace.ready(now), Ok(1));
        pace.take(1);
        assert_eq!(pace.ready(now), Err(Duration::from_secs(10)));
        assert_eq!(window(0.1), (1, Duration::from_secs(10)));
        assert_eq!(window(50.0), (50, Duration::from_secs(1)));
        assert_eq!(window(1.6).0, 2);
    }
}
