//! The options of a relay.

use std::time::Duration;

use duly::__outbox::longest_attempts;
use duly::{Bus, Error, ErrorKind, Result};

/// The options of a relay.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use duly_outbox::RelayOptions;
///
/// let mut options = RelayOptions::default();
/// options.idle_poll = Duration::from_millis(200);
/// assert_eq!(options.busy_poll, Duration::from_millis(10));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RelayOptions {
    /// How often the outbox is read while events come, or were pushed in this process a moment ago.
    /// Default: 10 ms, since an event that is due now waits that long; from 5 ms to a minute.
    pub busy_poll: Duration,
    /// How often it is read otherwise. Default: 10 ms, since an event of another process that is due
    /// now waits that long; from 5 ms to a minute. In PostgreSQL four of five such reads are a query of
    /// little cost. On a test bus it is read once a day.
    pub idle_poll: Duration,
    /// How long it is known that the effect of an event was committed; then an attempt that still
    /// comes again would have it twice. Default: 30 days, longer than the retries of most queues; at
    /// least a minute, and longer than the attempts of an event may last by the options of any queue
    /// that the bus knows. It counts by the clock of the database or of the store, whichever is behind,
    /// and in an hour no more than a tenth of it, or two hours, is forgotten, lest a clock that jumps
    /// ahead ends all.
    pub done_kept: Duration,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            busy_poll: Duration::from_millis(10),
            idle_poll: Duration::from_millis(10),
            done_kept: Duration::from_secs(30 * 86_400),
        }
    }
}

/// The shortest time between two reads.
const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_secs(60);
const DONE_KEPT_MIN: Duration = Duration::from_secs(60);

impl RelayOptions {
    pub(crate) fn checked(self, bus: &Bus) -> Result<Self> {
        let polls = [("busy_poll", self.busy_poll), ("idle_poll", self.idle_poll)];
        for (name, poll) in polls {
            if !(POLL_MIN..=POLL_MAX).contains(&poll) {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("{name} is {poll:?}, it must be from {POLL_MIN:?} to {POLL_MAX:?}"),
                ));
            }
        }
        if self.done_kept < DONE_KEPT_MIN {
            let kept = self.done_kept;
            let wrong = format!("done_kept is {kept:?}, it must be at least {DONE_KEPT_MIN:?}");
            return Err(Error::new(ErrorKind::Invalid, wrong));
        }
        if let Some((queue, last)) = longest_attempts(bus)
            && self.done_kept <= last
        {
            let kept = self.done_kept;
            let wrong = format!(
                "done_kept is {kept:?}, but the attempts of an event of `{queue}` may last {last:?}, by \
                 its attempts, timeout and backoff, and one that comes later than that would have its \
                 effect again; set done_kept to more than {last:?}"
            );
            return Err(Error::new(ErrorKind::Invalid, wrong));
        }
        Ok(self)
    }
}
