//! A dead letter.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::bus::dead_letters::{DeadLetterCursor, died_before, display};
use crate::bus::payloads::value;
use crate::codec::KeyRing;
use crate::core::op::Snapshot;
use crate::error::Result;
use crate::event::{BucketId, BucketKey, EventId, Payload, QueueName};
use crate::record::{Cause, Record};
use crate::time::Timestamp;

/// An event that is not retried by itself: kept until it is revived or dropped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The event.
    pub id: EventId,
    /// Its queue.
    pub queue: QueueName,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// When it died, by the store's clock; `None` where the store does not know that any more.
    pub died: Option<Timestamp>,
    /// How many attempts it has used up.
    pub tries: u16,
    /// Its payload, as it is stored.
    pub payload: Payload,
    /// Its last record.
    pub last: LastRecord,
    pub(super) bucket: BucketId,
    /// The bus's keys, to decrypt the payload.
    pub(super) keys: KeyRing,
}

/// The last record of a dead letter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LastRecord {
    /// The record of its last attempt.
    Record(Box<Record>),
    /// The record was pruned.
    Pruned,
    /// The journal could not be read; contains the error.
    Unread(String),
}

impl LastRecord {
    /// Returns why the last attempt failed.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.record()?.cause
    }

    /// Returns the handler's error of the last attempt.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.record()?.error.as_deref()
    }

    /// Returns the record, if there is one.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Record(record) => Some(record),
            Self::Pruned | Self::Unread(_) => None,
        }
    }
}

impl DeadLetter {
    /// Returns whether it may have died before an operation on many dead letters began, by the store's
    /// time: one that leaves the others alone ends, though letters are added all the time.
    #[must_use]
    pub fn died_before(&self, began: Timestamp) -> bool {
        died_before(self.died, began)
    }

    pub(super) fn new(
        BucketKey { queue, bucket }: BucketKey,
        snapshot: &Snapshot,
        last: LastRecord,
        keys: KeyRing,
    ) -> Self {
        let body = snapshot.body.as_ref();
        Self {
            id: snapshot.id,
            queue,
            key: body.and_then(|body| body.key.clone()),
            died: snapshot.since,
            tries: snapshot.tries,
            payload: body.map(|body| body.payload.clone()).unwrap_or_default(),
            last,
            bucket,
            keys,
        }
    }

    /// Returns why its last attempt failed, if its record is there.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.last.cause()
    }

    /// Returns the handler's error of the last attempt, if its record is there.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.last.error()
    }

    /// Decodes its payload by its own codec, and decrypts it with the bus's keys. It is not
    /// upgraded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it is no `T`, or cannot be decrypted.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T> {
        value(&self.keys, self.id, &self.queue, &self.payload)
    }

    /// Formats its payload for display: JSON on several lines, MessagePack as JSON, a text, or the
    /// first bytes as hexadecimal digits; for an encrypted one its key id. Truncated at about 16
    /// KiB, with its length.
    #[must_use]
    pub fn payload_shown(&self) -> String {
        display::payload(self.payload.as_bytes())
    }

    /// Returns its position in the order of all dead letters.
    #[must_use]
    pub fn cursor(&self) -> DeadLetterCursor {
        DeadLetterCursor {
            queue: self.queue.clone(),
            bucket: self.bucket,
            id: self.id,
        }
    }
}

/// Writes one line, without the payload.
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
            LastRecord::Record(_) => {}
            LastRecord::Pruned => f.write_str(", its record was pruned")?,
            LastRecord::Unread(_) => f.write_str(", its record could not be read")?,
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
