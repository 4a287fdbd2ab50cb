//! The tries to store a handler's reply.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind};

/// How long a reply is tried to be stored, and the pauses in between.
const STORE_WITHIN: Duration = Duration::from_secs(30);
/// How long while the store is full: it may be so for a moment, and who acks makes room.
const FULL_WITHIN: Duration = Duration::from_secs(2);
const STORE_PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// The tries to store a reply, all of which have failed.
pub(super) struct ReplyTries {
    began: Instant,
    /// Since when the store has been full.
    full_since: Option<Instant>,
    /// How many have failed in a row, as it was full or as it was not.
    tries: u32,
}

impl ReplyTries {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            full_since: None,
            tries: 0,
        }
    }

    /// Returns how long to wait after a try that has failed; `None`: it was the last one.
    pub(super) fn pause_after(&mut self, error: &Error) -> Option<Duration> {
        let is_full = error.kind() == ErrorKind::Full;
        if is_full != self.full_since.is_some() {
            self.tries = 0;
        }
        self.full_since = is_full.then(|| self.full_since.unwrap_or_else(Instant::now));
        let has_time = self.began.elapsed() < STORE_WITHIN
            && self
                .full_since
                .is_none_or(|since| since.elapsed() < FULL_WITHIN);
        self.tries += 1;
        let pause = STORE_PAUSES.after(self.tries);
        (has_time && (is_full || is_passing(error))).then_some(pause)
    }
}

/// Whether the store may respond at the next try, which is safe also if this one was done.
pub(super) fn is_passing(error: &Error) -> bool {
    use ErrorKind::{TimedOut, Unavailable, Unknown};
    matches!(error.kind(), Unavailable | TimedOut | Unknown)
}
