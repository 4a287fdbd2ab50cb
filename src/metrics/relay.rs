//! The metrics of relays, which the crate `duly-outbox` sets.

use ::metrics::Unit;

use crate::metrics::catalogue::{Kind, Metric};

/// Committed events that wait.
pub const WAITING: &str = "duly_relay_waiting";
/// The age of the oldest of them.
pub const OLDEST: &str = "duly_relay_oldest_seconds";
/// Those that wait since the store has not taken them.
pub const DEFERRED: &str = "duly_relay_deferred";
/// Events that the store accepted.
pub const PUSHED: &str = "duly_relay_pushed_total";
/// Events that the store had already.
pub const REPEATED: &str = "duly_relay_repeated_total";
/// Events that were put aside.
pub const REFUSED_EVENTS: &str = "duly_relay_refused_total";
/// Failed calls.
pub const ERRORS: &str = "duly_relay_errors_total";

/// The metrics of relays.
pub const RELAY_CATALOGUE: &[Metric] = &[
    Metric {
        name: WAITING,
        kind: Kind::Gauge,
        unit: Unit::Count,
        labels: &[],
        help: "Committed events that wait in the outbox for the store, counted up to 100,000.",
    },
    Metric {
        name: OLDEST,
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: &[],
        help: "The age of the oldest event that waits in the outbox.",
    },
    Metric {
        name: DEFERRED,
        kind: Kind::Gauge,
        unit: Unit::Count,
        labels: &[],
        help: "Of the waiting events, those that the store did not take when their turn came.",
    },
    Metric {
        name: PUSHED,
        kind: Kind::Counter,
        unit: Unit::Count,
        labels: &[],
        help: "Events of the outbox that the store accepted from this relay.",
    },
    Metric {
        name: REPEATED,
        kind: Kind::Counter,
        unit: Unit::Count,
        labels: &[],
        help: "Events of the outbox that the store had already.",
    },
    Metric {
        name: REFUSED_EVENTS,
        kind: Kind::Counter,
        unit: Unit::Count,
        labels: &[],
        help: "Events that can never be accepted; they are in the table of refused ones.",
    },
    Metric {
        name: ERRORS,
        kind: Kind::Counter,
        unit: Unit::Count,
        labels: &["of"],
        help: "Failed calls of a relay, of the database or the store.",
    },
];
