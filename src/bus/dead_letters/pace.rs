//! A pacer: limits how many dead letters are changed at a time, and when.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::core::op::BATCH_MAX;

/// The most batches per second.
const STRIDES: f64 = 10.0;

/// The pace of a bulk operation; without a rate, as fast as the store goes.
#[derive(Debug)]
pub(in crate::bus) struct Pace {
    rate: Option<f64>,
    /// When the next batch may begin.
    next: Instant,
}

impl Pace {
    pub(in crate::bus) fn new(rate: Option<f64>) -> Self {
        Self {
            rate,
            next: Instant::now(),
        }
    }

    /// Returns the size of a batch.
    pub(in crate::bus) fn stride(&self) -> usize {
        let stride = self.rate.map_or(BATCH_MAX as f64, |rate| rate / STRIDES);
        (stride as usize).clamp(1, BATCH_MAX)
    }

    /// Waits until the next batch may begin.
    pub(in crate::bus) async fn wait(&self) {
        if self.rate.is_some() {
            sleep_until(self.next).await;
        }
    }

    /// Counts a batch. Unused time is not made up for.
    pub(in crate::bus) fn took(&mut self, many: usize) {
        if let Some(rate) = self.rate {
            let span = Duration::try_from_secs_f64(many as f64 / rate).unwrap_or_default();
            self.next = self.next.max(Instant::now()) + span;
        }
    }
}
