//! The choices for metrics.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::{Error, Result};

/// How many queues have a label of their own when nobody says otherwise.
const QUEUES_MAX: usize = 100;
/// The most that may be chosen.
const QUEUES_LIMIT: usize = 10_000;

/// How often events are counted when nobody says otherwise.
const CENSUS_EVERY: Duration = Duration::from_secs(10);
/// How often events may be counted.
const CENSUS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

/// Choices for the metrics of a bus; what is `None` is left to a weaker source.
///
/// The sources are, weakest first: the defaults, the section `metrics` of the settings file, the
/// environment, the builder.
///
/// # Examples
///
/// ```
/// use duly::metrics::MetricsChoices;
///
/// let choices = MetricsChoices { queues_max: Some(20), ..MetricsChoices::default() };
/// assert!(choices.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricsChoices {
    /// How many queues have a label of their own, 0 to 10,000; all others share the label
    /// [`other`](crate::metrics::OTHER). Default: 100, which makes some thousand time series a
    /// process.
    pub queues_max: Option<usize>,
    /// Where Prometheus can read them: an address and a port of this machine. Default: nowhere.
    pub listen: Option<SocketAddr>,
    /// How often the events of each queue are counted, 100 ms to 1 h; zero never counts. Default:
    /// 10 s, which is often enough for a scrape each 15 s, and asks little of a store. By default
    /// that is done only while a recorder of the crate `metrics` is installed; a choice is followed
    /// in any case.
    pub census_every: Option<Duration>,
}

impl MetricsChoices {
    /// The same with every choice that `stronger` makes.
    #[must_use]
    pub fn with(self, stronger: Self) -> Self {
        Self {
            queues_max: stronger.queues_max.or(self.queues_max),
            listen: stronger.listen.or(self.listen),
            census_every: stronger.census_every.or(self.census_every),
        }
    }

    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming value and bound.
    pub fn check(&self) -> Result<()> {
        if let Some(max) = self.queues_max.filter(|max| *max > QUEUES_LIMIT) {
            return Err(Error::invalid(format!(
                "metrics.queues_max is {max}; it must be at most {QUEUES_LIMIT}"
            )));
        }
        let possible = |every: &Duration| every.is_zero() || CENSUS.contains(every);
        if let Some(every) = self.census_every.filter(|every| !possible(every)) {
            return Err(Error::invalid(format!(
                "metrics.census_every is {every:?}; it must be 100ms to 1h, or 0s for never"
            )));
        }
        Ok(())
    }

    /// How often events are counted; `None`: never. Where time is virtual nobody counts unless he
    /// is asked to, since a month there is a moment.
    pub(crate) fn census(&self, virtual_time: bool) -> Option<Pace> {
        let every = match (self.census_every, virtual_time) {
            (None, true) => return None,
            (every, _) => every.unwrap_or(CENSUS_EVERY),
        };
        let always = self.census_every.is_some();
        (!every.is_zero()).then_some(Pace { every, always })
    }

    /// How many queues have a label of their own.
    pub(crate) fn queues_max(&self) -> usize {
        self.queues_max.unwrap_or(QUEUES_MAX)
    }
}

/// How often events are counted, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) every: Duration,
    /// Also while no recorder is installed, as far as can be known.
    pub(crate) always: bool,
}
