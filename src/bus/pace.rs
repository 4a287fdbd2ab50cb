//! The wait of an operation on many events for its pace.

use duly_options::pace::BulkPace;
use tokio::time::{Instant, sleep_until};

use crate::core::op::BATCH_MAX;

/// The pace of many changes: without a rate, as fast as the store goes.
#[derive(Debug)]
pub struct BulkPacer(BulkPace);

impl BulkPacer {
    /// The pace of so many in a second.
    #[must_use]
    pub fn new(rate: Option<f64>) -> Self {
        Self(BulkPace::new(rate, Instant::now().into_std()))
    }

    /// Returns the size of a batch.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.0.stride(BATCH_MAX)
    }

    /// Waits until the next batch may begin, and begins it.
    pub async fn wait(&mut self) {
        let next = self.0.next().into();
        if next > Instant::now() {
            sleep_until(next).await;
        }
        self.0.begin(Instant::now().into_std());
    }

    /// Accounts for events of the batch that began last.
    pub fn count(&mut self, many: u64) {
        self.0.count(many);
    }
}
