//! The pace of an operation on many events: at most so many in a second, a few at a time.

use std::time::{Duration, Instant};

/// The most batches in a second, unless batches of one event are too few.
const STRIDES: f64 = 10.0;
/// The longest wait between two batches.
const WAIT_MAX: Duration = Duration::from_secs(100_000);

/// A pace. In any span of time batches begin of no more events than its rate allows and one batch,
/// and however long their calls take, the rate is reached while they are shorter than a batch's share.
/// Without a rate, nothing waits.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use duly_options::pace::BulkPace;
///
/// let now = Instant::now();
/// let mut pace = BulkPace::new(Some(50.0), now);
/// assert_eq!(pace.stride(1_000), 5);
/// pace.begin(now);
/// pace.count(5); // now or later, when it is known how many were changed
/// assert_eq!(pace.next(), now + Duration::from_millis(100));
/// ```
#[derive(Clone, Debug)]
pub struct BulkPace {
    rate: Option<f64>,
    /// When the last batch began, and what was counted since.
    begun: Instant,
    span: Duration,
}

impl BulkPace {
    /// The first batch may begin `now`; the rate is in events a second, and above 0.
    #[must_use]
    pub fn new(rate: Option<f64>, now: Instant) -> Self {
        Self {
            rate,
            begun: now,
            span: Duration::ZERO,
        }
    }

    /// Returns the size of a batch, which is 1 at least and `max` at most.
    #[must_use]
    pub fn stride(&self, max: usize) -> usize {
        let stride = self.rate.map_or(max, |rate| (rate / STRIDES) as usize);
        stride.clamp(1, max)
    }

    /// Returns when the next batch may begin.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.begun + self.span
    }

    /// Begins a batch. Unused time is not made up for.
    pub fn begin(&mut self, now: Instant) {
        self.begun = now.max(self.next());
        self.span = Duration::ZERO;
    }

    /// Accounts for events of the batch that began last.
    #[allow(clippy::cast_precision_loss)] // no batch is that large
    pub fn count(&mut self, many: u64) {
        if let Some(rate) = self.rate {
            let span = Duration::try_from_secs_f64(many as f64 / rate).unwrap_or(WAIT_MAX);
            self.span = self.span.saturating_add(span).min(WAIT_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// Runs batches whose calls take so long each; returns when each batch began, and how many it was.
    fn batches(rate: f64, calls: &[Duration], counts_first: bool) -> Vec<(Duration, u64)> {
        let begin = start();
        let mut pace = BulkPace::new(Some(rate), begin);
        let (stride, mut now, mut batches) = (pace.stride(50) as u64, begin, Vec::new());
        // Pages of two queues, and batches that are not full.
        for (at, call) in calls.iter().enumerate() {
            let many = [1, stride, 1, stride, 2, 3, 0, stride][at % 8].min(stride);
            now = now.max(pace.next());
            pace.begin(now);
            batches.push((now - begin, many));
            if counts_first {
                pace.count(many);
            }
            now += *call;
            if !counts_first {
                pace.count(many);
            }
        }
        batches.push((pace.next() - begin, 0));
        batches
    }

    #[test]
    fn a_bulk_operation_has_its_rate_whatever_a_call_takes() {
        for rate in [0.5, 10.0, 45.0, 1_000.0] {
            let share = Duration::from_secs_f64(1.0 / rate);
            for call in [0.0, 0.1, 0.5, 0.9] {
                for counts_first in [true, false] {
                    let calls = vec![share.mul_f64(call); 32];
                    let batches = batches(rate, &calls, counts_first);
                    let events: u64 = batches.iter().map(|(_, many)| many).sum();
                    let lasted = batches[calls.len()].0.as_secs_f64();
                    let nothing = call * 4.0 / rate; // batches of nothing wait for their call alone
                    let wanted = events as f64 / rate;
                    assert!(lasted >= wanted - 0.001, "{rate}, {call}: {lasted}");
                    assert!(
                        lasted <= wanted + nothing + 0.001,
                        "{rate}, {call}: {lasted}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_bulk_operation_is_never_faster_than_its_rate() {
        for rate in [0.5, 10.0, 45.0, 1_000.0] {
            let calls = [3, 0, 400, 7, 90, 110, 1, 2_500].map(Duration::from_millis);
            let batches = batches(rate, &[calls, calls].concat(), false);
            for (at, (from, _)) in batches.iter().enumerate() {
                let mut sum = 0;
                for (until, many) in &batches[at..] {
                    let span = (*until - *from).as_secs_f64();
                    sum += many;
                    let allowed = span * rate + 50.0_f64.min(rate / 10.0).max(1.0) + 0.01;
                    assert!(sum as f64 <= allowed, "{rate}: {sum} in {span}");
                }
            }
        }
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let now = start();
        let mut pace = BulkPace::new(None, now);
        assert_eq!(pace.stride(1_000), 1_000);
        pace.begin(now);
        pace.count(u64::MAX);
        assert_eq!(pace.next(), now);
        let mut slow = BulkPace::new(Some(0.001), now);
        assert_eq!(slow.stride(1_000), 1);
        slow.count(u64::MAX);
        assert_eq!(slow.next(), now + WAIT_MAX);
    }
}
