//! What an operator has set of a queue while it runs: once, for every node, until it is set again.

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
