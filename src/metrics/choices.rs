//! The choices for metrics.

use crate::error::{Error, Result};

/// How many queues have a label of their own when nobody says otherwise.
const QUEUES_MAX: usize = 100;
/// The most that may be chosen.
const QUEUES_LIMIT: usize = 10_000;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsChoices {
    /// How many queues have a label of their own, 0 to 10,000; all others share the label
    /// [`other`](crate::metrics::OTHER). Default: 100, which makes some thousand time series a
    /// process.
    pub queues_max: Option<usize>,
}

impl MetricsChoices {
    /// The same with every choice that `stronger` makes.
    #[must_use]
    pub fn with(self, stronger: Self) -> Self {
        Self {
            queues_max: stronger.queues_max.or(self.queues_max),
        }
    }

    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming value and bound.
    pub fn check(&self) -> Result<()> {
        match self.queues_max {
            Some(max) if max > QUEUES_LIMIT => Err(Error::invalid(format!(
                "metrics.queues_max is {max}, it is at most {QUEUES_LIMIT}"
            ))),
            _ => Ok(()),
        }
    }

    /// How many queues have a label of their own.
    pub(crate) fn queues_max(&self) -> usize {
        self.queues_max.unwrap_or(QUEUES_MAX)
    }
}
