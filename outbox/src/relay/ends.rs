//! The limit up to which a relay deletes the ends of events.
//!
//! A clock that jumps ahead makes all of them look old, and without its end an event that is attempted
//! again has its effect again. So no more goes in an hour than a share of what is kept.

use std::time::Duration;

use duly::time::Timestamp;
use tokio::time::Instant;

use crate::relay::source::{Ends, StoredLimit};

/// By this part of the time for which ends are kept the limit moves in [`WINDOW`].
const SHARE: u32 = 10;
/// How often the ends are read from the begin.
const WHOLE_EVERY: Duration = Duration::from_secs(600);
/// How long a limit stands.
const WINDOW: Duration = Duration::from_secs(3_600);
/// By so much a limit moves at least: twice as fast as time, so that it keeps up.
const MOVE_MIN: Duration = Duration::from_secs(2 * 3_600);

/// The limit of the deletes. It is in the database, so that neither another relay nor a new start
/// moves it sooner.
#[derive(Debug)]
pub(crate) struct EndsLimit {
    kept: Duration,
    /// How long the one stands that this relay has set, whatever the clock does.
    until: Option<Instant>,
    is_held_back: bool,
}

impl EndsLimit {
    pub(crate) fn new(kept: Duration) -> Self {
        Self {
            kept,
            until: None,
            is_held_back: false,
        }
    }

    /// Returns from before which time ends may be deleted, and the limit if it has moved.
    pub(crate) fn before(&mut self, ends: Ends, at: Instant) -> (Timestamp, Option<StoredLimit>) {
        let Ends { now, limit, .. } = ends;
        let (wanted, oldest) = (now - self.kept, ends.oldest.unwrap_or(now));
        let stands_here = self.until.is_some_and(|until| at < until);
        // One that stands for longer was set by a clock that was ahead.
        let stands = |it: &StoredLimit| stands_here || now < it.until && it.until <= now + WINDOW;
        let (limit, moved) = match limit.filter(stands) {
            Some(limit) => (limit.before, None),
            None => {
                let from = limit.map_or(oldest, |limit| limit.before).min(wanted);
                // It does not creep through a time of which there is nothing.
                let from = from.max(oldest - self.kept);
                let before = from + (self.kept / SHARE).max(MOVE_MIN);
                let until = now + WINDOW;
                self.until = Some(at + WINDOW);
                (before, Some(StoredLimit { before, until }))
            }
        };
        let is_held_back = oldest < wanted && limit < wanted;
        if is_held_back && !self.is_held_back {
            tracing::warn!(
                done_kept = ?self.kept,
                %now,
                "more than a share of `duly_done` is too old: it is deleted over hours; if the clock \
                 of the database is ahead, set it right"
            );
        }
        self.is_held_back = is_held_back;
        (wanted.min(limit), moved)
    }
}

/// Where a read of the oldest ends begins.
///
/// A snapshot that somebody holds keeps deleted ends in the index, and what reads from its begin walks
/// all of them. So a read begins behind what was deleted. An end of before that, whose transaction has
/// committed late, is found by a read from the begin, of which there are few.
#[derive(Debug)]
pub(crate) struct EndsStart {
    from: Timestamp,
    deleted: Timestamp,
    whole: Option<Instant>,
}

impl EndsStart {
    pub(crate) fn new() -> Self {
        Self {
            from: Timestamp::EPOCH,
            deleted: Timestamp::EPOCH,
            whole: None,
        }
    }

    /// Begins a sweep, and returns the time from which on it reads. What fails from the begin on is not
    /// tried again at once.
    pub(crate) fn begin(&mut self, now: Instant) -> Timestamp {
        let is_whole = self.whole.is_none_or(|whole| now >= whole + WHOLE_EVERY);
        if is_whole {
            self.whole = Some(now);
        }
        self.from = if is_whole {
            Timestamp::EPOCH
        } else {
            self.deleted
        };
        self.from
    }

    /// Returns the time from which on this sweep reads.
    pub(crate) fn from(&self) -> Timestamp {
        self.from
    }

    /// Notes that the ends up to this time were deleted.
    pub(crate) fn deleted(&mut self, until: Timestamp) {
        (self.from, self.deleted) = (until, until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_ends_from_the_begin_are_few() {
        let now = Instant::now();
        let mut start = EndsStart::new();
        assert_eq!(start.begin(now), Timestamp::EPOCH);
        start.deleted(days(3));
        assert_eq!(start.from(), days(3));
        let later = |part| now + WHOLE_EVERY * part / 4;
        assert_eq!(start.begin(later(3)), days(3));
        assert_eq!(start.begin(later(4)), Timestamp::EPOCH, "late ones");
        // It has failed.
        assert_eq!(start.begin(later(5)), days(3));
        assert_eq!(start.begin(later(8)), Timestamp::EPOCH);
        start.deleted(days(1)); // there are many
        assert_eq!(start.begin(later(9)), days(1));
    }

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);
    const KEPT: Duration = Duration::from_secs(30 * 86_400);

    fn days(days: u32) -> Timestamp {
        Timestamp::EPOCH + days * DAY
    }

    /// What a relay reads and stores.
    struct Database {
        relay: EndsLimit,
        stored: Option<StoredLimit>,
    }

    impl Database {
        fn new(kept: Duration) -> Self {
            Self {
                relay: EndsLimit::new(kept),
                stored: None,
            }
        }

        fn before(&mut self, now: Timestamp, oldest: Option<Timestamp>, at: Instant) -> Timestamp {
            let ends = Ends {
                now,
                oldest,
                limit: self.stored,
            };
            let (before, moved) = self.relay.before(ends, at);
            self.stored = moved.or(self.stored);
            before
        }
    }

    #[test]
    fn a_clock_ahead_deletes_no_more_than_a_share_in_an_hour() {
        let (mut database, at) = (Database::new(KEPT), Instant::now());
        let right = database.before(days(1_000), Some(days(970)), at);
        assert_eq!(right, days(970));
        for hour in 0..5 {
            let oldest = days(970 + 3 * hour);
            for minutes in [1, 59] {
                let passed = hour * HOUR + minutes * HOUR / 60;
                let before = database.before(days(2_000) + passed, Some(oldest), at + passed);
                assert_eq!(before, days(970 + 3 * (hour + 1)));
                if minutes == 1 && hour > 0 {
                    database.relay = EndsLimit::new(KEPT); // nor does a new start
                }
            }
        }
        // Set right again, all is as before.
        let right = database.before(days(1_001), Some(days(985)), at + 6 * HOUR);
        assert_eq!(right, days(971));
    }

    #[test]
    fn time_that_passes_is_never_held_back() {
        for kept in [Duration::from_secs(60), HOUR, KEPT] {
            let (mut database, at) = (Database::new(kept), Instant::now());
            for minute in 0..600 {
                let passed = minute * HOUR / 60;
                let oldest = days(900) + passed;
                let before = database.before(oldest + kept, Some(oldest), at + passed);
                assert_eq!(before, oldest, "{kept:?} after {minute} minutes");
                if minute % 7 == 0 {
                    database.relay = EndsLimit::new(kept);
                }
            }
        }
    }

    #[test]
    fn one_that_is_very_old_holds_the_others_back_for_hours_and_not_for_years() {
        let (mut database, at) = (Database::new(KEPT), Instant::now());
        let first = database.before(days(20_000), Some(days(0)), at);
        assert_eq!(first, days(3));
        let hours = (1..100).find(|hour| {
            let (now, at) = (days(20_000) + *hour * HOUR, at + *hour * HOUR);
            let before = database.before(now, Some(days(19_969)), at);
            before == now - KEPT
        });
        assert_eq!(hours, Some(11));
    }

    #[test]
    fn without_ends_nothing_is_held_back() {
        let (mut database, at) = (Database::new(KEPT), Instant::now());
        assert_eq!(database.before(days(1_000), None, at), days(970));
        assert_eq!(database.before(days(1_001), None, at + DAY), days(971));
    }
}
