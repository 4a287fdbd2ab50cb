//! The metrics of relays, which the crate `duly-outbox` sets.

use std::time::Duration;

use ::metrics::Unit;

use crate::metrics::catalogue::{Kind, Metric};
use crate::metrics::gauge_share::{Combine, GaugeShare};

/// Committed events that wait.
pub const WAITING: &str = "duly_relay_waiting";
/// The age of the oldest of them.
pub const OLDEST: &str = "duly_relay_oldest_seconds";
/// Those that wait since the store has not taken them.
pub const DEFERRED: &str = "duly_relay_deferred";
/// Events that were put aside, and lie there.
pub const PUT_ASIDE: &str = "duly_relay_put_aside";
/// Whether the database cannot be read: 1 or 0.
pub const AWAY: &str = "duly_relay_away";
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
        name: PUT_ASIDE,
        kind: Kind::Gauge,
        unit: Unit::Count,
        labels: &[],
        help: "Events in the table of refused ones, counted up to 100,000.",
    },
    Metric {
        name: AWAY,
        kind: Kind::Gauge,
        unit: Unit::Count,
        labels: &[],
        help: "1 while the database of an outbox fails its relay, else 0.",
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

/// The gauges of a relay: its share of those of all relays of the process, of which the largest value
/// counts. Dropping it takes them back.
#[derive(Debug)]
pub struct RelayGauges {
    waiting: GaugeShare,
    oldest: GaugeShare,
    deferred: GaugeShare,
    put_aside: GaugeShare,
    away: GaugeShare,
}

impl RelayGauges {
    /// Registers the gauges at zero, so that they can be seen to grow.
    #[must_use]
    pub fn new() -> Self {
        let share = |name| GaugeShare::new(name, None, Combine::Max);
        let gauges = Self {
            waiting: share(WAITING),
            oldest: share(OLDEST),
            deferred: share(DEFERRED),
            put_aside: share(PUT_ASIDE),
            away: share(AWAY),
        };
        gauges.waiting(0, Duration::ZERO, 0);
        gauges.put_aside(0);
        gauges.away(false);
        gauges
    }

    /// Sets how many events wait, for how long, and how many of them are deferred.
    pub fn waiting(&self, events: u64, oldest: Duration, deferred: u64) {
        self.waiting.set(events as f64);
        self.oldest.set(oldest.as_secs_f64());
        self.deferred.set(deferred as f64);
    }

    /// Sets how many events lie in the table of refused ones.
    pub fn put_aside(&self, events: u64) {
        self.put_aside.set(events as f64);
    }

    /// Sets whether the database cannot be read.
    pub fn away(&self, is_away: bool) {
        self.away.set(f64::from(u8::from(is_away)));
    }
}

impl Default for RelayGauges {
    fn default() -> Self {
        Self::new()
    }
}
