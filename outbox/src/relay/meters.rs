//! The metrics of a relay.

use std::sync::atomic::{AtomicBool, Ordering};

use duly::__outbox::relay_metrics::{self, ERRORS, PUSHED, REFUSED_EVENTS, REPEATED};
use duly::metrics::{Kind, Metric};
use metrics::{counter, describe_counter, describe_gauge};

/// The metrics of relays. All relays of an outbox see the same rows, so of a gauge take the greatest.
///
/// # Examples
///
/// ```
/// assert!(duly_outbox::CATALOGUE.iter().any(|metric| metric.name == "duly_relay_waiting"));
/// ```
pub const CATALOGUE: &[Metric] = relay_metrics::RELAY_CATALOGUE;

static IS_DESCRIBED: AtomicBool = AtomicBool::new(false);

/// Describes the metrics, and registers the counters, so that they can be seen to grow.
pub(crate) fn register() {
    if !IS_DESCRIBED.swap(true, Ordering::Relaxed) {
        for metric in CATALOGUE {
            match metric.kind {
                Kind::Gauge => describe_gauge!(metric.name, metric.unit, metric.help),
                _ => describe_counter!(metric.name, metric.unit, metric.help),
            }
        }
    }
    settled(0, 0, 0);
    for of in ["database", "store"] {
        counter!(ERRORS, "of" => of).increment(0);
    }
}

/// Counts settled events.
pub(crate) fn settled(pushed: u64, repeated: u64, refused: u64) {
    counter!(PUSHED).increment(pushed);
    counter!(REPEATED).increment(repeated);
    counter!(REFUSED_EVENTS).increment(refused);
}

/// Counts a failed call of the database.
pub(crate) fn database_failed() {
    counter!(ERRORS, "of" => "database").increment(1);
}

/// Counts a page that the store did not accept as a whole.
pub(crate) fn store_failed() {
    counter!(ERRORS, "of" => "store").increment(1);
}
