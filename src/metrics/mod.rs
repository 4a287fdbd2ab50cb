//! Metrics: every name once, with its unit, its labels and what it tells.
//!
//! They go to whatever recorder of the crate `metrics` the program has installed; without one they
//! cost next to nothing. A bus that shares its process with another one says the same of both.

mod calls;
mod catalogue;
mod choices;
mod journal;
mod meters;
mod node;
#[cfg(feature = "prometheus")]
mod prometheus;
mod queues;
mod shares;
mod stages;

use ::metrics::{describe_counter, describe_gauge, describe_histogram};

pub(crate) use self::calls::Calls;
pub use self::catalogue::{
    BATCH_BOUNDS, CATALOGUE, DURATION_BOUNDS, Kind, LATENESS_BOUNDS, Metric,
};
pub use self::choices::MetricsChoices;
pub(crate) use self::choices::Pace;
pub(crate) use self::journal::{
    journal_away, journal_dropped, journal_lag, journal_recorded, journal_starts, outbox_waiting,
};
pub(crate) use self::meters::{Doing, Gauges, Moves, PushMeters, Pushes, Runs, Settled, Sleep};
pub(crate) use self::node::{clock_skew, live_nodes};
#[cfg(feature = "prometheus")]
pub use self::prometheus::Prometheus;
#[cfg(feature = "prometheus")]
pub(crate) use self::prometheus::listen;
pub use self::queues::OTHER;
pub(crate) use self::queues::Queues;
pub(crate) use self::shares::{Share, Shares, WITHIN, tell_shares};
pub use self::stages::Stages;

/// There is no exporter to listen.
#[cfg(not(feature = "prometheus"))]
pub(crate) fn listen(address: std::net::SocketAddr) -> crate::error::Result<()> {
    let what = format!("the exporter, for metrics.listen {address},");
    Err(crate::error::Error::not_built(&what, "prometheus"))
}

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

/// Whether a recorder is installed, so that somebody hears what is told.
///
/// The package answers that only by what it lends: where there is none it lends one that has no
/// size, since it holds nothing.
pub(crate) fn is_heard() -> bool {
    ::metrics::with_recorder(|recorder| size_of_val(recorder) > 0)
}
