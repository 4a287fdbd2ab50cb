//! Metrics of store calls.

use std::time::Duration;

use super::catalogue::{STORE_CALL, STORE_ERRORS};
use super::guarded::{Histogram, counter, histogram};
use crate::error::ErrorKind;

/// The metrics of one operation.
#[derive(Debug)]
pub(crate) struct StoreCallMetrics {
    op: &'static str,
    took: Histogram,
}

impl StoreCallMetrics {
    pub(crate) fn new(op: &'static str) -> Self {
        let calls = Self {
            op,
            took: histogram!(STORE_CALL, "op" => op),
        };
        calls.failed(ErrorKind::Unavailable, 0); // exported from the start, so that it can be seen to grow
        calls
    }

    /// Records the duration of a call that ended or was cancelled.
    pub(crate) fn took(&self, took: Duration) {
        self.took.record(took.as_secs_f64());
    }

    /// Counts failed calls.
    pub(crate) fn failed(&self, why: ErrorKind, many: u64) {
        counter!(STORE_ERRORS, "op" => self.op, "kind" => why.name()).increment(many);
    }
}

/// Counts events whose damaged bytes a store has set aside, as errors of the call that met them; the call
/// itself has succeeded with all others.
#[cfg(any(feature = "embedded", feature = "redis"))]
pub(crate) fn found_damage(op: &'static str, many: usize) {
    let kind = ErrorKind::Corrupt.name();
    counter!(STORE_ERRORS, "op" => op, "kind" => kind).increment(many as u64);
}
