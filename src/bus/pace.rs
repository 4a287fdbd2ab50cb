//! The pace at which many events are changed.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::core::op::BATCH_MAX;

/// The most batches per second.
const STRIDES: f64 = 10.0;

/// The pace of many changes: without a rate, as fast as the store goes.
#[derive(Debug)]
pub(super) struct BulkPacer {
    rate: Option<f64>,
    /// When the next batch may begin.
    next: Instant,
}

impl BulkPacer {
    pub(super) fn new(rate: Option<f64>) -> Self {
        Self {
            rate,
            next: Instant::now(),
        }
    }

    /// Returns the size of a batch.
    pub(super) fn stride(&self) -> usize {
        let stride = self.rate.map_or(BATCH_MAX as f64, |rate| rate / STRIDES);
        (stride as usize).clamp(1, BATCH_MAX)
    }

    /// Waits until the next batch may begin.
    pub(super) async fn wait(&self) {
        if self.rate.is_some() {
            sleep_until(self.next).await;
        }
    }

    /// Accounts for a batch. Unused time is not made up for.
    pub(super) fn took(&mut self, many: usize) {
        if let Some(rate) = self.rate {
            let span = Duration::try_from_secs_f64(many as f64 / rate).unwrap_or_default();
            self.next = self.next.max(Instant::now()) + span;
        }
    }
}
