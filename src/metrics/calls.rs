//! How the store does what it is asked.

use std::time::Duration;

use ::metrics::{Histogram, counter, histogram};

use super::catalogue::{STORE_CALL, STORE_ERRORS};
use crate::error::ErrorKind;

/// The calls of one operation.
#[derive(Debug)]
pub(crate) struct Calls {
    op: &'static str,
    took: Histogram,
}

impl Calls {
    pub(crate) fn new(op: &'static str) -> Self {
        let calls = Self {
            op,
            took: histogram!(STORE_CALL, "op" => op),
        };
        calls.failed(ErrorKind::Unavailable, 0); // there from the start, to be seen growing
        calls
    }

    /// A call has ended, or was given up.
    pub(crate) fn took(&self, took: Duration) {
        self.took.record(took);
    }

    /// So many calls were not done as asked.
    pub(crate) fn failed(&self, why: ErrorKind, many: u64) {
        counter!(STORE_ERRORS, "op" => self.op, "kind" => why.name()).increment(many);
    }
}
