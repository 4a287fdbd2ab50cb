//! The event as it is stored.

use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result};
use crate::event::id::EventId;
use crate::event::late::Late;
use crate::event::payload::Payload;
use crate::event::queue::QueueName;
use crate::event::trace::{TRACE_HEADER, TraceId};
use crate::time::Timestamp;

/// The most headers an event may carry.
pub const HEADERS_MAX: usize = 32;
/// The longest key, unique key, header name or header value, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_024;

/// Names and values that travel with an event and that no handler has to decode.
pub type Headers = Vec<(String, String)>;

/// The event as stored: everything of it that does not change from attempt to attempt.
///
/// The due time and the attempts made are the store's to keep; they are not in here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Its identity, which names its bucket.
    pub id: EventId,
    /// Its queue.
    pub queue: QueueName,
    /// Its encoded value.
    pub payload: Payload,
    /// When it was pushed, by the pusher's clock.
    pub pushed: Timestamp,
    /// How often it is tried at most.
    pub attempts: u16,
    /// Whether it was pushed with a delay, which chooses the handler's entry point.
    pub delayed: bool,
    /// The version of its payload's type, as the annotation had it when it was pushed.
    pub version: u32,
    /// What it belongs to, for example an order: events of one key share a bucket.
    pub key: Option<String>,
    /// While an event with this unique key waits, no second one is accepted beside it.
    pub unique: Option<String>,
    /// From then on it is not started any more.
    pub expires: Option<Timestamp>,
    /// What becomes of it when it reaches its consumer late.
    pub late: Late,
    /// Names and values that travel with it.
    pub headers: Headers,
    /// Whether its records keep its payload.
    pub keeps_payload: bool,
}

impl Envelope {
    /// An envelope with the given identity and payload, one attempt, and nothing else asked for.
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
            late: Late::Deliver,
            headers: Headers::new(),
            keeps_payload: false,
        }
    }

    /// Which trace it belongs to: that of its [`TRACE_HEADER`](crate::event::TRACE_HEADER).
    #[must_use]
    pub fn trace(&self) -> Option<TraceId> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(name, _)| name == TRACE_HEADER)?;
        TraceId::of_header(value)
    }

    /// Whether its records say something that only the envelope knows: its payload, its trace.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.keeps_payload || self.trace().is_some()
    }

    /// Checks every bound that a store relies on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the bound that was passed.
    pub fn check(&self, payload_bytes_max: usize) -> Result<()> {
        if self.payload.len() > payload_bytes_max {
            return Err(Error::invalid(format!(
                "the payload has {} bytes, at most {payload_bytes_max} are allowed",
                self.payload.len()
            )));
        }
        if self.attempts == 0 {
            return Err(Error::invalid("attempts is 0, an event needs at least 1"));
        }
        if self.headers.len() > HEADERS_MAX {
            return Err(Error::invalid(format!(
                "the event has {} headers, at most {HEADERS_MAX} are allowed",
                self.headers.len()
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

    /// A number that tells two payloads apart: pushing the same id with another one is a conflict.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.queue.as_bytes());
        hash.update(&[0]);
        hash.update(self.payload.as_bytes());
        hash.digest()
    }
}
