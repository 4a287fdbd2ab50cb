//! The report of a relay: metrics, and the backlog for the bus.

use duly::__outbox::relay_metrics::RelayGauges;
use duly::__outbox::report_backlog;
use duly::Bus;
use duly::admin::OutboxBacklog;

use crate::relay::meters;
use crate::relay::settle::RowOutcome;
use crate::relay::source::Waiting;

/// The most refused events that one page logs.
const REFUSED_LOGGED: usize = 5;

/// What became of events that are settled together.
#[derive(Debug, Default)]
pub(crate) struct OutcomeCounts {
    pushed: u64,
    repeated: u64,
    refused: u64,
    /// Why the first ones were refused.
    reasons: Vec<String>,
}

impl OutcomeCounts {
    pub(crate) fn of<'a>(outcomes: impl Iterator<Item = &'a RowOutcome>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            match outcome {
                RowOutcome::Accepted { is_new: true } => counts.pushed += 1,
                RowOutcome::Accepted { is_new: false } => counts.repeated += 1,
                RowOutcome::Refused(reason) => {
                    counts.refused += 1;
                    if counts.reasons.len() < REFUSED_LOGGED {
                        counts.reasons.push(reason.clone());
                    }
                }
                RowOutcome::Instead(_)
                | RowOutcome::Unknown
                | RowOutcome::NotYet
                | RowOutcome::OutOfTime => {}
            }
        }
        counts
    }
}

/// The report of one relay, which ends with it.
pub(crate) struct Report {
    bus: Bus,
    relay: u64,
    backlog: OutboxBacklog,
    gauges: RelayGauges,
}

impl Report {
    pub(crate) fn new(bus: Bus) -> Self {
        let report = Self {
            bus,
            relay: fastrand::u64(..),
            backlog: OutboxBacklog::default(),
            gauges: RelayGauges::new(),
        };
        report.send();
        report
    }

    /// Sets what waits.
    pub(crate) fn waiting(&mut self, waiting: Waiting) {
        self.gauges
            .waiting(waiting.rows, waiting.oldest, waiting.deferred);
        self.gauges.put_aside(waiting.refused);
        self.gauges.away(false);
        self.backlog.refused = waiting.refused;
        self.backlog.waiting = waiting.rows;
        self.backlog.oldest = waiting.oldest;
        self.backlog.is_away = false;
        self.send();
    }

    /// Counts settled events, and logs the refused ones.
    pub(crate) fn settled(&mut self, counts: OutcomeCounts) {
        meters::settled(counts.pushed, counts.repeated, counts.refused);
        for reason in counts.reasons {
            tracing::error!(
                reason,
                "an event of the outbox can never be accepted; it is in the table of refused ones"
            );
        }
    }

    /// Counts a failed call of the database.
    pub(crate) fn database_failed(&mut self) {
        meters::database_failed();
        self.gauges.away(true);
        self.backlog.is_away = true;
        self.send();
    }

    fn send(&self) {
        report_backlog(&self.bus, self.relay, Some(self.backlog));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        report_backlog(&self.bus, self.relay, None);
    }
}
