//! The limit up to which a relay deletes the ends of events.
//!
//! A clock that jumps ahead makes all of them look old, and without its end an event that is attempted
//! again has its effect again. So no more goes in an hour than a share of what is kept.

use std::time::Duration;

use duly::time::Timestamp;
use tokio::time::Instant;

/// By this part of the time for which ends are kept the limit moves in [`WINDOW`].
const SHARE: u32 = 10;
/// How long a limit stands.
const WINDOW: Duration = Duration::from_secs(3_600);
/// By so much a limit moves at least: twice as fast as time, so that it keeps up.
const MOVE_MIN: Duration = Duration::from_secs(2 * 3_600);

/// The limit of the deletes of one relay.
#[derive(Debug)]
pub(crate) struct EndsLimit {
    kept: Duration,
    /// The limit, and how long it stands.
    limit: Option<(Timestamp, Instant)>,
    is_held_back: bool,
}

impl EndsLimit {
    pub(crate) fn new(kept: Duration) -> Self {
        Self {
            kept,
            limit: None,
            is_held_back: false,
        }
    }

    /// Returns before which time ends may be deleted, of which this is the oldest.
    pub(crate) fn before(
        &mut self,
        now: Timestamp,
        oldest: Option<Timestamp>,
        at: Instant,
    ) -> Timestamp {
        let (wanted, oldest) = (now - self.kept, oldest.unwrap_or(now));
        let limit = match self.limit {
            Some((limit, until)) if at < until => limit,
            last => {
                let from = last.map_or(oldest, |(limit, _)| limit).min(wanted);
                // It does not creep through a time of which there is nothing.
                let from = from.max(oldest - self.kept);
                let limit = from + (self.kept / SHARE).max(MOVE_MIN);
                self.limit = Some((limit, at + WINDOW));
                limit
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
        wanted.min(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);
    const KEPT: Duration = Duration::from_secs(30 * 86_400);

    fn days(days: u32) -> Timestamp {
        Timestamp::EPOCH + days * DAY
    }

    #[test]
    fn a_clock_ahead_deletes_no_more_than_a_share_in_an_hour() {
        let (mut limit, at) = (EndsLimit::new(KEPT), Instant::now());
        let right = limit.before(days(1_000), Some(days(970)), at);
        assert_eq!(right, days(970));
        for hour in 0..5 {
            let oldest = days(970 + 3 * hour);
            for minutes in [1, 59] {
                let at = at + hour * HOUR + minutes * HOUR / 60;
                let before = limit.before(days(2_000), Some(oldest), at);
                assert_eq!(before, days(970 + 3 * (hour + 1)));
            }
        }
        // Set right again, all is as before.
        let right = limit.before(days(1_001), Some(days(985)), at + 6 * HOUR);
        assert_eq!(right, days(971));
        let started = EndsLimit::new(KEPT).before(days(2_000), Some(days(970)), at);
        assert_eq!(started, days(973), "nor after a new start");
    }

    #[test]
    fn time_that_passes_is_never_held_back() {
        for kept in [Duration::from_secs(60), HOUR, KEPT] {
            let (mut limit, at) = (EndsLimit::new(kept), Instant::now());
            for minute in 0..600 {
                let passed = minute * HOUR / 60;
                let oldest = days(900) + passed;
                let before = limit.before(oldest + kept, Some(oldest), at + passed);
                assert_eq!(before, oldest, "{kept:?} after {minute} minutes");
            }
        }
    }

    #[test]
    fn one_that_is_very_old_holds_the_others_back_for_hours_and_not_for_years() {
        let (mut limit, at) = (EndsLimit::new(KEPT), Instant::now());
        let first = limit.before(days(20_000), Some(days(0)), at);
        assert_eq!(first, days(3));
        let hours = (1..100).find(|hour| {
            let before = limit.before(days(20_000), Some(days(19_969)), at + *hour * HOUR);
            before == days(19_970)
        });
        assert_eq!(hours, Some(11));
    }

    #[test]
    fn without_ends_nothing_is_held_back() {
        let (mut limit, at) = (EndsLimit::new(KEPT), Instant::now());
        assert_eq!(limit.before(days(1_000), None, at), days(970));
        assert_eq!(limit.before(days(1_001), None, at + DAY), days(971));
    }
}
