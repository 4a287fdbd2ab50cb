//! The backlogs of outboxes, as the relays of this process see them.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

/// The backlog of the outbox in a database: what [`Bus::outbox_backlog`](crate::Bus::outbox_backlog)
/// returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxBacklog {
    /// The number of committed events that wait, counted up to 100,000.
    pub waiting: u64,
    /// The age of the oldest of them.
    pub oldest: Duration,
    /// The number of events that were put aside, as they can never be accepted, and lie there, counted up
    /// to 100,000.
    pub refused: u64,
    /// Whether the database does not answer, so that the others are those of before.
    pub is_away: bool,
}

impl OutboxBacklog {
    /// Two relays see the same rows, unless there are several outboxes: the greater counts.
    fn or(self, other: Self) -> Self {
        Self {
            waiting: self.waiting.max(other.waiting),
            oldest: self.oldest.max(other.oldest),
            refused: self.refused.max(other.refused),
            is_away: self.is_away || other.is_away,
        }
    }
}

/// The latest reports of relays, by their ids.
#[derive(Debug, Default)]
pub(in crate::bus) struct Outboxes(Mutex<BTreeMap<u64, OutboxBacklog>>);

impl Outboxes {
    /// Notes what a relay sees; `None` once it has ended.
    pub(in crate::bus) fn report(&self, relay: u64, backlog: Option<OutboxBacklog>) {
        let mut reports = self.0.lock();
        match backlog {
            Some(backlog) => drop(reports.insert(relay, backlog)),
            None => drop(reports.remove(&relay)),
        }
    }

    /// Returns what waits; `None` without a relay in this process.
    pub(in crate::bus) fn backlog(&self) -> Option<OutboxBacklog> {
        let reports = self.0.lock();
        reports.values().copied().reduce(OutboxBacklog::or)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_relays_the_greater_backlog_counts() {
        let outboxes = Outboxes::default();
        assert_eq!(outboxes.backlog(), None);
        let backlog = |waiting, refused| OutboxBacklog {
            waiting,
            refused,
            ..OutboxBacklog::default()
        };
        outboxes.report(1, Some(backlog(5, 1)));
        outboxes.report(2, Some(backlog(7, 2)));
        assert_eq!(outboxes.backlog(), Some(backlog(7, 2)));
        outboxes.report(2, None);
        assert_eq!(outboxes.backlog(), Some(backlog(5, 1)));
    }
}
