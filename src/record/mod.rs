//! Consumption records: one line of history for each attempt and each end.

mod export;
mod minute;
mod outcome;
mod query;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::export::Format;
pub use self::minute::{Lateness, Minute, MinuteQuery};
pub use self::outcome::{Cause, Outcome};
pub use self::query::{Cursor, Numbered, Order, Page, Query};
use crate::event::{Envelope, EventId, Payload, QueueName, TraceId};
use crate::time::Timestamp;

/// The longest error text that a record keeps, in bytes; longer ones are cut at a character.
pub const ERROR_BYTES_MAX: usize = 2_048;

/// The longest payload that a record keeps where its queue asks for it, in bytes; the records of an
/// event with a longer one go without.
pub const PAYLOAD_KEPT_MAX: usize = 64 << 10;

/// The longest name of who did something by hand, in bytes.
pub const BY_BYTES_MAX: usize = 128;

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

/// One line of history: an attempt that ended, an event that ended without one, or what an operator
/// did to a dead letter.
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
    /// Which trace it belongs to: that of its `traceparent` header.
    pub trace: Option<TraceId>,
    /// Its payload as it is stored, encrypted if it is; only where its queue asks for it, and at
    /// most [`PAYLOAD_KEPT_MAX`] bytes.
    pub payload: Option<Payload>,
    /// Who did it, where it was done by hand and somebody said so.
    pub by: Option<String>,
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
        self.outcome.is_final()
    }
}

impl Record {
    /// The same record with what it tells of the event's own `envelope`: its trace, and its payload
    /// where that is asked for.
    #[must_use]
    pub fn telling(mut self, envelope: &Envelope) -> Self {
        self.trace = envelope.trace();
        let keeps = envelope.keeps_payload && envelope.payload.len() <= PAYLOAD_KEPT_MAX;
        self.payload = keeps.then(|| envelope.payload.clone());
        self
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
