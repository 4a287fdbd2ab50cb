//! What the recorder tells of outboxes and the journal.

use std::time::Duration;

use ::metrics::{counter, gauge};

use super::catalogue::{
    JOURNAL_AWAY, JOURNAL_DROPPED, JOURNAL_LAG, JOURNAL_RECORDED, OUTBOX_WAITING,
};

/// There is a journal: what is told of it is there from the start, to be seen growing.
pub(crate) fn journal_starts() {
    journal_recorded(0);
    journal_dropped(0);
    journal_away(false);
    journal_lag(Duration::ZERO);
    outbox_waiting(0);
}

/// So many records wait.
pub(crate) fn outbox_waiting(records: u64) {
    gauge!(OUTBOX_WAITING).set(records as f64);
}

/// So many more are in the journal.
pub(crate) fn journal_recorded(records: u64) {
    counter!(JOURNAL_RECORDED).increment(records);
}

/// So many more were let go.
pub(crate) fn journal_dropped(records: u64) {
    counter!(JOURNAL_DROPPED).increment(records);
}

/// The oldest one has waited so long.
pub(crate) fn journal_lag(lag: Duration) {
    gauge!(JOURNAL_LAG).set(lag.as_secs_f64());
}

/// Whether the journal is away.
pub(crate) fn journal_away(is_away: bool) {
    gauge!(JOURNAL_AWAY).set(f64::from(u8::from(is_away)));
}
