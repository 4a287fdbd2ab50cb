//! Metrics of schedules.

use crate::metrics::catalogue::OCCURRENCES;
use crate::metrics::guarded::{Counter, counter};

/// The counters of occurrences, by what became of them.
#[derive(Clone)]
pub(crate) struct ScheduleMeters {
    pushed: Counter,
    missed: Counter,
    overlapped: Counter,
}

impl ScheduleMeters {
    pub(crate) fn new() -> Self {
        let of = |outcome: &'static str| counter!(OCCURRENCES, "outcome" => outcome);
        Self {
            pushed: of("pushed"),
            missed: of("missed"),
            overlapped: of("overlapped"),
        }
    }

    pub(crate) fn pushed(&self, many: u64) {
        self.pushed.increment(many);
    }

    pub(crate) fn missed(&self, many: u64) {
        self.missed.increment(many);
    }

    pub(crate) fn overlapped(&self, many: u64) {
        self.overlapped.increment(many);
    }
}
