//! Metrics of outboxes and the journal.

use std::time::Duration;

use super::catalogue::{
    JOURNAL_AWAY, JOURNAL_DROPPED, JOURNAL_LAG, JOURNAL_RECORDED, OUTBOX_WAITING,
};
use super::gauge_share::{Combine, GaugeShare};
use super::guarded::counter;

/// The metrics of a bus with a journal; its gauges until this is dropped.
#[derive(Debug)]
pub(crate) struct JournalMetrics {
    waiting: GaugeShare,
    lag: GaugeShare,
    away: GaugeShare,
}

impl JournalMetrics {
    /// Registers the journal's metrics, so that they can be seen to grow.
    pub(crate) fn new() -> Self {
        let metrics = Self {
            waiting: GaugeShare::new(OUTBOX_WAITING, None, Combine::Sum),
            lag: GaugeShare::new(JOURNAL_LAG, None, Combine::Max),
            away: GaugeShare::new(JOURNAL_AWAY, None, Combine::Max),
        };
        Self::recorded(0);
        Self::dropped(0);
        metrics.away(false);
        metrics.lag(Duration::ZERO);
        metrics.waiting(0);
        metrics
    }

    /// Sets how many records wait.
    pub(crate) fn waiting(&self, records: u64) {
        self.waiting.set(records as f64);
    }

    /// Counts records that were loaded into the journal.
    pub(crate) fn recorded(records: u64) {
        counter!(JOURNAL_RECORDED).increment(records);
    }

    /// Counts records that were dropped.
    pub(crate) fn dropped(records: u64) {
        counter!(JOURNAL_DROPPED).increment(records);
    }

    /// Sets the age of the oldest record.
    pub(crate) fn lag(&self, lag: Duration) {
        self.lag.set(lag.as_secs_f64());
    }

    /// Sets whether the journal is unavailable.
    pub(crate) fn away(&self, is_away: bool) {
        self.away.set(f64::from(u8::from(is_away)));
    }
}
