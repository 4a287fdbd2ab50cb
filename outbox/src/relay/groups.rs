//! Groups: the events of one bucket of a queue, which the store takes or refuses together. One that it
//! does not take now has a retry time of its own.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use duly::__outbox::delay_after;
use tokio::time::Instant;

use crate::relay::source::{GROUPS_MAX, PAGE_MAX, paced};

/// A store that has taken nothing for so long may be away as a whole.
const AWAY_AFTER: Duration = Duration::from_secs(10);

/// After so long a scan of a group that has not failed begins anew, though it has not come to its end:
/// rows may be deferred as fast as it goes on.
const SCAN_MAX: Duration = Duration::from_secs(5);

/// The groups of which a relay knows something.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    known: HashMap<String, Group>,
    /// When the store took anything last.
    accepted: Option<Instant>,
}

#[derive(Debug)]
struct Group {
    /// Its pushes in a row of which nothing was accepted.
    failures: u32,
    retry_at: Instant,
    /// Since when a push of it is under way.
    pushing: Option<Instant>,
    /// Whether rows of it wait among the deferred ones.
    has_rows: bool,
    scan: Scan,
}

/// How far the deferred rows of a group were tried, in their order. Those that were not accepted are
/// passed, so that none of them keeps the others from being tried, and are tried again in the next scan.
#[derive(Debug, Default)]
struct Scan {
    /// Since the first row was tried.
    began: Option<Instant>,
    /// How long its first rows were looked for.
    begin: Duration,
    /// Behind this row.
    behind: i64,
    /// What the passed rows are the first of: a later one of the same would overtake it.
    failed: HashSet<String>,
    /// Whether all rows that were taken last follow one that was passed.
    is_skipping: bool,
}

/// The deferred rows of a group that are to be taken next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextRows {
    pub(crate) behind: i64,
    pub(crate) limit: usize,
}

/// How far a push of deferred rows has come.
#[derive(Debug)]
pub(crate) struct ScanStep {
    /// The last row that was tried.
    pub(crate) last: i64,
    /// What the rows that were not accepted are the first of.
    pub(crate) failed: Vec<String>,
}

impl Group {
    fn new(now: Instant) -> Self {
        Self {
            failures: 0,
            retry_at: now,
            pushing: None,
            has_rows: false,
            scan: Scan::default(),
        }
    }
}

impl Groups {
    /// Returns whether rows of it wait among the deferred ones, as far as is known.
    pub(crate) fn has_rows(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|group| group.has_rows)
    }

    /// Returns which of its rows are to be taken next: of a group that has failed one, to see whether it
    /// goes on.
    pub(crate) fn next_rows(&mut self, name: &str, now: Instant) -> NextRows {
        let Some(group) = self.known.get_mut(name) else {
            return NextRows {
                behind: 0,
                limit: 1,
            };
        };
        let scan_max = paced(SCAN_MAX, group.scan.begin);
        let is_old = |began| now.saturating_duration_since(began) >= scan_max;
        if group.failures == 0 && group.scan.began.is_some_and(is_old) {
            group.scan = Scan::default();
        }
        let is_probe = group.failures > 0 && !group.scan.is_skipping;
        NextRows {
            behind: group.scan.behind,
            limit: if is_probe { 1 } else { PAGE_MAX },
        }
    }

    /// Notes how long its next rows were looked for.
    pub(crate) fn looked(&mut self, name: &str, took: Duration) {
        if let Some(group) = self.known.get_mut(name)
            && group.scan.began.is_none()
        {
            group.scan.begin = took;
        }
    }

    /// Returns whether a row of it follows one that was passed.
    pub(crate) fn follows_passed(&self, name: &str, key: &str) -> bool {
        let group = self.known.get(name);
        group.is_some_and(|group| group.scan.failed.contains(key))
    }

    /// Notes that its rows up to this one follow others that were passed.
    pub(crate) fn skipped(&mut self, name: &str, last: i64, now: Instant) {
        self.scanned(name, (last, true), now);
    }

    /// Notes that its rows up to this one were tried.
    pub(crate) fn tried(&mut self, name: &str, step: ScanStep, now: Instant) {
        let scan = self.scanned(name, (step.last, false), now);
        scan.failed.extend(step.failed);
    }

    fn scanned(&mut self, name: &str, to: (i64, bool), now: Instant) -> &mut Scan {
        let scan = &mut self.of(name, now).scan;
        scan.began.get_or_insert(now);
        (scan.behind, scan.is_skipping) = to;
        scan
    }

    /// Returns whether its events are not to be pushed now: the last push has failed or is under way.
    pub(crate) fn is_blocked(&self, name: &str) -> bool {
        let group = self.known.get(name);
        group.is_some_and(|group| group.pushing.is_some() || group.failures > 0)
    }

    /// Returns whether it is blocked by a push alone that is under way for less than so long: it will
    /// soon be known whether the store takes its events.
    pub(crate) fn is_soon_known(&self, name: &str, now: Instant, less_than: Duration) -> bool {
        let group = self.known.get(name).filter(|group| group.failures == 0);
        let began = group.and_then(|group| group.pushing);
        began.is_some_and(|began| now.saturating_duration_since(began) < less_than)
    }

    /// Returns whether a group has failed and nothing was accepted for a while.
    pub(crate) fn may_store_be_away(&self, now: Instant) -> bool {
        let is_long_ago = |at: Instant| at + AWAY_AFTER < now;
        !self.is_well() && self.accepted.is_none_or(is_long_ago)
    }

    /// Notes that the store has replied.
    pub(crate) fn store_replied(&mut self, now: Instant) {
        self.accepted = Some(now);
    }

    /// Returns whether no group has failed.
    pub(crate) fn is_well(&self) -> bool {
        self.known.values().all(|group| group.failures == 0)
    }

    /// Notes that a push of it is under way.
    pub(crate) fn begin(&mut self, name: &str, now: Instant) {
        self.of(name, now).pushing = Some(now);
    }

    /// Notes the result of a push: whether any event was accepted, or all were settled.
    pub(crate) fn end(&mut self, name: &str, is_accepted: bool, now: Instant) {
        if is_accepted {
            self.accepted = Some(now);
        }
        let group = self.of(name, now);
        group.pushing = None;
        if is_accepted {
            (group.failures, group.retry_at) = (0, now);
        } else {
            group.failures = group.failures.saturating_add(1);
            group.retry_at = now + delay_after(group.failures);
        }
    }

    /// Notes that rows of it were deferred.
    pub(crate) fn deferred(&mut self, name: &str, now: Instant) {
        self.of(name, now).has_rows = true;
    }

    /// Notes that no rows of it are left to take: the next scan begins, or the group comes behind the
    /// others once it is found again. Returns whether it is: another relay may have its rows.
    pub(crate) fn emptied(&mut self, name: &str, now: Instant) -> bool {
        let Some(group) = self.known.get_mut(name) else {
            return true;
        };
        let scan = std::mem::take(&mut group.scan);
        if scan.behind == 0 {
            (group.has_rows, group.retry_at) = (false, now);
        }
        !group.has_rows
    }

    /// Takes the names of the groups that have deferred rows: those of other relays, and of this one
    /// before it started, are tried at once. Groups without rows that are not being pushed are
    /// forgotten, so that there are no more than were found.
    pub(crate) fn found(&mut self, names: Vec<String>, now: Instant) {
        for group in self.known.values_mut() {
            group.has_rows = false;
        }
        for name in names {
            let group = self.known.entry(name).or_insert_with(|| Group {
                failures: 1, // as its rows would not be there otherwise
                ..Group::new(now)
            });
            group.has_rows = true;
        }
        self.known
            .retain(|_, group| group.has_rows || group.pushing.is_some());
    }

    /// Returns groups with deferred rows that are to be tried now, each with whether its last push has
    /// failed.
    pub(crate) fn due(&self, now: Instant, limit: usize) -> Vec<(String, bool)> {
        let due = self.known.iter().filter(|(_, group)| {
            group.has_rows && group.pushing.is_none() && group.retry_at <= now
        });
        let mut due: Vec<_> = due.collect();
        due.sort_unstable_by_key(|(_, group)| (group.failures > 0, group.retry_at));
        let due = due.into_iter().take(limit);
        due.map(|(name, group)| (name.clone(), group.failures > 0))
            .collect()
    }

    /// Returns when a group is to be tried next, one that has failed not before `probe_at`.
    pub(crate) fn next_retry(&self, probe_at: Instant) -> Option<Instant> {
        let waiting = self.known.values();
        let waiting = waiting.filter(|group| group.has_rows && group.pushing.is_none());
        let retry_at = |group: &Group| match group.failures {
            0 => group.retry_at,
            _ => group.retry_at.max(probe_at),
        };
        waiting.map(retry_at).min()
    }

    fn of(&mut self, name: &str, now: Instant) -> &mut Group {
        // Not by `entry`, which would copy the name each time.
        if !self.known.contains_key(name) {
            self.known.insert(name.to_owned(), Group::new(now));
        }
        self.known
            .get_mut(name)
            .unwrap_or_else(|| unreachable!("it was put there"))
    }
}

/// Where a list of the groups that have deferred rows begins. Of more than [`GROUPS_MAX`] each list goes
/// on behind the one before, so that those which stay blocked keep no other from being tried.
#[derive(Debug, Default)]
pub(crate) struct GroupList {
    /// Behind this group.
    pub(crate) behind: String,
}

impl GroupList {
    /// Returns whether the list goes on with the first groups, behind the last.
    pub(crate) fn goes_round(&self, names: &[String]) -> bool {
        names.len() < GROUPS_MAX && !self.behind.is_empty()
    }

    /// Notes how far a list has come, which it limits.
    pub(crate) fn listed(&mut self, names: &mut Vec<String>) {
        names.truncate(GROUPS_MAX);
        let last = names.get(GROUPS_MAX - 1);
        self.behind = last.cloned().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
