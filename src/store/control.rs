//! Runtime settings of a queue (pause, workers, rate, buckets), kept by the store for every node.

use duly_options::rate;

use crate::error::{Error, ErrorKind};
use crate::event::BUCKETS_MAX;

/// The lowest and the highest rate, in starts per second.
pub(crate) const RATES: (f64, f64) = (rate::RATE_MIN, rate::RATE_MAX);

/// The limit of queues with runtime settings.
pub(crate) const CONTROLS_MAX: usize = 10_000;

/// The runtime settings of one queue; a field that is unset leaves each node's own configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Control {
    /// Whether the queue is paused: no handler of it starts on any node.
    pub paused: bool,
    /// The limit of concurrent handlers on each node.
    pub workers: Option<u16>,
    /// The limit of handler starts per second, over all nodes; it takes precedence over a declared
    /// [`rate`](crate::config::QueueOptions::rate).
    pub rate: Option<f64>,
    /// The number of buckets over which new events are distributed.
    pub buckets: Option<u16>,
}

/// A change of one runtime setting; `None` removes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// See [`Control::paused`].
    Paused(bool),
    /// See [`Control::workers`].
    Workers(Option<u16>),
    /// See [`Control::rate`].
    Rate(Option<f64>),
    /// See [`Control::buckets`].
    Buckets(Option<u16>),
}

impl Control {
    /// Returns these settings with `setting` applied.
    #[must_use]
    pub fn with(self, setting: Setting) -> Self {
        match setting {
            Setting::Paused(paused) => Self { paused, ..self },
            Setting::Workers(workers) => Self { workers, ..self },
            Setting::Rate(rate) => Self { rate, ..self },
            Setting::Buckets(buckets) => Self { buckets, ..self },
        }
    }
}

impl Setting {
    /// Returns whether all values are within their bounds; another program may have written them.
    pub(crate) fn is_possible(self) -> bool {
        match self {
            Self::Rate(Some(per_second)) => rate::is_possible(per_second),
            Self::Buckets(Some(buckets)) => (1..=BUCKETS_MAX).contains(&buckets),
            _ => true,
        }
    }
}

/// The error of a setting of one queue more.
pub(crate) fn too_many_controls() -> Error {
    Error::new(
        ErrorKind::Full,
        format!(
            "{CONTROLS_MAX} queues have runtime settings already, which is the limit; reset some"
        ),
    )
}
