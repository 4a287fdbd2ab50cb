//! Per-minute statistics of a queue: outcomes and lateness.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::QueueName;
use crate::record::{Outcome, Record};
use crate::time::Timestamp;

/// The statistics of the records of one queue that finished within one minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinuteStats {
    /// The start of the minute.
    pub start: Timestamp,
    /// The queue.
    pub queue: QueueName,
    /// The number of records by outcome, without zeros.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// The lateness of handler starts.
    pub lateness: Lateness,
}

/// A query for per-minute statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MinuteQuery {
    /// Only this queue.
    pub queue: Option<QueueName>,
    /// Only minutes that begin then or later.
    pub since: Option<Timestamp>,
    /// Only minutes that begin before then.
    pub until: Option<Timestamp>,
    /// Only what comes after this minute and queue: the last of the previous page.
    pub after: Option<(Timestamp, QueueName)>,
    /// The page size, from 1 to 10,000. Default: 1,440, a day of one queue.
    pub limit: Option<u32>,
}

impl MinuteQuery {
    /// The largest page size.
    pub const LIMIT_MAX: u32 = 10_000;

    /// Returns the page size.
    #[must_use]
    pub fn page_len(&self) -> usize {
        self.limit.unwrap_or(1_440).clamp(1, Self::LIMIT_MAX) as usize
    }

    /// Returns whether a minute of a queue matches, and comes after the previous page.
    #[must_use]
    pub fn matches(&self, start: Timestamp, queue: &QueueName) -> bool {
        self.queue.as_ref().is_none_or(|wanted| wanted == queue)
            && self.since.is_none_or(|since| start >= since)
            && self.until.is_none_or(|until| start < until)
            && self
                .after
                .as_ref()
                .is_none_or(|(minute, of)| (start, queue) > (*minute, of))
    }
}

impl MinuteStats {
    /// Creates empty statistics.
    #[must_use]
    pub fn new(start: Timestamp, queue: QueueName) -> Self {
        Self {
            start,
            queue,
            outcomes: BTreeMap::new(),
            lateness: Lateness::default(),
        }
    }

    /// Returns the minute in which a record finished.
    #[must_use]
    pub fn of(record: &Record) -> Timestamp {
        let minute_ms = 60_000;
        let finished_ms = record.stages.finished_us / 1_000;
        Timestamp::from_millis(finished_ms - finished_ms % minute_ms)
    }

    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        *self.outcomes.entry(record.outcome).or_default() += 1;
        if let Some(late) = record.lateness() {
            let slot = Lateness::slot(late);
            self.lateness.add(slot, 1);
        }
    }

    /// The number of records.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.outcomes.values().sum()
    }
}

/// A histogram of durations from due time to handler start. The width of a slot is a sixteenth of
/// its value, so a percentile is off by at most 3.2 %.
///
/// The slots are those of an [HDR histogram](https://hdrhistogram.org) with four significant bits.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use duly::records::Lateness;
///
/// let mut lateness = Lateness::default();
/// for ms in 1..=100 {
///     lateness.add(Lateness::slot(Duration::from_millis(ms)), 1);
/// }
/// let p99 = lateness.percentile(99.0).expect("there are some");
/// assert!((p99.as_secs_f64() / 0.099 - 1.0).abs() < 0.032);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lateness {
    slots: BTreeMap<u16, u64>,
}

/// Microseconds below this have a slot each.
const EXACT: u64 = 32;

impl Lateness {
    /// Returns the slot of a duration.
    #[must_use]
    pub fn slot(late: Duration) -> u16 {
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        if us < EXACT {
            return us as u16;
        }
        let octave = us.ilog2() - EXACT.ilog2();
        let sixteenth = (us >> (octave + 1)) % 16;
        EXACT as u16 + octave as u16 * 16 + sixteenth as u16 // below 32 + 59 * 16
    }

    /// Returns the middle of a slot.
    #[must_use]
    pub fn middle(slot: u16) -> Duration {
        let slot = u64::from(slot);
        if slot < EXACT {
            return Duration::from_micros(slot);
        }
        let (octave, sixteenth) = ((slot - EXACT) / 16, (slot - EXACT) % 16);
        let middle = u128::from((16 + sixteenth) * 2 + 1) << octave.min(60);
        Duration::from_micros(u64::try_from(middle).unwrap_or(u64::MAX))
    }

    /// Adds `many` to a slot.
    pub fn add(&mut self, slot: u16, many: u64) {
        *self.slots.entry(slot).or_default() += many;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (slot, many) in &other.slots {
            self.add(*slot, *many);
        }
    }

    /// Iterates over the non-empty slots and their counts.
    pub fn slots(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.slots.iter().map(|(slot, many)| (*slot, *many))
    }

    /// The total count.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.slots.values().sum()
    }

    /// Returns the duration that `percent` of the entries do not exceed; `None` if empty.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let share = percent.clamp(0.0, 100.0) / 100.0;
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let slot = self.slots().find(|(_, many)| {
            seen += many;
            seen >= rank
        });
        slot.map(|(slot, _)| Self::middle(slot))
    }
}
