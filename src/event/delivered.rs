//! A delivery, as passed to a handler.

use std::sync::Arc;
use std::time::Duration;

use crate::event::bucket::BucketId;
use crate::event::envelope::Envelope;
use crate::event::id::EventId;
use crate::event::trace::TraceContext;
use crate::time::Timestamp;

/// A delivery, as passed to a handler: the payload and the data of this attempt.
///
/// # Examples
///
/// ```
/// use duly::Event;
///
/// let event = Event::published("hello");
/// assert_eq!(event.payload, "hello");
/// assert_eq!(event.attempt(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Event<T> {
    /// The decoded value.
    pub payload: T,
    /// `None` for an event that was published directly into the ring.
    stored: Option<StoredAttempt>,
}

#[derive(Clone, Debug)]
struct StoredAttempt {
    envelope: Arc<Envelope>,
    due: Timestamp,
    attempt: u16,
    started_us: u64,
}

impl<T> Event<T> {
    /// Creates an event that was published directly into the ring and is in no store.
    pub fn published(payload: T) -> Self {
        Self {
            payload,
            stored: None,
        }
    }

    /// Creates an attempt of a stored event that starts at `started_us`, in microseconds since the
    /// epoch.
    pub(crate) fn stored(
        payload: T,
        envelope: Arc<Envelope>,
        due: Timestamp,
        attempt: u16,
        started_us: u64,
    ) -> Self {
        Self {
            payload,
            stored: Some(StoredAttempt {
                envelope,
                due,
                attempt,
                started_us,
            }),
        }
    }

    /// The id: the same in every attempt, so it can serve as an idempotency key. All zero for an
    /// event that is in no store.
    #[must_use]
    pub fn id(&self) -> EventId {
        match &self.stored {
            Some(stored) => stored.envelope.id,
            None => EventId::from_parts(Timestamp::EPOCH, BucketId(0), 0),
        }
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.stored.as_ref().map_or(1, |stored| stored.attempt)
    }

    /// The maximum number of attempts.
    #[must_use]
    pub fn attempts(&self) -> u16 {
        self.stored
            .as_ref()
            .map_or(1, |stored| stored.envelope.attempts)
    }

    /// When this attempt was due; `None` for an event that is in no store.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.stored.as_ref().map(|stored| stored.due)
    }

    /// How long after its due time this attempt started, by the store's clock.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.stored.as_ref().map_or(Duration::ZERO, |stored| {
            Duration::from_micros(stored.started_us.saturating_sub(stored.due.as_micros()))
        })
    }

    /// Whether it was pushed with a delay.
    #[must_use]
    pub fn is_delayed(&self) -> bool {
        self.stored
            .as_ref()
            .is_some_and(|stored| stored.envelope.delayed)
    }

    /// When it was pushed, by the pusher's clock; `None` for an event that is in no store.
    #[must_use]
    pub fn pushed(&self) -> Option<Timestamp> {
        self.stored.as_ref().map(|stored| stored.envelope.pushed)
    }

    /// The key, if any.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.stored
            .as_ref()
            .and_then(|stored| stored.envelope.key.as_deref())
    }

    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers()
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// All headers, in the order in which they were set.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        self.stored
            .as_ref()
            .map_or(&[], |stored| &stored.envelope.headers)
    }

    /// The trace context of its push, to pass on to other systems; `None` if the header is missing
    /// or malformed.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::of_headers(self.headers())
    }

    /// Maps the payload with `f`.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Event<U> {
        Event {
            payload: f(self.payload),
            stored: self.stored,
        }
    }
}
