//! What an operator has set of a queue while it runs: once, for every node, until it is set again.

use crate::event::BUCKETS_MAX;

/// The lowest and the highest rate, in starts a second.
pub(crate) const RATES: (f64, f64) = (0.001, 1_000_000.0);

/// What is set of one queue; what is not set is as each node's own choices say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Control {
    /// Whether no handler of the queue starts, on any node.
    pub paused: bool,
    /// How many of its handlers run at once on each node.
    pub workers: Option<u16>,
    /// How many of its handlers start in a second, on all nodes together.
    pub rate: Option<f64>,
    /// Over how many buckets its new events are spread.
    pub buckets: Option<u16>,
}

/// One thing to set of a queue; `None` takes back what was set.
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
    /// The same with one more thing set.
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
    /// Whether it is within its bounds. What a store answers was perhaps written by somebody else.
    pub(crate) fn is_possible(self) -> bool {
        match self {
            Self::Rate(Some(rate)) => (RATES.0..=RATES.1).contains(&rate),
            Self::Buckets(Some(buckets)) => (1..=BUCKETS_MAX).contains(&buckets),
            _ => true,
        }
    }
}
