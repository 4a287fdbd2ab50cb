//! Metrics of store calls.

use std::time::Duration;

use ::metrics::{Histogram, counter, histogram};

use super::catalogue::{STORE_CALL, STORE_ERRORS};
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
        self.took.record(took);
    }

    /// Counts failed calls.
    pub(crate) fn failed(&self, why: ErrorKind, many: u64) {
        counter!(STORE_ERRORS, "op" => self.op, "kind" => why.name()).increment(many);
    }
}
