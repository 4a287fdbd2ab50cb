//! The pace at which many events are changed.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::core::op::BATCH_MAX;

/// So many times in a second something is done, at most.
const STRIDES: f64 = 10.0;

/// The pace of many changes: without a rate, as fast as the store goes.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<f64>,
    /// When the next ones may be taken.
    next: Instant,
}

impl Pace {
    pub(super) fn new(rate: Option<f64>) -> Self {
        Self {
            rate,
            next: Instant::now(),
        }
    }

    /// How many may be taken at a time.
    pub(super) fn stride(&self) -> usize {
        let stride = self.rate.map_or(BATCH_MAX as f64, |rate| rate / STRIDES);
        (stride as usize).clamp(1, BATCH_MAX)
    }

    /// Waits until the next ones may be taken.
    pub(super) async fn wait(&self) {
        if self.rate.is_some() {
            sleep_until(self.next).await;
        }
    }

    /// So many are taken now. Time that was not used is not made up for.
    pub(super) fn took(&mut self, many: usize) {
        if let Some(rate) = self.rate {
            let span = Duration::try_from_secs_f64(many as f64 / rate).unwrap_or_default();
            self.next = self.next.max(Instant::now()) + span;
        }
    }
}
