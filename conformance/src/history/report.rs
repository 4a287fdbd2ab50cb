//! The report of an account.

use std::fmt;
use std::ops::AddAssign;

use super::promise::BrokenPromise;

/// The limit of violations that a report keeps in full; it counts all of them.
const BROKEN_MAX: usize = 16;

/// The counters of a run: the first part shows that the run was meaningful, the second part must be
/// zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Processes or servers that were killed, as counted by the caller.
    pub kills: u64,
    /// Events whose push was sent.
    pub pushed: u64,
    /// Pushes that were confirmed.
    pub answered: u64,
    /// Pushes with an unknown result.
    pub unknown: u64,
    /// Pushes that failed with *nothing happened*.
    pub refused: u64,
    /// Events whose cancel was confirmed.
    pub cancelled: u64,
    /// Events whose handler started.
    pub handled: u64,
    /// Starts, including repeats.
    pub starts: u64,
    /// Events whose handler started more than once, after a failure or a lost lease.
    pub handled_again: u64,
    /// Attempts that ended because their node was silent.
    pub leases_lost: u64,
    /// Dead letters.
    pub dead: u64,
    /// Starts before the due time.
    pub early: u64,
    /// Accepted events without any trace: no start, no record, no state.
    pub lost: u64,
    /// Events whose log, records and state disagree.
    pub unaccounted: u64,
    /// The first violations, each with an event that shows it.
    pub broken: Vec<BrokenPromise>,
}

impl Report {
    /// Returns whether no promise was broken.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.early + self.lost + self.unaccounted == 0 && self.broken.is_empty()
    }

    pub(super) fn add_broken(&mut self, broken: BrokenPromise) {
        if self.broken.len() < BROKEN_MAX {
            self.broken.push(broken);
        }
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.pushed += other.pushed;
        self.answered += other.answered;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.cancelled += other.cancelled;
        self.handled += other.handled;
        self.starts += other.starts;
        self.handled_again += other.handled_again;
        self.leases_lost += other.leases_lost;
        self.dead += other.dead;
        self.early += other.early;
        self.lost += other.lost;
        self.unaccounted += other.unaccounted;
        other
            .broken
            .into_iter()
            .for_each(|broken| self.add_broken(broken));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = [
            ("kills", self.kills),
            ("pushed", self.pushed),
            ("answered", self.answered),
            ("unknown", self.unknown),
            ("refused", self.refused),
            ("cancelled", self.cancelled),
            ("handled", self.handled),
            ("starts", self.starts),
            ("handled again", self.handled_again),
            ("leases lost", self.leases_lost),
            ("dead", self.dead),
            ("early", self.early),
            ("lost", self.lost),
            ("unaccounted", self.unaccounted),
        ];
        for (name, count) in counted {
            writeln!(f, "{name:>14}  {count:>9}")?;
        }
        for broken in &self.broken {
            match broken.id {
                Some(id) => writeln!(f, "{id}: {broken}")?,
                None => writeln!(f, "{broken}")?,
            }
        }
        Ok(())
    }
}
