//! An interval: instants that are a period apart, counted from the Unix epoch.

use std::time::Duration;

use crate::duration;
use crate::error::{Error, Result};
use crate::time::Timestamp;

/// The shortest and the longest period.
const PERIOD_MIN: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Instants at `phase`, `phase + period` and so on from the Unix epoch, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    period_ms: u64,
    phase_ms: u64,
}

impl Interval {
    /// # Errors
    ///
    /// A period that is too short, too long or no whole number of milliseconds, and a phase that is
    /// not shorter than the period.
    pub(super) fn new(period: Duration, phase: Duration) -> Result<Self> {
        let text = duration::format;
        if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
            return Err(Error::invalid(format!(
                "the interval is {}; it must be from {} to {}",
                text(period),
                text(PERIOD_MIN),
                text(PERIOD_MAX)
            )));
        }
        if phase >= period {
            return Err(Error::invalid(format!(
                "the phase is {}; it must be shorter than the interval, {}",
                text(phase),
                text(period)
            )));
        }
        Ok(Self {
            period_ms: whole_millis("interval", period)?,
            phase_ms: whole_millis("phase", phase)?,
        })
    }

    pub(super) fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.as_millis();
        let Some(since) = after.checked_sub(self.phase_ms) else {
            return Some(Timestamp::from_millis(self.phase_ms));
        };
        let periods = since / self.period_ms + 1;
        let next = periods.checked_mul(self.period_ms)?;
        Some(Timestamp::from_millis(next.checked_add(self.phase_ms)?))
    }

    pub(super) fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms)
    }

    pub(super) fn phase(&self) -> Duration {
        Duration::from_millis(self.phase_ms)
    }
}

fn whole_millis(what: &str, span: Duration) -> Result<u64> {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX); // a year at most
    if Duration::from_millis(millis) == span {
        return Ok(millis);
    }
    Err(Error::invalid(format!(
        "the {what} is {}; it must be a whole number of milliseconds",
        duration::format(span)
    )))
}
