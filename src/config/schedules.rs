//! Schedules and calendars of settings.

use std::time::Duration;

#[cfg(feature = "schedules")]
use std::collections::BTreeMap;

use crate::config::key::Key;
#[cfg(feature = "schedules")]
use crate::duration;
#[cfg(feature = "schedules")]
use crate::error::{Error, Result};
#[cfg(feature = "schedules")]
use crate::handler::AnnotatedSchedule;
#[cfg(feature = "schedules")]
use crate::schedule::{Calendar, ScheduleOptions};

/// A schedule as settings have it, in `schedules.<name>`; `None` is unset.
///
/// `queue` and `when` are required; the others are those of
/// [`ScheduleOptions`](crate::schedule::ScheduleOptions).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleChoices {
    /// The queue of its occurrences.
    pub queue: Option<String>,
    /// When it recurs: `0 9 * * MON-FRI Europe/Berlin`, `every 15m`.
    pub when: Option<String>,
    /// The payload of its occurrences, as JSON. Default: each has its occurrence.
    pub payload: Option<String>,
    /// What becomes of missed occurrences: `skip`, `once` or `all(24)`. Default: `once`.
    pub missed: Option<String>,
    /// What becomes of one that would overlap the one before: `allow`, `skip` or `wait`. Default:
    /// `allow`.
    pub overlap: Option<String>,
    /// The window over which occurrences are spread. Default: zero.
    pub jitter: Option<Duration>,
    /// The names of the calendars whose days are left out, with spaces between them.
    pub exclude: Option<String>,
    /// The names of the calendars on whose days alone it runs.
    pub only: Option<String>,
}

const CALENDARS: &str = "names of calendars with spaces between them";

/// The keys of each schedule.
pub(super) const SCHEDULE: [Key<ScheduleChoices>; 8] = [
    Key::new("queue", "the name of a queue", |schedule, found| {
        found.name().map(|it| schedule.queue = Some(it))
    }),
    Key::new(
        "when",
        "a text such as `0 9 * * MON-FRI Europe/Berlin` or `every 15m`",
        |schedule, found| found.name().map(|it| schedule.when = Some(it)),
    ),
    Key::new("payload", "a text of JSON", |schedule, found| {
        found.name().map(|it| schedule.payload = Some(it))
    }),
    Key::new(
        "missed",
        "`skip`, `once` or `all(24)`",
        |schedule, found| found.name().map(|it| schedule.missed = Some(it)),
    ),
    Key::new("overlap", "`allow`, `skip` or `wait`", |schedule, found| {
        found.name().map(|it| schedule.overlap = Some(it))
    }),
    Key::new("jitter", "a duration such as `30s`", |schedule, found| {
        found.duration().map(|it| schedule.jitter = Some(it))
    }),
    Key::new("exclude", CALENDARS, |schedule, found| {
        found.name().map(|it| schedule.exclude = Some(it))
    }),
    Key::new("only", CALENDARS, |schedule, found| {
        found.name().map(|it| schedule.only = Some(it))
    }),
];

#[cfg(feature = "schedules")]
impl ScheduleChoices {
    /// What an annotation of the handler of `queue` says.
    pub(crate) fn annotated(queue: &str, schedule: &AnnotatedSchedule) -> Result<Self> {
        let jitter = schedule.jitter.map(duration::parse);
        Ok(Self {
            queue: Some(queue.to_owned()),
            when: Some(schedule.when.to_owned()),
            payload: schedule.payload.map(str::to_owned),
            missed: schedule.missed.map(str::to_owned),
            overlap: schedule.overlap.map(str::to_owned),
            jitter: jitter
                .transpose()
                .map_err(|error| Error::invalid(format!("`jitter`: {error}")))?,
            exclude: schedule.exclude.map(str::to_owned),
            only: schedule.only.map(str::to_owned),
        })
    }

    /// Returns whether it names a calendar.
    pub(crate) fn names_calendar(&self, name: &str) -> bool {
        let names = [&self.exclude, &self.only].into_iter().flatten();
        let mut names = names.flat_map(|names| names.split_whitespace());
        names.any(|named| named == name)
    }

    /// Returns the options that it says, with these calendars.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): what is missing, cannot be parsed, or has
    /// too many dates.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::config::Settings;
    ///
    /// let settings = Settings::from_toml("
    ///     [schedules.daily-report]
    ///     queue = 'report'
    ///     when = '0 9 * * MON-FRI Europe/Berlin'
    ///     exclude = 'holidays'
    ///
    ///     [calendars]
    ///     holidays = '2026-12-25 2026-12-26'
    /// ")?;
    /// let report = settings.schedules["daily-report"].options(&settings.calendars)?;
    /// assert_eq!(report.calendars().0.len(), 2);
    /// # Ok::<(), duly::Error>(())
    /// ```
    pub fn options(&self, calendars: &BTreeMap<String, String>) -> Result<ScheduleOptions> {
        let given = |name: &str, value: &Option<String>| {
            let missing = || Error::invalid(format!("`{name}` is missing; a schedule needs one"));
            value.clone().ok_or_else(missing)
        };
        let queue = given("queue", &self.queue)?;
        let mut options = ScheduleOptions::new(&queue, &given("when", &self.when)?)?;
        if let Some(payload) = &self.payload {
            options = options.payload_json(payload)?;
        }
        if let Some(missed) = &self.missed {
            options = options.missed(missed.parse()?);
        }
        if let Some(overlap) = &self.overlap {
            options = options.overlap(overlap.parse()?);
        }
        if let Some(jitter) = self.jitter {
            options = options.jitter(jitter)?;
        }
        for calendar in named(self.exclude.as_ref(), calendars) {
            options = options.exclude(&calendar?);
        }
        for calendar in named(self.only.as_ref(), calendars) {
            options = options.only(&calendar?);
        }
        options.check()?;
        Ok(options)
    }
}

/// The calendars of a list of names.
#[cfg(feature = "schedules")]
fn named<'a>(
    names: Option<&'a String>,
    calendars: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = Result<Calendar>> + 'a {
    let names = names.into_iter().flat_map(|names| names.split_whitespace());
    names.map(|name| {
        let unknown = || {
            let known: Vec<_> = calendars.keys().map(String::as_str).collect();
            Error::invalid(format!(
                "there is no calendar `{name}`; those of the settings are: {}",
                if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                }
            ))
        };
        let dates = calendars.get(name).ok_or_else(unknown)?;
        let calendar = dates.parse::<Calendar>();
        calendar.map_err(|error| Error::invalid(format!("calendars.{name}: {error}")))
    })
}
