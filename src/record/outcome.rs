//! Outcomes of attempts and events, and causes of failures.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, shown};

/// The outcome of an attempt or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The handler succeeded.
    Acked,
    /// The attempt failed, and another one follows.
    Retried,
    /// The handler postponed the event; no attempt was used up.
    Snoozed,
    /// A dead letter: the last attempt failed, or the failure is permanent.
    Buried,
    /// The handler discarded the event as no longer useful; or it succeeded, and its reply to a call
    /// could not be stored.
    Discarded,
    /// The event was cancelled.
    Cancelled,
    /// The event expired, by its expiry time or its lateness policy.
    Expired,
    /// The lease was lost: its node timed out. The attempt counts, as its handler may have started.
    LeaseLost,
    /// An operator made a dead letter ready again, with all its attempts.
    Revived,
    /// An operator changed the payload of a dead letter.
    Edited,
    /// An operator removed a dead letter for good.
    Dropped,
    /// A stop of the node cut the handler off; no attempt was used up.
    Interrupted,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 12] = [
        Self::Acked,
        Self::Retried,
        Self::Snoozed,
        Self::Buried,
        Self::Discarded,
        Self::Cancelled,
        Self::Expired,
        Self::LeaseLost,
        Self::Revived,
        Self::Edited,
        Self::Dropped,
        Self::Interrupted,
    ];

    /// Returns whether the event ended with it.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Acked | Self::Discarded | Self::Cancelled | Self::Expired | Self::Dropped
        )
    }

    /// The outcome in snake case, as in the journal.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acked => "acked",
            Self::Retried => "retried",
            Self::Snoozed => "snoozed",
            Self::Buried => "buried",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::LeaseLost => "lease_lost",
            Self::Revived => "revived",
            Self::Edited => "edited",
            Self::Dropped => "dropped",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Outcome {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                Error::invalid(format!(
                    "unknown outcome `{}`, expected one of {known}",
                    shown(text)
                ))
            })
    }
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The handler returned an error.
    Failed,
    /// The handler did not end within its execution timeout.
    TimedOut,
    /// The handler panicked.
    Panicked,
    /// The payload does not decode into the handler's type, so the handler was not called.
    Undecodable,
    /// The node was stopped while the handler ran.
    Interrupted,
    /// The node that held the lease timed out or died.
    LeaseLost,
    /// It reached its consumer later than its lateness policy allows.
    TooLate,
    /// The payload is encrypted and no key of the node decrypts it, so the handler was not called.
    Undecryptable,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::Failed,
        Self::TimedOut,
        Self::Panicked,
        Self::Undecodable,
        Self::Interrupted,
        Self::LeaseLost,
        Self::TooLate,
        Self::Undecryptable,
    ];

    /// The cause in snake case, as in the journal.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
            Self::Undecodable => "undecodable",
            Self::Interrupted => "interrupted",
            Self::LeaseLost => "lease_lost",
            Self::TooLate => "too_late",
            Self::Undecryptable => "undecryptable",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Cause {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|cause| cause.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                Error::invalid(format!(
                    "unknown cause `{}`, expected one of {known}",
                    shown(text)
                ))
            })
    }
}
