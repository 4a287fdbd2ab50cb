//! A recurrence: a cron expression, or an interval.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::duration;
use crate::error::{Error, Result};
use crate::schedule::cron::CronRule;
use crate::schedule::interval::Interval;
use crate::schedule::zone;
use crate::time::Timestamp;

/// When something recurs: at times of the clock in a time zone, or at equal intervals.
///
/// It is written as the [page of the module](crate::schedule) says, and parsed from that text:
/// `0 9 * * MON-FRI Europe/Berlin`, `every 15m`, `every 1h phase 5m`. That of a schedule in the store whose
/// time zone this process does not know has no instants here; [`describe`](Self::describe) says so.
///
/// # Examples
///
/// ```
/// use duly::schedule::Recurrence;
/// use duly::time::Timestamp;
///
/// let hourly: Recurrence = "every 1h phase 5m".parse()?;
/// assert_eq!(hourly.next_after(Timestamp::EPOCH), Some(Timestamp::from_millis(300_000)));
///
/// let error = "61 * * * *".parse::<Recurrence>().unwrap_err();
/// assert!(error.to_string().starts_with("schedule `61 * * * *`: "));
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recurrence(Rule);

#[derive(Clone, Debug)]
enum Rule {
    Cron(Box<CronRule>),
    Interval(Interval),
    Unknown(Arc<Unknown>),
}

/// A stored text that this process cannot parse, as it does not know the time zone; another one has
/// parsed it.
#[derive(Debug)]
struct Unknown {
    text: String,
    why: Error,
}

impl Recurrence {
    /// Recurs at each instant that is a multiple of `period` after the Unix epoch; days begin at
    /// midnight UTC then, and weeks on Thursday.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a period below a second or above 366
    /// days, or of a fraction of a millisecond.
    pub fn every(period: Duration) -> Result<Self> {
        Interval::new(period, Duration::ZERO).map(|interval| Self(Rule::Interval(interval)))
    }

    /// Shifts the instants of an interval by `phase`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a phase that is not shorter than the
    /// interval, and for a cron expression, which says its times itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use duly::schedule::Recurrence;
    ///
    /// let daily = Recurrence::every(Duration::from_secs(86_400))?;
    /// let at_three = daily.with_phase(Duration::from_secs(3 * 3_600))?;
    /// assert_eq!(at_three.to_string(), "every 1d phase 3h");
    /// # Ok::<(), duly::Error>(())
    /// ```
    pub fn with_phase(self, phase: Duration) -> Result<Self> {
        match self.0 {
            Rule::Interval(interval) => {
                Interval::new(interval.period(), phase).map(|it| Self(Rule::Interval(it)))
            }
            Rule::Cron(_) | Rule::Unknown(_) => Err(Error::invalid(format!(
                "a phase of {} is for intervals; `{self}` says its times itself",
                duration::format(phase)
            ))),
        }
    }

    /// Returns the first instant after `after`; `None` if there is none up to the year 5000, as for
    /// an expression with a year that has passed.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::schedule::Recurrence;
    /// use duly::time::Timestamp;
    ///
    /// let daily: Recurrence = "30 2 * * * Europe/Berlin".parse()?;
    /// // In the night to 29 March 2026 there is no 02:30; it is at 03:00, which is 01:00 UTC.
    /// let evening = Timestamp::from_millis(1_774_735_200_000);
    /// assert_eq!(daily.next_after(evening), Some(Timestamp::from_millis(1_774_746_000_000)));
    /// # Ok::<(), duly::Error>(())
    /// ```
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.0 {
            Rule::Cron(cron) => cron.next_after(after),
            Rule::Interval(interval) => interval.next_after(after),
            Rule::Unknown(_) => None,
        }
    }

    /// Parses what was stored; a text that cannot be parsed here is kept, and has no instants.
    pub(super) fn stored(text: &str) -> Self {
        text.parse().unwrap_or_else(|why| {
            let text = text.to_owned();
            Self(Rule::Unknown(Arc::new(Unknown { text, why })))
        })
    }

    /// Rejects what is kept as a text alone.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.0 {
            Rule::Cron(_) | Rule::Interval(_) => Ok(()),
            Rule::Unknown(unknown) => Err(Error::invalid(unknown.why.to_string())),
        }
    }

    /// Returns all instants after `after`, in order.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::schedule::Recurrence;
    /// use duly::time::Timestamp;
    ///
    /// let new_year: Recurrence = "@yearly".parse()?;
    /// let next: Vec<_> = new_year.occurrences(Timestamp::EPOCH).take(2).collect();
    /// assert_eq!(next, [31_536_000_000, 63_072_000_000].map(Timestamp::from_millis));
    /// # Ok::<(), duly::Error>(())
    /// ```
    #[must_use]
    pub fn occurrences(&self, after: Timestamp) -> Occurrences<'_> {
        Occurrences {
            recurrence: self,
            after,
        }
    }

    /// The time zone of a cron expression; `None` for an interval.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        match &self.0 {
            Rule::Cron(cron) => Some(cron.zone_name()),
            Rule::Interval(_) | Rule::Unknown(_) => None,
        }
    }

    /// The zone whose days and clocks it goes by.
    pub(super) fn time_zone(&self) -> TimeZone {
        match &self.0 {
            Rule::Cron(cron) => cron.zone().clone(),
            Rule::Interval(_) | Rule::Unknown(_) => TimeZone::UTC,
        }
    }

    /// Returns what a clock of its zone shows at an instant, with the offset from UTC; an interval
    /// goes by UTC.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::schedule::Recurrence;
    /// use duly::time::Timestamp;
    ///
    /// let daily: Recurrence = "30 2 * * * Europe/Berlin".parse()?;
    /// let shown = daily.clock_time(Timestamp::from_millis(1_774_746_000_000));
    /// assert_eq!(shown, "2026-03-29 03:00:00 +02:00");
    /// # Ok::<(), duly::Error>(())
    /// ```
    #[must_use]
    pub fn clock_time(&self, instant: Timestamp) -> String {
        zone::clock_time(&self.time_zone(), instant)
    }

    /// Says in English when it recurs, for people.
    ///
    /// # Examples
    ///
    /// ```
    /// let weekly: duly::schedule::Recurrence = "0 9 * * MON Europe/Berlin".parse()?;
    /// assert_eq!(weekly.describe(), "At 09:00, on Monday, Europe/Berlin");
    /// # Ok::<(), duly::Error>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.0 {
            Rule::Cron(cron) => cron.describe(),
            Rule::Interval(_) => {
                format!("Every{}, from midnight UTC of 1970", &self.to_string()[5..])
            }
            Rule::Unknown(unknown) => format!("Not known in this process: {}", unknown.why),
        }
    }
}

/// In the form of the text that is parsed, with single spaces; a cron expression names its zone.
impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Rule::Cron(cron) => write!(f, "{} {}", cron.expression(), cron.zone_name()),
            Rule::Interval(interval) => {
                write!(f, "every {}", duration::format(interval.period()))?;
                if interval.phase().is_zero() {
                    return Ok(());
                }
                write!(f, " phase {}", duration::format(interval.phase()))
            }
            Rule::Unknown(unknown) => f.write_str(&unknown.text),
        }
    }
}

/// As texts: what recurs by the same text recurs at the same instants.
impl PartialEq for Recurrence {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Recurrence {}

impl FromStr for Recurrence {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<_> = text.split_whitespace().collect();
        let span = |word: &str| {
            let parsed = duration::parse(word);
            parsed.map_err(|error| Error::invalid(format!("schedule `{text}`: {error}")))
        };
        match words.as_slice() {
            ["every", period] => Self::every(span(period)?),
            ["every", period, "phase", phase] => {
                Self::every(span(period)?)?.with_phase(span(phase)?)
            }
            ["every", ..] => Err(Error::invalid(format!(
                "schedule `{text}`: an interval is written `every 15m` or `every 1h phase 5m`"
            ))),
            _ => CronRule::parse(text).map(|cron| Self(Rule::Cron(Box::new(cron)))),
        }
    }
}

/// The instants of a recurrence, in order; from [`Recurrence::occurrences`].
#[derive(Clone, Debug)]
pub struct Occurrences<'a> {
    recurrence: &'a Recurrence,
    after: Timestamp,
}

impl Iterator for Occurrences<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        self.after = self.recurrence.next_after(self.after)?;
        Some(self.after)
    }
}
