//! Sums over all queues: what ended in each hour.
//!
//! The minutes of many busy queues are too many for one visit. Each reads some of them, the newest
//! first, and leaves their sums to the next one, which so reaches further back.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::records::{Lateness, MinuteStats, Outcome, Records};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::questions::{minute_of, read_minutes};

/// The minutes of an hour.
pub(crate) const HOUR: u64 = 60;
/// The most statistics of minutes that one visit reads.
///
/// A queue in which something ends in every minute has 527,040 in a year.
const READ_MAX: usize = 600_000;
/// For how long a sum is kept: records may come late, from a process that could not write them.
const LASTS: Duration = Duration::from_secs(3_600);

/// What ended in a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) lateness: Lateness,
    pub(crate) done: u64,
    pub(crate) failed: u64,
}

impl Step {
    fn of(minute: &MinuteStats) -> Self {
        let of = |outcome| minute.outcomes.get(&outcome).copied().unwrap_or(0);
        Self {
            lateness: minute.lateness.clone(),
            done: of(Outcome::Acked) + of(Outcome::Discarded) + of(Outcome::Snoozed),
            failed: of(Outcome::Retried) + of(Outcome::Buried) + of(Outcome::LeaseLost),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.lateness.merge(&other.lateness);
        self.done += other.done;
        self.failed += other.failed;
    }

    pub(crate) fn late(&self, percent: f64) -> f64 {
        let late = self.lateness.percentile(percent);
        late.map_or(0.0, |late| late.as_secs_f64())
    }
}

/// Reads the minutes of a span, the newest first, and returns the first one that was read.
pub(crate) async fn read_sums(
    records: &Records,
    span: (u64, u64),
    mut add: impl FnMut(u64, &Step),
) -> duly::Result<u64> {
    let take = |minutes: Vec<MinuteStats>| {
        for minute in &minutes {
            add(minute_of(minute.start), &Step::of(minute));
        }
    };
    read_minutes(records, span, READ_MAX, take).await
}

/// The sums of hours that are over, each with when it was read.
#[derive(Debug, Default)]
pub(crate) struct HourSums(Mutex<BTreeMap<u64, (Instant, Step)>>);

impl HourSums {
    /// Adds up the hours of a span of minutes, the newest first, and returns the first minute that was
    /// added.
    ///
    /// One visitor at a time reads; the next one goes on.
    pub(crate) async fn read(
        &self,
        records: &Records,
        (begin, end): (u64, u64),
        now: u64,
        mut add: impl FnMut(u64, &Step),
    ) -> duly::Result<u64> {
        let mut known = self.0.lock().await;
        known.retain(|_, (read, _)| read.elapsed() < LASTS);
        let (mut until, mut left) = (end / HOUR, READ_MAX);
        while until > begin / HOUR {
            if let Some((_, sum)) = known.get(&(until - 1)) {
                until -= 1;
                add(until * HOUR, sum);
                continue;
            }
            if left == 0 {
                break;
            }
            let before = known.range(..until).next_back();
            let since = before.map_or(0, |(hour, _)| hour + 1).max(begin / HOUR);
            let mut sums: BTreeMap<u64, Step> = BTreeMap::new();
            let max = left;
            let take = |minutes: Vec<MinuteStats>| {
                left = left.saturating_sub(minutes.len());
                for minute in &minutes {
                    let sum = sums.entry(minute_of(minute.start) / HOUR).or_default();
                    sum.merge(&Step::of(minute));
                }
            };
            let span = (since * HOUR, until * HOUR);
            let first = read_minutes(records, span, max, take).await?;
            // An hour of which a part was read is read again.
            let first = first.div_ceil(HOUR);
            for hour in first..until {
                let sum = sums.remove(&hour).unwrap_or_default();
                add(hour * HOUR, &sum);
                if (hour + 2) * HOUR <= now {
                    known.insert(hour, (Instant::now(), sum));
                }
            }
            until = first;
        }
        Ok(until * HOUR)
    }
}
