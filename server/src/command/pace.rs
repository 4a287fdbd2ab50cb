//! The pace of an operation on many events: at most so many in a second, a few at a time.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::source::PAGE;

/// How much of the time a paced operation changes at once, in parts of a second.
const STRIDES_A_SECOND: f64 = 10.0;

/// A pace; without a rate it waits for nothing.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<f64>,
    start_at: Instant,
}

impl Pace {
    pub(super) fn new(rate: Option<f64>) -> Self {
        let start_at = Instant::now();
        Self { rate, start_at }
    }

    /// How many are changed at once.
    pub(super) fn stride(&self) -> usize {
        // Bounded by the range of a rate and by a page.
        self.rate.map_or(PAGE, |rate| {
            ((rate / STRIDES_A_SECOND).ceil() as usize).clamp(1, PAGE)
        })
    }

    /// Waits until more may be changed.
    pub(super) async fn wait(&self) {
        sleep_until(self.start_at).await;
    }

    /// Counts what is changed now.
    pub(super) fn count(&mut self, many: u64) {
        if let Some(rate) = self.rate {
            self.start_at = Instant::now() + Duration::from_secs_f64(many as f64 / rate);
        }
    }
}
