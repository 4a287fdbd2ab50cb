//! The plan of a schedule at a time: the occurrences that it pushes and passes over, and when it
//! is looked at again. Pure: the time is an input.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::{Occurrence, SkipReason};
use crate::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use crate::time::Timestamp;

/// Occurrences are pushed until one is further ahead than this, so that a fleet may be away for as
/// long and loses no punctuality.
const LEAD: Duration = Duration::from_secs(60);
/// The least time that the last one pushed is ahead when the schedule is looked at again.
const LEAD_MIN: Duration = Duration::from_secs(30);
/// The most occurrences that one look pushes ahead.
const AHEAD_MAX: usize = 64;
/// An instant that nothing was pushed for is missed after this; before, it is only late.
pub(crate) const GRACE: Duration = Duration::from_secs(60);
/// The most missed instants that one look goes through; another one follows at once.
const MISSED_MAX: usize = 10_000;
/// The most missed instants that have a record of their own; earlier ones are counted in the first.
const SKIPPED_MAX: usize = 1_000;
/// So many of the latest are decided one by one.
const DECIDED_MAX: usize = SKIPPED_MAX + crate::schedule::MAKE_UP_MAX as usize;
/// How soon a schedule is looked at again that waits for its last occurrence to end: a part of the
/// time that it has run for, between these.
const WAITS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// How far a schedule has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Every instant until then is decided: pushed, or passed over.
    pub(crate) through: Timestamp,
    /// The last instant that was pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Timestamp>,
    /// How many were missed since, for which the next one that is pushed stands as well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) missed: u64,
    /// How many were passed over that no record says yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) unsaid: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What one look at a schedule decides.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// What is pushed, in order; those with a reason in `skipped` leave a record alone.
    pub(crate) occurrences: Vec<Occurrence>,
    pub(crate) progress: Progress,
    /// When the schedule is looked at again; `None`: it has no instants left.
    pub(crate) look_at: Option<Timestamp>,
}

/// Decides what a schedule does at `now`. `decided`: instants that it passes over, beside those that
/// its progress has come to. `until`: the last instant that it may have, if there is one. `busy_for`:
/// how long its last occurrence has run for, or waited, if it has not ended.
pub(crate) fn plan(
    (name, options): (&str, &ScheduleOptions),
    (progress, decided, until): (Progress, &BTreeSet<Timestamp>, Option<Timestamp>),
    now: Timestamp,
    busy_for: Option<Duration>,
) -> Plan {
    let mut planner = Planner {
        name,
        occurrences: Vec::new(),
        progress,
        decided,
        until,
    };
    let look_at = match options.overlap_policy() {
        _ if until.is_some_and(|until| progress.through >= until) => None,
        _ if planner.make_up(options, now) => Some(now),
        OverlapPolicy::Allow => planner.ahead(options, now),
        overlap => planner.in_turn(options, now, overlap, busy_for),
    };
    Plan {
        occurrences: planner.occurrences,
        progress: planner.progress,
        look_at,
    }
}

struct Planner<'a> {
    name: &'a str,
    occurrences: Vec<Occurrence>,
    progress: Progress,
    decided: &'a BTreeSet<Timestamp>,
    until: Option<Timestamp>,
}

impl<'p> Planner<'p> {
    /// The instants that are not decided yet, in order.
    fn instants<'a>(
        &self,
        options: &'a ScheduleOptions,
    ) -> impl Iterator<Item = Timestamp> + use<'a, 'p> {
        let (decided, until) = (self.decided, self.until);
        let instants = options.instants(self.progress.through);
        let instants = instants.filter(|instant| !decided.contains(instant));
        instants.take_while(move |instant| until.is_none_or(|until| *instant <= until))
    }

    /// Adds an occurrence that is run, for itself and those that were missed before.
    fn run(&mut self, instant: Timestamp) {
        let previous = self.progress.last.replace(instant);
        let missed = std::mem::take(&mut self.progress.missed);
        self.add(instant, previous, missed, None);
    }

    fn skip(&mut self, instant: Timestamp, missed: u64, reason: SkipReason) {
        self.add(instant, self.progress.last, missed, Some(reason));
    }

    fn add(
        &mut self,
        instant: Timestamp,
        previous: Option<Timestamp>,
        missed: u64,
        skipped: Option<SkipReason>,
    ) {
        self.progress.through = instant;
        self.occurrences.push(Occurrence {
            schedule: self.name.to_owned(),
            instant,
            previous,
            missed,
            skipped,
        });
    }

    /// Decides what was missed; returns whether there is more of it.
    fn make_up(&mut self, options: &ScheduleOptions, now: Timestamp) -> bool {
        let missed_until = before(now, GRACE);
        let mut missed = VecDeque::new();
        let mut passed = 0;
        let instants = self.instants(options);
        let instants = instants.take_while(|instant| *instant <= missed_until);
        for instant in instants.take(MISSED_MAX) {
            missed.push_back(instant);
            if missed.len() > DECIDED_MAX
                && let Some(earlier) = missed.pop_front()
            {
                self.progress.through = earlier;
                passed += 1;
            }
        }
        let is_all = passed + missed.len() < MISSED_MAX;
        // What is run are the latest of all: if there may be more, these are left to the next look.
        let run = match options.missed_policy() {
            _ if !is_all => missed.len(),
            MissedPolicy::Skip => 0,
            MissedPolicy::Once => 1,
            MissedPolicy::All(most) => usize::from(most),
        };
        let skipped = missed.len().saturating_sub(run);
        self.progress.unsaid += passed as u64;
        if options.missed_policy() != MissedPolicy::Skip {
            self.progress.missed += (passed + skipped) as u64;
        }
        if !is_all {
            return true;
        }
        let in_turn = options.overlap_policy() != OverlapPolicy::Allow;
        let first = skipped.saturating_sub(SKIPPED_MAX);
        self.progress.unsaid += first as u64;
        for (place, instant) in missed.into_iter().enumerate().skip(first) {
            if place < skipped {
                let earlier = std::mem::take(&mut self.progress.unsaid);
                self.skip(instant, earlier, SkipReason::Missed);
            } else if !in_turn {
                self.run(instant);
            }
        }
        false
    }

    /// Pushes what is due, and what will be, until one is [`LEAD`] ahead.
    fn ahead(&mut self, options: &ScheduleOptions, now: Timestamp) -> Option<Timestamp> {
        let lead = now + LEAD;
        let mut pushed = 0;
        if self.progress.through <= lead {
            for instant in self.instants(options).take(AHEAD_MAX) {
                self.run(instant);
                pushed += 1;
                if instant > lead {
                    break;
                }
            }
        }
        let last = self.progress.through;
        if last <= lead && pushed < AHEAD_MAX {
            return None;
        }
        let least = if last > lead {
            now + Duration::from_millis(1)
        } else {
            now
        };
        Some(before(last, LEAD_MIN).max(least))
    }

    /// Pushes the next one if it is due and none runs.
    fn in_turn(
        &mut self,
        options: &ScheduleOptions,
        now: Timestamp,
        overlap: OverlapPolicy,
        mut busy_for: Option<Duration>,
    ) -> Option<Timestamp> {
        let mut instants = self.instants(options).peekable();
        for _ in 0..AHEAD_MAX {
            let next = *instants.peek()?;
            if next > now {
                return Some(next);
            }
            match (overlap, busy_for) {
                (_, None) => {
                    self.run(next);
                    busy_for = Some(Duration::ZERO);
                }
                // Not a part of the time that this one has waited: whoever is far behind would
                // fall behind further.
                (OverlapPolicy::Wait, Some(busy_for)) => {
                    return Some(now + (busy_for / 4).clamp(WAITS.0, WAITS.1));
                }
                _ => self.skip(next, 0, SkipReason::Overlap),
            }
            instants.next();
        }
        Some(now)
    }
}

/// The time so long before an instant.
fn before(instant: Timestamp, span: Duration) -> Timestamp {
    let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(instant.as_millis().saturating_sub(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decides all that was missed at `now` by a schedule of each second that was decided until
    /// `through`: the occurrences of all looks, in order.
    fn made_up(options: &ScheduleOptions, through: Timestamp, now: Timestamp) -> Vec<Occurrence> {
        let mut progress = Progress {
            through,
            last: None,
            missed: 0,
            unsaid: 0,
        };
        let mut all = Vec::new();
        loop {
            let plan = plan(
                ("often", options),
                (progress, &BTreeSet::new(), None),
                now,
                None,
            );
            assert!(plan.progress.through > progress.through, "it goes on");
            progress = plan.progress;
            all.extend(plan.occurrences);
            if plan.look_at != Some(now) {
                all.retain(|one| one.instant <= before(now, GRACE));
                return all;
            }
        }
    }

    #[test]
    fn as_many_are_made_up_for_however_many_looks_it_takes() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        for (policy, expected) in [
            (MissedPolicy::Skip, 0),
            (MissedPolicy::Once, 1),
            (MissedPolicy::All(24), 24),
            (MissedPolicy::All(1_000), 1_000),
        ] {
            let options = ScheduleOptions::new("report", "every 1s").unwrap();
            let options = options.missed(policy);
            for missed in [
                9_999, 10_000, 10_001, 10_010, 11_999, 18_000, 18_001, 123_456,
            ] {
                let through = before(now, GRACE + Duration::from_secs(missed));
                let all = made_up(&options, through, now);
                let run = all.iter().filter(|one| one.skipped.is_none());
                let run: Vec<_> = run.map(|one| one.instant).collect();
                let latest = (0..expected).rev();
                let latest: Vec<_> = latest
                    .map(|earlier| before(now, GRACE + Duration::from_secs(earlier)))
                    .collect();
                assert_eq!(run, latest, "{policy} of {missed}");
                let skipped = all.iter().filter(|one| one.skipped.is_some());
                let skipped: u64 = skipped.map(|one| one.missed + 1).sum();
                assert_eq!(skipped + expected, missed, "{policy}: each is in a record");
                assert!(all.len() <= DECIDED_MAX, "{policy}: {} records", all.len());
                assert!(all.is_sorted_by_key(|one| one.instant), "{policy}");
            }
        }
    }
}
