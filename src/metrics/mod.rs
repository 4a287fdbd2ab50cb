//! Metrics: every name once, with its unit, its labels and what it tells.
//!
//! They go to whatever recorder of the crate `metrics` the program has installed; without one they
//! cost next to nothing. A bus that shares its process with another one says the same of both.

mod catalogue;
mod choices;
mod journal;
mod queues;

use ::metrics::{describe_counter, describe_gauge, describe_histogram};

pub use self::catalogue::*;
pub use self::choices::MetricsChoices;
pub(crate) use self::journal::{
    journal_away, journal_dropped, journal_lag, journal_recorded, outbox_waiting,
};
pub use self::queues::OTHER;
pub(crate) use self::queues::Queues;

/// Tells the installed recorder the unit and the meaning of each metric. A bus does so when it
/// starts; a recorder that is installed later is told by calling this.
pub fn describe() {
    for metric in CATALOGUE {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram(_) => describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}
