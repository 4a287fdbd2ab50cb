//! Metrics: every name once, with its unit and what it tells.
//!
//! They go to whatever recorder of the crate `metrics` the program has installed; without one they
//! cost next to nothing. None of these has labels: a bus that shares its process with another one
//! says the same of both.

use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

/// Records that wait in outboxes, as far as this process has seen.
pub const OUTBOX_WAITING: &str = "duly_outbox_waiting";
/// Records that this process has loaded into the journal.
pub const JOURNAL_RECORDED: &str = "duly_journal_recorded_total";
/// Records that were let go before they were in the journal.
pub const JOURNAL_DROPPED: &str = "duly_journal_dropped_total";
/// How long the oldest record waited that was read last.
pub const JOURNAL_LAG: &str = "duly_journal_lag_seconds";
/// Whether the journal is away: 1 or 0.
pub const JOURNAL_AWAY: &str = "duly_journal_away";

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It counts up for as long as the process runs.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// What it tells, in a sentence.
    pub help: &'static str,
}

/// Every metric there is.
pub const CATALOGUE: [Metric; 5] = [
    Metric {
        name: OUTBOX_WAITING,
        kind: Kind::Gauge,
        unit: Unit::Count,
        help: "Records that wait in outboxes for the journal, as far as this process has seen.",
    },
    Metric {
        name: JOURNAL_RECORDED,
        kind: Kind::Counter,
        unit: Unit::Count,
        help: "Records that this process has loaded into the journal.",
    },
    Metric {
        name: JOURNAL_DROPPED,
        kind: Kind::Counter,
        unit: Unit::Count,
        help: "Records that were let go by a full outbox before they were in the journal.",
    },
    Metric {
        name: JOURNAL_LAG,
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        help: "How long the oldest record waited that was read last; 0 when none waits.",
    },
    Metric {
        name: JOURNAL_AWAY,
        kind: Kind::Gauge,
        unit: Unit::Count,
        help: "1 while the journal takes in no records, else 0.",
    },
];

/// Tells the installed recorder the unit and the meaning of each metric. A bus does so when it
/// starts; a recorder that is installed later is told by calling this.
pub fn describe() {
    for metric in CATALOGUE {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.unit, metric.help),
        }
    }
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
