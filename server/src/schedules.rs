//! The schedules of a store in the order of their names, and the bounds of one that is set.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::admin::Schedule;
use duly::schedule::{Calendar, ScheduleOptions};
use duly::{Bus, Error, ErrorKind, Result};

/// The most schedules of a page.
pub const PAGE_MAX: usize = 1_000;
/// The largest payload of a schedule, in bytes. It is stored anew whenever the schedule is looked at, so
/// it is much smaller than that of an event.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// The longest window over which occurrences are spread, in milliseconds.
const JITTER_MS_MAX: u64 = 86_400_000;

/// A page of schedules.
#[derive(Debug)]
pub struct SchedulePage {
    /// The schedules, sorted by name.
    pub items: Vec<Schedule>,
    /// The last name of it, if there are more.
    pub next: Option<String>,
}

/// The most schedules of a namespace.
pub const SCHEDULES_MAX: usize = 10_000;

/// Returns the first `limit` schedules that are `seen`, of those with a name after `after`.
/// `namespace`: of that one alone.
///
/// The store has them in another order, so all of the namespace are read; the memory is that of a
/// page. A page ends at a schedule that is seen, so that nothing is learned of others.
///
/// # Errors
///
/// The store's error.
pub async fn page(
    bus: &Bus,
    namespace: Option<&str>,
    seen: impl Fn(&Schedule) -> bool,
    after: Option<&str>,
    limit: usize,
) -> Result<SchedulePage> {
    let limit = limit.clamp(1, PAGE_MAX);
    let mut first: BTreeMap<String, Schedule> = BTreeMap::new();
    let mut place: Option<String> = None;
    loop {
        let (schedules, from) = (bus.schedules(), place.as_deref());
        let page = match namespace {
            Some(namespace) => schedules.page_of(namespace, from, PAGE_MAX).await?,
            None => schedules.page(from, PAGE_MAX).await?,
        };
        for schedule in page.items {
            let is_before = after.is_some_and(|after| *schedule.name <= *after);
            if is_before || !seen(&schedule) {
                continue;
            }
            first.insert(schedule.name.clone(), schedule);
            if first.len() > limit + 1 {
                first.pop_last();
            }
        }
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    let has_more = first.len() > limit;
    let items: Vec<_> = first.into_values().take(limit).collect();
    let last = items.last().map(|last| last.name.clone());
    Ok(SchedulePage {
        items,
        next: last.filter(|_| has_more),
    })
}

/// What a schedule is set with, as texts.
#[derive(Clone, Debug, Default)]
pub struct NewSchedule {
    /// The queue of its occurrences.
    pub queue: String,
    /// A cron expression, or an interval.
    pub when: String,
    /// The payload, as JSON.
    pub payload: Option<String>,
    /// What becomes of missed occurrences.
    pub missed: Option<String>,
    /// What becomes of those that would overlap.
    pub overlap: Option<String>,
    /// The window over which occurrences are spread, in milliseconds.
    pub jitter_ms: u64,
    /// The days on which it rests.
    pub exclude: Vec<String>,
    /// The only days on which it runs.
    pub only: Option<Vec<String>>,
}

impl NewSchedule {
    /// Returns the options.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a text that does not mean what it should,
    /// and for a payload that is too large.
    pub fn options(self) -> Result<ScheduleOptions> {
        let mut options = ScheduleOptions::new(&self.queue, &self.when)?;
        if let Some(payload) = self.payload {
            if payload.len() > PAYLOAD_BYTES_MAX {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "the payload of the schedule has {} bytes; it must have at most \
                     {PAYLOAD_BYTES_MAX}, so store what is larger elsewhere, and name it here",
                        payload.len()
                    ),
                ));
            }
            options = options.payload_json(payload)?;
        }
        if let Some(missed) = self.missed {
            options = options.missed(missed.parse()?);
        }
        if let Some(overlap) = self.overlap {
            options = options.overlap(overlap.parse()?);
        }
        if self.jitter_ms > JITTER_MS_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the jitter of the schedule is {} ms; it must be at most {JITTER_MS_MAX}, a day",
                    self.jitter_ms
                ),
            ));
        }
        options = options.jitter(Duration::from_millis(self.jitter_ms))?;
        options = options.exclude(&Calendar::new(&self.exclude)?);
        if let Some(only) = self.only {
            options = options.only(&Calendar::new(&only)?);
        }
        Ok(options)
    }
}
