//! Consumption records: one line of history for each attempt and each end.

mod query;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::query::{Page, Query};
use crate::error::{Error, Result, shown};
use crate::event::{EventId, QueueName};
use crate::time::Timestamp;

/// The longest error text that a record keeps, in bytes; longer ones are cut at a character.
pub const ERROR_BYTES_MAX: usize = 2_048;

/// A process, from its start to its end: what a lease belongs to.
///
/// A restarted process is another node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

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
    /// The handler, or an operator, said that the event is of no use any more.
    Discarded,
    /// Taken back by its owner.
    Cancelled,
    /// Reached its expiry, or was too late to be of use.
    Expired,
    /// The node that held it fell silent. The attempt counts, as nobody can know whether its
    /// handler had started.
    LeaseLost,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 8] = [
        Self::Acked,
        Self::Retried,
        Self::Snoozed,
        Self::Buried,
        Self::Discarded,
        Self::Cancelled,
        Self::Expired,
        Self::LeaseLost,
    ];

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
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 7] = [
        Self::Failed,
        Self::TimedOut,
        Self::Panicked,
        Self::Undecodable,
        Self::Interrupted,
        Self::LeaseLost,
        Self::TooLate,
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

/// When each stage of an attempt was reached, in microseconds since the epoch by the store's
/// clock; zero where it never was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// The id was moved to the publish list, or read ahead.
    pub moved_us: u64,
    /// A node leased it.
    pub fetched_us: u64,
    /// Its handler started.
    pub started_us: u64,
    /// Its handler ended, or the event did.
    pub finished_us: u64,
}

/// One line of history: an attempt that ended, or an event that ended without one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The event.
    pub id: EventId,
    /// Its queue.
    pub queue: QueueName,
    /// What it belongs to, if it said so.
    pub key: Option<String>,
    /// Which attempt this was, from 1; 0 where none had begun.
    pub attempt: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// What made it fail, if it did.
    pub cause: Option<Cause>,
    /// When this attempt was due.
    pub due: Timestamp,
    /// When it passed each stage.
    pub stages: Stages,
    /// The node that held it; zero where none did.
    pub node: NodeId,
    /// The handler's error, at most [`ERROR_BYTES_MAX`] bytes.
    pub error: Option<String>,
}

impl Record {
    /// From due time to handler start; `None` when no handler started.
    #[must_use]
    pub fn lateness(&self) -> Option<Duration> {
        let late = self.stages.started_us.checked_sub(self.due.as_micros());
        (self.stages.started_us > 0).then(|| Duration::from_micros(late.unwrap_or(0)))
    }

    /// Whether the event's life ended with this record.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Acked | Outcome::Discarded | Outcome::Cancelled | Outcome::Expired
        )
    }
}

/// Cuts `text` to at most [`ERROR_BYTES_MAX`] bytes, between two characters.
#[must_use]
pub fn cut_error(mut text: String) -> String {
    if text.len() > ERROR_BYTES_MAX {
        let end = (0..=ERROR_BYTES_MAX)
            .rev()
            .find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    text
}
