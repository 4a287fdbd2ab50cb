//! The clock of a shared state, as a server knows it by its replies.

use std::sync::atomic::{AtomicI64, Ordering};

use duly::time::Timestamp;

/// How far the clock of the state is ahead of this server's, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct TimeAhead(AtomicI64);

impl TimeAhead {
    /// Notes a time of the state, read at some moment between a question and its reply. What was known
    /// stays where it agrees with that: a late reply makes no token last longer than it has.
    pub(super) fn note(&self, state: Timestamp, sent: Timestamp, replied: Timestamp) {
        let ahead_of = |time: Timestamp| {
            let time = time.as_millis().cast_signed();
            state.as_millis().cast_signed().saturating_sub(time)
        };
        let (least, most) = (ahead_of(replied), ahead_of(sent));
        // Of two replies at once either may be noted last: both agree with the clock.
        let known = self.ms();
        self.0.store(known.min(most).max(least), Ordering::Relaxed);
    }

    /// Returns it, as of the last reply.
    pub(super) fn ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reply_changes_nothing_and_a_changed_clock_does() {
        let ahead = TimeAhead::default();
        let note = |state: u64, sent: u64, replied: u64| {
            let [state, sent, replied] = [state, sent, replied].map(Timestamp::from_millis);
            ahead.note(state, sent, replied);
            ahead.ms()
        };
        assert_eq!(note(5_500, 1_000, 1_001), 4_499, "the least that it can be");
        assert_eq!(note(6_500, 1_990, 9_000), 4_499, "late on the way back");
        assert_eq!(note(6_502, 2_000, 2_000), 4_502, "a quick one knows more");
        assert_eq!(note(9_000, 2_000, 4_498), 4_502, "late on the way there");
        assert_eq!(note(2_000, 5_000, 5_001), -3_000, "the clock was set");
    }
}
