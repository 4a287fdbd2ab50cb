//! Sets of dates: holidays on which a schedule rests, or the only days on which it runs.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp as Instant;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, Result, shown};
use crate::time::Timestamp;

/// The most dates of a calendar.
pub const DATES_MAX: usize = 2_000;

/// A calendar: a set of dates, each a day in the time zone of the schedule that uses it.
///
/// # Examples
///
/// ```
/// use duly::schedule::Calendar;
///
/// let holidays: Calendar = "2026-12-25 2026-12-26".parse()?;
/// assert_eq!(holidays.len(), 2);
/// assert!("2026-02-30".parse::<Calendar>().is_err());
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calendar(BTreeSet<Date>);

impl Calendar {
    /// Makes a calendar of dates, each `2026-12-25`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for what is no date, and for more than
    /// 2,000 of them.
    pub fn new<S: AsRef<str>>(dates: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut all = Self::default();
        for text in dates {
            let text = text.as_ref();
            let date = text.parse::<Date>().map_err(|_| {
                Error::invalid(format!(
                    "`{}` is no date of a calendar; write `2026-12-25`",
                    shown(text)
                ))
            })?;
            all.0.insert(date);
            all.check()?;
        }
        Ok(all)
    }

    /// Rejects more dates than there may be, also of several calendars together.
    pub(super) fn check(&self) -> Result<()> {
        if self.len() <= DATES_MAX {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a calendar, or those of a schedule together, has more than {DATES_MAX} dates; leave out \
             those that are past"
        )))
    }

    /// The number of its dates.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it has no dates.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the dates of another calendar.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub(super) fn has(&self, day: Date) -> bool {
        self.0.contains(&day)
    }

    /// Returns the first of its dates that is not before `day`.
    pub(super) fn first_from(&self, day: Date) -> Option<Date> {
        self.0.range(day..).next().copied()
    }
}

/// The day of an instant in a zone; `None` after the year 9999.
pub(super) fn date_of(instant: Timestamp, zone: &TimeZone) -> Option<Date> {
    let millis = i64::try_from(instant.as_millis()).ok()?;
    let instant = Instant::from_millisecond(millis).ok()?;
    Some(zone.to_datetime(instant).date())
}

/// The last millisecond before a day.
pub(super) fn before_day(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    let begin = day.to_zoned(zone.clone()).ok()?.timestamp();
    let millis = u64::try_from(begin.as_millisecond()).ok()?;
    Some(Timestamp::from_millis(millis.saturating_sub(1)))
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, date) in self.0.iter().enumerate() {
            let space = if place > 0 { " " } else { "" };
            write!(f, "{space}{date}")?;
        }
        Ok(())
    }
}

impl FromStr for Calendar {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text.split_whitespace())
    }
}

/// As a list of texts.
impl Serialize for Calendar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Date::to_string))
    }
}

impl<'de> Deserialize<'de> for Calendar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dates = Vec::<String>::deserialize(deserializer)?;
        Self::new(dates).map_err(de::Error::custom)
    }
}
