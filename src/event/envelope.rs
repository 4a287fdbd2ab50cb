//! The envelope: an event as stored.

use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result};
use crate::event::bucket::BUCKET_HEADER;
use crate::event::id::EventId;
use crate::event::late::LatePolicy;
use crate::event::payload::Payload;
use crate::event::queue::QueueName;
use crate::event::trace::{TRACE_HEADER, TraceId};
use crate::time::Timestamp;

/// The header of an event whose caller may be in another process: a handler's
/// [reply](crate::Context::reply) to it is stored, where the caller looks it up.
pub const CALL_HEADER: &str = "duly-call";

/// The most headers an event may carry.
pub const HEADERS_MAX: usize = 32;
/// The longest key, unique key, header name or header value, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_024;

/// Names and values that travel with an event, readable without decoding its payload.
pub type Headers = Vec<(String, String)>;

/// An event as stored: everything that does not change from attempt to attempt.
///
/// The store keeps the due time and the number of attempts made beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Its id, which usually names its [bucket](Self::bucket).
    pub id: EventId,
    /// Its queue.
    pub queue: QueueName,
    /// Its encoded payload.
    pub payload: Payload,
    /// When it was pushed, by the pusher's clock.
    pub pushed: Timestamp,
    /// The maximum number of attempts.
    pub attempts: u16,
    /// Whether it was pushed with a delay, which chooses the handler's entry point.
    pub delayed: bool,
    /// The version of its payload's type, from the annotation at its push.
    pub version: u32,
    /// Its key, for example an order id: events with the same key share a bucket.
    pub key: Option<String>,
    /// Its unique key: while an event with it waits, a second one is not accepted.
    pub unique: Option<String>,
    /// When it expires: it is not started from then on.
    pub expires: Option<Timestamp>,
    /// Its lateness policy.
    pub late: LatePolicy,
    /// Its headers.
    pub headers: Headers,
    /// Whether its records include its payload.
    pub keeps_payload: bool,
}

impl Envelope {
    /// Creates an envelope with one attempt and defaults for everything else.
    #[must_use]
    pub fn new(id: EventId, queue: QueueName, payload: Payload) -> Self {
        Self {
            id,
            queue,
            payload,
            pushed: id.created(),
            attempts: 1,
            delayed: false,
            version: 0,
            key: None,
            unique: None,
            expires: None,
            late: LatePolicy::Deliver,
            headers: Headers::new(),
            keeps_payload: false,
        }
    }

    /// The trace id of its [`TRACE_HEADER`](crate::event::TRACE_HEADER), if any.
    #[must_use]
    pub fn trace(&self) -> Option<TraceId> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(name, _)| name == TRACE_HEADER)?;
        TraceId::of_header(value)
    }

    /// Returns whether its records need data from the envelope: its payload or its trace.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.keeps_payload || self.trace().is_some()
    }

    /// Checks every limit that a store relies on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the limit.
    pub fn check(&self, payload_bytes_max: usize) -> Result<()> {
        if self.payload.len() > payload_bytes_max {
            return Err(Error::invalid(format!(
                "the payload has {} bytes, at most {payload_bytes_max} are allowed",
                self.payload.len()
            )));
        }
        if self.attempts == 0 {
            return Err(Error::invalid("attempts is 0, it must be at least 1"));
        }
        let counted = self
            .headers
            .iter()
            .filter(|(name, _)| name != BUCKET_HEADER);
        let headers = counted.count();
        if headers > HEADERS_MAX || self.headers.len() > HEADERS_MAX + 1 {
            return Err(Error::invalid(format!(
                "the event has {headers} headers, at most {HEADERS_MAX} are allowed"
            )));
        }
        for (what, text) in [("key", &self.key), ("unique key", &self.unique)] {
            if text.as_ref().is_some_and(String::is_empty) {
                return Err(Error::invalid(format!(
                    "the {what} of the event is empty; give it one of 1 to {TEXT_BYTES_MAX} bytes, \
                     or none"
                )));
            }
        }
        let headers = self.headers.iter().flat_map(|(name, value)| [name, value]);
        for text in headers.chain(&self.key).chain(&self.unique) {
            if text.len() > TEXT_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "a key or header has {} bytes, at most {TEXT_BYTES_MAX} are allowed",
                    text.len()
                )));
            }
        }
        Ok(())
    }

    /// A hash of the payload: pushing the same id with another fingerprint is a conflict.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.queue.as_bytes());
        hash.update(&[0]);
        hash.update(self.payload.as_bytes());
        hash.digest()
    }
}
