//! Metrics: names, units, labels and descriptions, and the handles that set them.
//!
//! They go to the program's recorder of the crate `metrics`; without one they cost next to nothing.
//! Several buses of a process share the same metrics: of a gauge each has a share.

mod catalogue;
mod depth;
mod gauge_share;
mod guarded;
mod journal;
mod meters;
mod node;
mod options;
#[cfg(feature = "prometheus")]
mod prometheus;
mod queues;
pub(crate) mod relay;
#[cfg(feature = "schedules")]
mod schedules;
mod stages;
mod store_calls;

use ::metrics::{describe_counter, describe_gauge, describe_histogram};

pub use self::catalogue::{
    BATCH_BOUNDS, CATALOGUE, DURATION_BOUNDS, Kind, LATENESS_BOUNDS, Metric,
};
pub(crate) use self::depth::{CountedStore, QueueDepth, QueueDepths, WITHIN, tell_shares};
pub(crate) use self::journal::JournalMetrics;
pub(crate) use self::meters::{
    AttemptMetrics, Gauges, MoverCounters, MoverSleepGauge, PullMeters, PushCounters, PushMeters,
    QueueActivity, SettleKind,
};
pub(crate) use self::node::NodeGauges;
pub use self::options::MetricsChoices;
pub(crate) use self::options::SampleInterval;
#[cfg(feature = "prometheus")]
pub use self::prometheus::Prometheus;
#[cfg(feature = "prometheus")]
pub(crate) use self::prometheus::listen;
pub use self::queues::OTHER;
pub(crate) use self::queues::QueueLabels;
#[cfg(feature = "schedules")]
pub(crate) use self::schedules::ScheduleMeters;
pub use self::stages::Stages;
pub(crate) use self::store_calls::StoreCallMetrics;
#[cfg(any(feature = "embedded", feature = "redis"))]
pub(crate) use self::store_calls::found_damage;
use crate::panics;

/// Fails: the exporter is not compiled in.
#[cfg(not(feature = "prometheus"))]
pub(crate) fn listen(address: std::net::SocketAddr) -> crate::error::Result<()> {
    let what = format!("the exporter, for metrics.listen {address},");
    Err(crate::error::Error::not_built(&what, "prometheus"))
}

/// Describes the unit and the meaning of each metric to the installed recorder. A bus calls it when
/// it starts; call it again after installing a recorder later.
pub fn describe() {
    for metric in CATALOGUE {
        panics::reported(|| match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram(_) => describe_histogram!(metric.name, metric.unit, metric.help),
        });
    }
}

/// Returns whether a recorder is installed.
///
/// The package has no function for it, but the recorder that it lends has no size if none is
/// installed.
pub(crate) fn is_recorder_installed() -> bool {
    ::metrics::with_recorder(|recorder| size_of_val(recorder) > 0)
}
