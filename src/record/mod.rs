//! Consumption records: a line of history for each attempt and each end of an event.

mod export;
mod kept;
mod minute;
mod outcome;
mod query;
pub(crate) mod retention;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::export::Format;
pub use self::kept::{FoundRecords, Keep, Pruned};
pub use self::minute::{Lateness, MinuteQuery, MinuteStats};
pub use self::outcome::{Cause, Outcome};
pub use self::query::{Cursor, Numbered, Order, Page, Query};
use crate::event::{Envelope, EventId, Payload, QueueName, TraceId};
use crate::time::Timestamp;

/// The longest error text of a record, in bytes; longer ones are cut at a character boundary.
pub const ERROR_BYTES_MAX: usize = 2_048;

/// The longest payload of a record, in bytes, for queues that keep payloads; the records of an
/// event with a longer one have none.
pub const PAYLOAD_KEPT_MAX: usize = 64 << 10;

/// The longest actor name, in bytes.
pub const BY_BYTES_MAX: usize = 128;

/// The id of a node: a process, from its start to its end. A restarted process is another node.
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

/// When an attempt reached each stage, in microseconds since the epoch by the store's clock; zero
/// if never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Its id was moved to the ready list, or it was prefetched.
    pub moved_us: u64,
    /// A node leased it.
    pub fetched_us: u64,
    /// Its handler started.
    pub started_us: u64,
    /// Its handler or the event ended.
    pub finished_us: u64,
}

/// A line of history: the end of an attempt, the end of an event without one, or an administrative
/// operation on a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The event.
    pub id: EventId,
    /// Its queue.
    pub queue: QueueName,
    /// Its key, if any.
    pub key: Option<String>,
    /// The number of the attempt, from 1; 0 if none had begun.
    pub attempt: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed, if it did.
    pub cause: Option<Cause>,
    /// When this attempt was due.
    pub due: Timestamp,
    /// When it reached each stage.
    pub stages: Stages,
    /// The node that held the lease; zero if none did.
    pub node: NodeId,
    /// The handler's error, at most [`ERROR_BYTES_MAX`] bytes.
    pub error: Option<String>,
    /// Its trace id, from the `traceparent` header.
    pub trace: Option<TraceId>,
    /// Its payload as stored, encrypted if it is; only if its queue keeps payloads, and at most
    /// [`PAYLOAD_KEPT_MAX`] bytes.
    pub payload: Option<Payload>,
    /// The actor of an administrative operation, if given.
    pub by: Option<String>,
}

impl Record {
    /// The time from due to handler start; `None` if no handler started.
    #[must_use]
    pub fn lateness(&self) -> Option<Duration> {
        let late = self.stages.started_us.checked_sub(self.due.as_micros());
        (self.stages.started_us > 0).then(|| Duration::from_micros(late.unwrap_or(0)))
    }

    /// Returns whether the event ended with this record.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.outcome.is_final()
    }
}

impl Record {
    /// Adds the data of the event's `envelope`: its trace, and its payload if the queue keeps it.
    #[must_use]
    pub fn telling(mut self, envelope: &Envelope) -> Self {
        self.trace = envelope.trace();
        let keeps = envelope.keeps_payload && envelope.payload.len() <= PAYLOAD_KEPT_MAX;
        self.payload = keeps.then(|| envelope.payload.clone());
        self
    }
}

impl Record {
    /// Returns whether it holds what may be of a person: a payload, or the text of an error.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.payload.is_some() || self.error.is_some()
    }

    /// Erases its payload and the text of its error. That the event was, and how it ended, stays.
    pub fn erase(&mut self) {
        self.payload = None;
        self.error = None;
    }
}

/// Cuts `text` to at most [`ERROR_BYTES_MAX`] bytes, at a character boundary.
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
