//! The limit of a step of pruning: the clocks that it trusts, and its pace.
//!
//! A clock that jumps ahead makes everything look old. So what is too old is decided by the earliest
//! of three times, and in an hour no more is removed than a share of the age: whoever has read the
//! warning has hours left. Every journal goes by this.

use std::time::Duration;

use crate::panics;
use crate::record::Keep;
use crate::time::Timestamp;

/// By this part of the age the limit moves in [`WINDOW`], so that it takes ten hours to remove
/// all that is kept.
const SHARE: u64 = 10;

/// How long a limit stands before the next one is set.
const WINDOW: Duration = Duration::from_hours(1);

/// By so much a limit moves at least: twice as fast as time, so that it keeps up with any age.
const MOVE_MIN: Duration = Duration::from_hours(2);

/// What a step knows of time, in microseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The store's, as the recorder says it.
    pub(crate) store: u64,
    /// The journal's own; the same where it has none.
    pub(crate) clock: u64,
    /// Of the newest of what it keeps; `None` where it keeps nothing.
    pub(crate) newest: Option<u64>,
}

/// The limit as it is kept in the journal, so that neither a new start nor another node moves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// When it was set, by the journal's clock.
    pub(crate) set: u64,
    /// From where it counts.
    pub(crate) from: u64,
    /// Up to where a step was last allowed to remove.
    pub(crate) through: u64,
}

/// What a step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PruneAllowance {
    /// What is older than this may be removed.
    pub(crate) before: u64,
    /// Whether more is beyond the age, and has to wait.
    pub(crate) is_held_back: bool,
    /// To be kept for the next step.
    pub(crate) pace: Pace,
}

/// How far a step may go that keeps `age`; `at_once`: however much that is.
///
/// `oldest` returns the time of the oldest of what is kept, and is asked once in an hour.
///
/// # Errors
///
/// Those of `oldest`.
pub(crate) fn allowed<E>(
    age: Duration,
    at_once: bool,
    times: Times,
    kept: Option<Pace>,
    oldest: impl FnOnce() -> Result<Option<u64>, E>,
) -> Result<PruneAllowance, E> {
    let newest = times.newest.unwrap_or(u64::MAX);
    let now = times.store.min(times.clock).min(newest);
    let age_us = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
    let wanted = now.saturating_sub(age_us);
    let is_current = |pace: &Pace| {
        // A clock that was set back begins anew, or this limit would stand until it is there again.
        times.clock >= pace.set && times.clock - pace.set < micros(WINDOW)
    };
    let mut pace = match kept.filter(is_current) {
        Some(pace) => pace,
        None => Pace {
            set: times.clock,
            from: kept
                .map_or(0, |pace| pace.through)
                .max(oldest()?.unwrap_or(wanted)),
            through: 0,
        },
    };
    let limit = pace
        .from
        .saturating_add((age_us / SHARE).max(micros(MOVE_MIN)));
    let before = if at_once { wanted } else { wanted.min(limit) };
    if before > limit {
        pace.from = before;
    }
    pace.through = before;
    Ok(PruneAllowance {
        before,
        is_held_back: before < wanted,
        pace,
    })
}

/// Warns that a step was held back, once for each time that this begins.
pub(crate) fn warn_held_back(keep: Keep, now: Timestamp) {
    panics::reported(|| {
        tracing::warn!(
            keep = ?keep.age,
            keep_minutes = ?keep.minutes,
            now = %now,
            "more than a share of the journal is too old: it is removed over hours; if a clock is \
             ahead, set it right, else `records.prune_at_once` removes it at once"
        );
    });
}

/// The time of the end of the newest minute, as that of a record in it.
pub(crate) fn end_of(minute: Timestamp) -> u64 {
    minute.as_micros().saturating_add(60_000_000)
}

fn micros(span: Duration) -> u64 {
    span.as_micros() as u64 // a few hours
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    const AGE: Duration = Duration::from_hours(30 * 24);
    const START: u64 = 1_000 * DAY;

    fn step(times: Times, kept: Option<Pace>, oldest: u64) -> PruneAllowance {
        let oldest = || Ok::<_, ()>(Some(oldest));
        allowed(AGE, false, times, kept, oldest).expect("no error")
    }

    fn all_at(now: u64) -> Times {
        Times {
            store: now,
            clock: now,
            newest: Some(now),
        }
    }

    #[test]
    fn the_earliest_of_three_times_counts() {
        let now = START + 31 * DAY;
        for ahead in [
            Times {
                store: now + YEAR,
                ..all_at(now)
            },
            Times {
                clock: now + YEAR,
                ..all_at(now)
            },
            Times {
                newest: Some(now + YEAR),
                ..all_at(now)
            },
            Times {
                newest: None,
                ..all_at(now)
            },
        ] {
            let PruneAllowance {
                before,
                is_held_back,
                ..
            } = step(ahead, None, START);
            assert_eq!((before, is_held_back), (START + DAY, false), "{ahead:?}");
        }
    }

    #[test]
    fn a_clock_ahead_empties_nothing_before_ten_hours_have_passed() {
        let mut kept = None;
        let mut before = 0;
        for hour in 0..10 {
            for minute in [0, 59] {
                let now = START + YEAR + hour * HOUR + minute * (HOUR / 60);
                let allowed = step(all_at(now), kept, START.max(before));
                assert!(allowed.is_held_back);
                assert_eq!(allowed.before, START + (hour + 1) * 3 * DAY);
                (kept, before) = (Some(allowed.pace), allowed.before);
            }
        }
        // Set right again: nothing more goes, and the age is kept as before.
        let right = START + 31 * DAY;
        let allowed = step(all_at(right), kept, before);
        assert_eq!((allowed.before, allowed.is_held_back), (START + DAY, false));
    }

    #[test]
    fn a_limit_moves_on_although_what_is_below_it_has_to_wait() {
        let now = START + YEAR;
        let first = step(all_at(now), None, START);
        let second = step(all_at(now + HOUR), Some(first.pace), START);
        assert_eq!(second.before, first.before + 3 * DAY);
    }

    #[test]
    fn time_that_passes_is_never_held_back() {
        for age in [Duration::ZERO, Duration::from_secs(1), AGE] {
            let age_us = age.as_micros() as u64;
            let mut kept = None;
            for minute in 0..600 {
                let now = START + age_us + minute * (HOUR / 60);
                let oldest = || Ok::<_, ()>(Some(now - age_us));
                let allowed = allowed(age, false, all_at(now), kept, oldest).expect("no error");
                assert!(!allowed.is_held_back, "{age:?} after {minute} minutes");
                kept = Some(allowed.pace);
            }
        }
    }

    #[test]
    fn all_goes_at_once_where_that_is_asked_for() {
        let now = START + YEAR;
        let oldest = || Ok::<_, ()>(Some(START));
        let allowed = allowed(AGE, true, all_at(now), None, oldest).expect("no error");
        assert_eq!(allowed.before, now - 30 * DAY);
        assert!(!allowed.is_held_back);
    }
}
