//! What a relay tells of its outbox: metrics, and the bus for its dashboard.

use duly::__outbox::{OutboxBacklog, report_backlog};
use duly::Bus;

use crate::relay::meters;
use crate::relay::source::Waiting;

/// The report of one relay, which ends with it.
pub(crate) struct Report {
    bus: Bus,
    relay: u64,
    backlog: OutboxBacklog,
}

impl Report {
    pub(crate) fn new(bus: Bus) -> Self {
        let report = Self {
            bus,
            relay: fastrand::u64(..),
            backlog: OutboxBacklog::default(),
        };
        report.send();
        report
    }

    /// Sets what waits.
    pub(crate) fn waiting(&mut self, waiting: Waiting) {
        meters::waiting(waiting);
        self.backlog.waiting = waiting.rows;
        self.backlog.oldest = waiting.oldest;
        self.backlog.is_away = false;
        self.send();
    }

    /// Counts settled events.
    pub(crate) fn settled(&mut self, pushed: u64, repeated: u64, refused: u64) {
        meters::settled(pushed, repeated, refused);
        if refused > 0 {
            self.backlog.refused = self.backlog.refused.saturating_add(refused);
            self.send();
        }
    }

    /// Counts a failed call of the database.
    pub(crate) fn database_failed(&mut self) {
        meters::database_failed();
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
