//! How attempts and events end, and why attempts fail.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, shown};

/// How one attempt, or the event itself, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The handler succeeded.
    Acked,
    /// The attempt failed, and another one follows.
    Retried,
    /// The handler asked to be called again later; no attempt was used up.
    Snoozed,
    /// The attempt failed and was the last one, or the failure is permanent: a dead letter.
    Buried,
    /// The handler said that the event is of no use any more.
    Discarded,
    /// Taken back by its owner.
    Cancelled,
    /// Reached its expiry, or was too late to be of use.
    Expired,
    /// The node that held it fell silent. The attempt counts, as nobody can know whether its
    /// handler had started.
    LeaseLost,
    /// A dead letter was made ready again by an operator, with all its attempts.
    Revived,
    /// A dead letter was given another payload by an operator.
    Edited,
    /// A dead letter was removed for good by an operator.
    Dropped,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 11] = [
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
    ];

    /// Whether the event's life ended with it.
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
                    "unknown outcome `{}`, known are {known}",
                    shown(text)
                ))
            })
    }
}

/// What made an attempt fail.
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
    /// The payload is not what the handler's type says, so it was never called.
    Undecodable,
    /// The node was stopped while the handler ran.
    Interrupted,
    /// The node that held it fell silent or died.
    LeaseLost,
    /// It reached its consumer later than its lateness policy allows.
    TooLate,
    /// The payload is encrypted and no key that the node has opens it, so the handler was never
    /// called.
    Undecryptable,
}

impl Cause {
    /// Every cause.
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
                    "unknown cause `{}`, known are {known}",
                    shown(text)
                ))
            })
    }
}
