//! What sums a work up: one of its figures, as a ratio to the ceiling and to the best peer.

use super::Table;
use crate::contenders::{CEILING, Entry};
use crate::work::Work;

/// A base, and its figure.
pub(super) type Base = (&'static str, f64);

impl Table {
    /// The figure of a work that is compared, and what it is compared with.
    pub(super) fn summary(
        &self,
        work: Work,
        columns: &[Entry],
    ) -> Option<(&'static str, [Option<Base>; 2])> {
        let (line, more_is_better) = match work {
            Work::Push | Work::Bulk | Work::Drain | Work::Single | Work::Own => ("events/s", true),
            Work::Own5 | Work::Own1 => ("p99 ms", false),
            Work::Late | Work::Fast | Work::Shipped => ("p99 ms", false),
            Work::Herd | Work::Ahead => ("last ms", false),
            Work::Mixed | Work::Failing | Work::Cancelled => return None,
            Work::Idle | Work::Resting => return None,
        };
        let ceiling = self.value(work, CEILING, line);
        let peers = columns
            .iter()
            .filter(|entry| entry.peer && self.all_done(work, entry.name));
        let figures = peers.filter_map(|entry| self.value(work, entry.name, line));
        let best = match more_is_better {
            true => figures.max_by(f64::total_cmp),
            false => figures.min_by(f64::total_cmp),
        };
        let base = |name, value: Option<f64>| value.filter(|it| *it > 0.0).map(|it| (name, it));
        Some((line, [base("ceiling", ceiling), base("best peer", best)]))
    }

    /// Whether a contender started every event of a work, once and none early.
    fn all_done(&self, work: Work, contender: &'static str) -> bool {
        let none = |name: &&str| self.value(work, contender, name).unwrap_or(0.0) == 0.0;
        ["missing", "doubled", "early", "of only"].iter().all(none)
    }
}
