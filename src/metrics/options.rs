//! Metrics options.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::metrics::CountedStore;

/// The default number of queues with their own label.
const QUEUES_MAX: usize = 100;
/// The upper bound of `queues_max`.
const QUEUES_LIMIT: usize = 10_000;

/// The default interval of depth samples.
const CENSUS_EVERY: Duration = Duration::from_secs(10);
/// The range of that interval.
const CENSUS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

/// Metrics options of a bus; `None` defers to a weaker source.
///
/// The sources, weakest first: the defaults, the section `metrics` of the settings file, the
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
    /// How many queues have their own label, 0 to 10,000; all others share the label
    /// [`other`](crate::metrics::OTHER). Default: 100, which makes some thousand time series a
    /// process.
    pub queues_max: Option<usize>,
    /// The address and port that Prometheus scrapes. Default: none.
    pub listen: Option<SocketAddr>,
    /// How often queue depth is sampled, 100 ms to 1 h; zero disables it. Default: 10 s, which
    /// suits a scrape interval of 15 s and costs a store little; by default only while a recorder
    /// of the crate `metrics` is installed.
    pub depths_every: Option<Duration>,
}

impl MetricsChoices {
    /// Returns these options with those set in `stronger` replaced.
    #[must_use]
    pub fn with(self, stronger: Self) -> Self {
        Self {
            queues_max: stronger.queues_max.or(self.queues_max),
            listen: stronger.listen.or(self.listen),
            depths_every: stronger.depths_every.or(self.depths_every),
        }
    }

    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), with value and bound.
    pub fn check(&self) -> Result<()> {
        if let Some(max) = self.queues_max.filter(|max| *max > QUEUES_LIMIT) {
            return Err(Error::invalid(format!(
                "metrics.queues_max is {max}; it must be at most {QUEUES_LIMIT}"
            )));
        }
        let possible = |every: &Duration| every.is_zero() || CENSUS.contains(every);
        if let Some(every) = self.depths_every.filter(|every| !possible(every)) {
            return Err(Error::invalid(format!(
                "metrics.depths_every is {every:?}; it must be 100ms to 1h, or 0s for never"
            )));
        }
        Ok(())
    }

    /// Returns how often queue depth is sampled; `None`: never. In virtual time it is off by
    /// default, since a month there is a moment.
    pub(crate) fn depth_sampler(
        &self,
        virtual_time: bool,
        store: CountedStore,
    ) -> Option<SampleInterval> {
        let every = match (self.depths_every, virtual_time) {
            (None, true) => return None,
            (every, _) => every.unwrap_or(CENSUS_EVERY),
        };
        let always = self.depths_every.is_some();
        (!every.is_zero()).then_some(SampleInterval {
            every,
            always,
            store,
        })
    }

    /// Returns how many queues have their own label.
    pub(crate) fn queues_max(&self) -> usize {
        self.queues_max.unwrap_or(QUEUES_MAX)
    }
}

/// How often queue depth is sampled, and under which condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleInterval {
    pub(crate) every: Duration,
    /// Also while no recorder is installed, as far as that is known.
    pub(crate) always: bool,
    /// What is sampled.
    pub(crate) store: CountedStore,
}
