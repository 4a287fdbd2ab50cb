//! One dead letter.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::bus::dead_letters::{LetterCursor, shown};
use crate::bus::payloads::value;
use crate::codec::KeyRing;
use crate::core::op::Snapshot;
use crate::error::Result;
use crate::event::{EventId, Payload, QueueName};
use crate::record::{Cause, Record};
use crate::time::Timestamp;

/// An event that is not tried again by itself: kept, until it is revived or dropped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The event.
    pub id: EventId,
    /// Its queue.
    pub queue: QueueName,
    /// What it belongs to, if it said so.
    pub key: Option<String>,
    /// When it died, by the store's clock; `None` where the store does not know that any more.
    pub died: Option<Timestamp>,
    /// How many attempts it has used up.
    pub tries: u16,
    /// Its payload, as it is stored.
    pub payload: Payload,
    /// What its last record says.
    pub last: Last,
    /// The bus's, for whoever asks for the payload as a value.
    pub(super) keys: KeyRing,
}

/// What the last record of a dead letter says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Last {
    /// This, of the attempt that was its last one.
    Record(Box<Record>),
    /// Nothing: it was pruned.
    Pruned,
    /// It could not be read, in these words: the journal did not answer.
    Unread(String),
}

impl Last {
    /// Why the last attempt failed.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.record()?.cause
    }

    /// What the handler said then.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.record()?.error.as_deref()
    }

    /// The record, where there is one.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Record(record) => Some(record),
            Self::Pruned | Self::Unread(_) => None,
        }
    }
}

impl DeadLetter {
    pub(super) fn new(queue: QueueName, snapshot: &Snapshot, last: Last, keys: KeyRing) -> Self {
        let body = snapshot.body.as_ref();
        Self {
            id: snapshot.id,
            queue,
            key: body.and_then(|body| body.key.clone()),
            died: snapshot.since,
            tries: snapshot.tries,
            payload: body.map(|body| body.payload.clone()).unwrap_or_default(),
            last,
            keys,
        }
    }

    /// Why its last attempt failed, if its record tells.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.last.cause()
    }

    /// What the handler said then, if its record tells.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.last.error()
    }

    /// Its payload as a value: by its own codec, and by the keys of the bus where it is encrypted. It
    /// is not upgraded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it is no `T`, or cannot be decrypted.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T> {
        value(&self.keys, self.id, &self.queue, &self.payload)
    }

    /// Its payload for people, whatever it is: JSON on several lines, MessagePack as JSON, a text, or
    /// the first bytes as hexadecimal digits; of one that is encrypted under which key. At most some 16 KiB; a longer one says how long it is.
    #[must_use]
    pub fn payload_shown(&self) -> String {
        shown::payload(self.payload.as_bytes())
    }

    /// Its place in the order of all dead letters.
    #[must_use]
    pub fn cursor(&self) -> LetterCursor {
        LetterCursor {
            queue: self.queue.clone(),
            id: self.id,
        }
    }
}

/// One line, without the payload.
impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of queue {}", self.id, self.queue)?;
        if let Some(key) = &self.key {
            write!(f, ", key {}", crate::error::shown(key))?;
        }
        if let Some(died) = self.died {
            write!(f, ", dead since {died}")?;
        }
        match self.tries {
            1 => f.write_str(", after 1 attempt")?,
            tries => write!(f, ", after {tries} attempts")?,
        }
        match &self.last {
            Last::Record(_) => {}
            Last::Pruned => f.write_str(", its record was pruned")?,
            Last::Unread(_) => f.write_str(", its record could not be read")?,
        }
        if let Some(cause) = self.cause() {
            write!(f, ", {cause}")?;
        }
        match self.error() {
            Some(error) => write!(f, ": {}", crate::error::shown(error)),
            None => Ok(()),
        }
    }
}
