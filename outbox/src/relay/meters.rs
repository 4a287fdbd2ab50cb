//! The metrics of a relay.

use std::sync::atomic::{AtomicBool, Ordering};

use duly::__outbox::relay_metrics::{
    self, DEFERRED, ERRORS, OLDEST, PUSHED, REFUSED_EVENTS, REPEATED, WAITING,
};
use duly::metrics::{Kind, Metric};
use metrics::{counter, describe_counter, describe_gauge, gauge};

use crate::relay::source::Waiting;

/// The metrics of relays. All relays of an outbox see the same rows, so of a gauge take the greatest.
///
/// # Examples
///
/// ```
/// assert!(duly_outbox::CATALOGUE.iter().any(|metric| metric.name == "duly_relay_waiting"));
/// ```
pub const CATALOGUE: &[Metric] = relay_metrics::RELAY_CATALOGUE;

static IS_DESCRIBED: AtomicBool = AtomicBool::new(false);

/// Registers the metrics, so that they can be seen to grow.
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
    waiting(Waiting::default());
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

/// Sets what waits.
pub(crate) fn waiting(waiting: Waiting) {
    gauge!(WAITING).set(waiting.rows as f64);
    gauge!(OLDEST).set(waiting.oldest.as_secs_f64());
    gauge!(DEFERRED).set(waiting.deferred as f64);
}
