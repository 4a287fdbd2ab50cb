//! The schedules of a store in the order of their names, and the bounds of one that is set.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::__server::schedules::{is_whole, page_with};
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

/// The largest payload that is read with a list; there may be thousands of schedules before a page.
const LISTED_PAYLOAD_MAX: usize = 1 << 10;
/// After how many bytes of payloads a page ends.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// A page of schedules.
#[derive(Debug)]
pub struct SchedulePage {
    /// The schedules, sorted by name.
    pub items: Vec<Schedule>,
    /// The name with which it ended, if there are more.
    pub next: Option<String>,
}

/// The most schedules of a namespace.
pub const SCHEDULES_MAX: usize = 10_000;

/// Returns the first `limit` schedules that are `seen`, of those with a name after `after`.
/// `namespace`: of that one alone.
///
/// The store has them in another order, so all of the namespace are read, without their larger
/// payloads; the memory is that of a page, which ends after 16 MiB of payloads. It ends at a schedule
/// that is seen, so that nothing is learned of others.
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
    let schedules = bus.schedules();
    loop {
        let from = (place.as_deref(), PAGE_MAX);
        let page = page_with(&schedules, LISTED_PAYLOAD_MAX, namespace, from).await?;
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
    let (mut items, mut bytes, mut last) = (Vec::new(), 0, None);
    let mut listed = first.into_values();
    for schedule in listed.by_ref().take(limit) {
        last = Some(schedule.name.clone());
        let schedule = if is_whole(&schedule) {
            Some(schedule)
        } else {
            // It may have been changed, or removed, since it was listed.
            schedules.get(&schedule.name).await?.filter(&seen)
        };
        bytes += schedule.as_ref().map_or(0, payload_len);
        items.extend(schedule);
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
    }
    let has_more = listed.next().is_some();
    Ok(SchedulePage {
        items,
        next: last.filter(|_| has_more),
    })
}

fn payload_len(schedule: &Schedule) -> usize {
    schedule.options.payload_text().map_or(0, str::len)
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
