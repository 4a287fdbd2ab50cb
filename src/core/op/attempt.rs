//! Attempts: how many are used, and how one ended.

use std::time::Duration;

use crate::event::StaleReason;
use crate::record::Cause;

/// The attempts of an event that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedAttempts {
    /// How many count.
    pub tries: u16,
    /// How many interruptions in a row were free, up to the last attempt.
    pub interruptions: u8,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The event is done.
    Ack,
    /// The attempt failed; the event is due again after a delay, unless this was its last attempt.
    Retry(Duration, FailureReason),
    /// The event is due again after a delay; the attempt does not count.
    Snooze(Duration),
    /// The event becomes a dead letter. If it was too late ([`Cause::TooLate`]), its handler never
    /// started, and the attempt does not count.
    Bury(FailureReason),
    /// The event is dropped as no longer useful.
    Discard(Option<String>),
    /// The event expired before its handler started.
    Expire,
    /// The handler never started: the event is ready again at once, and the attempt does not count.
    Release,
    /// A stop of the node cut the handler off: the event is ready again at once. The attempt does not
    /// count, unless so many attempts of the event in a row have ended in this way already; then it
    /// is a [`Retry`](Self::Retry) without a delay. At most [`FREE_INTERRUPTIONS_MAX`].
    Interrupt {
        /// The most interruptions in a row that do not count.
        free: u8,
    },
}

impl From<StaleReason> for AttemptOutcome {
    fn from(stale: StaleReason) -> Self {
        match stale {
            StaleReason::Expired => Self::Expire,
            StaleReason::TooLate => Self::Bury(FailureReason {
                cause: Cause::TooLate,
                error: None,
            }),
        }
    }
}

/// The most interruptions of an event in a row that may be free: a store keeps their number in four
/// bits of its state.
pub const FREE_INTERRUPTIONS_MAX: u8 = 15;

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureReason {
    /// The category.
    pub cause: Cause,
    /// The handler's error text.
    pub error: Option<String>,
}
