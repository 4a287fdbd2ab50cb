//! A cron expression in a time zone.
//!
//! `croner` reads it and searches the calendar. What a change of the clock means is decided here
//! for fixed times, since `croner` takes those for fixed that have one minute and one hour alone.

use std::iter;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp as Instant, Zoned};

use crate::error::{Error, Result};
use crate::schedule::zone;
use crate::time::Timestamp;

const RIGHT: &str = "write minute, hour, day, month, weekday and a time zone, such as \
                     `0 9 * * MON-FRI Europe/Berlin`";

/// The longest text.
const TEXT_MAX: usize = 200;

#[derive(Clone, Debug)]
pub(super) struct CronRule {
    cron: Cron,
    zone: TimeZone,
    /// The expression and the zone, as they were written, with single spaces.
    expression: String,
    zone_name: String,
    /// It names times of the clock, and does not follow real time.
    is_fixed: bool,
}

impl CronRule {
    /// # Errors
    ///
    /// What is no expression, a zone that is unknown, an expression that never matches.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let invalid = |why: &str| Error::invalid(format!("schedule `{text}`: {why}; {RIGHT}"));
        if text.len() > TEXT_MAX {
            return Err(Error::invalid(format!(
                "the schedule has {} bytes, at most {TEXT_MAX} are allowed; {RIGHT}",
                text.len()
            )));
        }
        let mut fields: Vec<_> = text.split_whitespace().collect();
        let zone_name = match fields.last() {
            Some(last) if fields.len() > 1 && is_zone(last) => fields.pop().unwrap_or_default(),
            _ => "UTC",
        };
        let expression = fields.join(" ");
        let parser = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Optional)
            .build();
        let cron = parser.parse(&expression).map_err(|error| {
            let why = error.to_string();
            invalid(why.trim_end_matches('.'))
        })?;
        let rule = Self {
            is_fixed: is_fixed(&fields),
            zone: zone::find(zone_name)?,
            zone_name: zone_name.to_owned(),
            expression,
            cron,
        };
        if rule.next_after(Timestamp::EPOCH).is_none() {
            return Err(invalid("there is no such day"));
        }
        Ok(rule)
    }

    /// Returns the first instant after another one.
    pub(super) fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = Instant::from_millisecond(i64::try_from(after.as_millis()).ok()?).ok()?;
        let next = if self.is_fixed {
            self.fixed_after(after)
        } else {
            let after = Zoned::new(after, self.zone.clone());
            let next = self.cron.find_next_occurrence(&after, false).ok();
            next.map(|next| next.timestamp())
        };
        let millis = u64::try_from(next?.as_millisecond()).ok()?;
        Some(Timestamp::from_millis(millis))
    }

    /// Times of the clock are searched without the zone; each of them has one instant, and later
    /// ones none that is earlier.
    fn fixed_after(&self, after: Instant) -> Option<Instant> {
        let clock = self.zone.to_datetime(after);
        let from = clock.with().subsec_nanosecond(0).build().ok()?;
        let first = self.cron.find_next_occurrence(&from, true).ok();
        let next = |time: &DateTime| self.cron.find_next_occurrence(time, false).ok();
        let mut instants = iter::successors(first, next).map_while(|time| self.instant_of(time));
        instants.find(|instant| *instant > after)
    }

    /// The instant at which a clock shows a time: the first one of two, and the end of a gap for what
    /// is in it.
    fn instant_of(&self, time: DateTime) -> Option<Instant> {
        match self.zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset }
            | AmbiguousOffset::Fold { before: offset, .. } => offset.to_timestamp(time).ok(),
            AmbiguousOffset::Gap { after, .. } => {
                let before_the_gap = after.to_timestamp(time).ok()?;
                let change = self.zone.following(before_the_gap).next()?;
                Some(change.timestamp())
            }
        }
    }

    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    pub(super) fn zone_name(&self) -> &str {
        &self.zone_name
    }

    pub(super) fn expression(&self) -> &str {
        &self.expression
    }

    /// The expression in English.
    pub(super) fn describe(&self) -> String {
        let words = self.cron.describe();
        format!("{}, {}", words.trim_end_matches('.'), self.zone_name)
    }
}

/// Whether the last word of an expression is the name of a zone, and no day of the week.
fn is_zone(word: &str) -> bool {
    const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    let begins_with_letter = word.starts_with(|first: char| first.is_ascii_alphabetic());
    let day = word.get(..3).unwrap_or_default().to_uppercase();
    let after_day = word.get(3..4).unwrap_or_default();
    let is_day = DAYS.contains(&day.as_str()) && !after_day.starts_with(char::is_alphabetic);
    begins_with_letter && word != "L" && !is_day
}

/// Whether neither minute nor hour begins with a star. A nickname has one, but for those of a day
/// and more.
fn is_fixed(fields: &[&str]) -> bool {
    match fields {
        [nickname] => !nickname.eq_ignore_ascii_case("@hourly"),
        _ => {
            let minute = usize::from(fields.len() > 5); // seconds come before it
            let time = fields.iter().skip(minute).take(2);
            time.into_iter().all(|field| !field.starts_with('*'))
        }
    }
}
