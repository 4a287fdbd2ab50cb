//! Metrics of outboxes and the journal.

use std::time::Duration;

use ::metrics::{counter, gauge};

use super::catalogue::{
    JOURNAL_AWAY, JOURNAL_DROPPED, JOURNAL_LAG, JOURNAL_RECORDED, OUTBOX_WAITING,
};

/// Registers the journal's metrics, so that they can be seen to grow.
pub(crate) fn journal_starts() {
    journal_recorded(0);
    journal_dropped(0);
    journal_away(false);
    journal_lag(Duration::ZERO);
    outbox_waiting(0);
}

/// Sets how many records wait.
pub(crate) fn outbox_waiting(records: u64) {
    gauge!(OUTBOX_WAITING).set(records as f64);
}

/// Counts records that were loaded into the journal.
pub(crate) fn journal_recorded(records: u64) {
    counter!(JOURNAL_RECORDED).increment(records);
}

/// Counts records that were dropped.
pub(crate) fn journal_dropped(records: u64) {
    counter!(JOURNAL_DROPPED).increment(records);
}

/// Sets the age of the oldest record.
pub(crate) fn journal_lag(lag: Duration) {
    gauge!(JOURNAL_LAG).set(lag.as_secs_f64());
}

/// Sets whether the journal is unavailable.
pub(crate) fn journal_away(is_away: bool) {
    gauge!(JOURNAL_AWAY).set(f64::from(u8::from(is_away)));
}
