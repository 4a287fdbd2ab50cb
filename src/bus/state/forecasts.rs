//! The pace of forecasts.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// The time budget for one step of a bucket, of which it takes one or two hundredths.
const EACH: Duration = Duration::from_micros(200);
/// A bucket is counted at once if earlier ones are no further ahead of their budget than this.
const AHEAD: Duration = Duration::from_secs(1);

/// A pacer for all forecasts of a bus together.
#[derive(Debug, Default)]
pub(in crate::bus) struct ForecastPacer {
    /// Until when the budget is used up.
    taken: Mutex<Option<Instant>>,
}

impl ForecastPacer {
    /// Waits until so many steps of a bucket may be counted, first come first served.
    pub(in crate::bus) async fn wait_for(&self, steps: usize) {
        let mut taken = self.taken.lock().await;
        let now = Instant::now();
        let from = taken.map_or(now, |until| until.max(now));
        tokio::time::sleep(from.duration_since(now).saturating_sub(AHEAD)).await;
        *taken = Some(from + EACH * u32::try_from(steps).unwrap_or(u32::MAX));
    }
}
