//! A leased event.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::bus::inner::Inner;
use crate::bus::lease::outcome::{LeaseOutcome, LeaseStatus};
use crate::bus::state::leases::token::LeaseToken;
use crate::codec::{Codec, OpenError};
use crate::core::op::{AttemptOutcome, FailureReason};
use crate::error::Result;
use crate::event::{Envelope, Event, EventId, QueueName};
use crate::flow::{DecodeError, PayloadDecoder};
use crate::record::{Cause, Outcome, cut_error};
use crate::retry::RetryPolicy;
use crate::time::Timestamp;
use crate::trace::AttemptSpan;

/// A payload as its pusher has encoded it, decrypted.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodedPayload {
    /// Its codec.
    pub codec: Codec,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Prints the length only.
impl fmt::Debug for EncodedPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "EncodedPayload({}, {} bytes)",
            self.codec,
            self.bytes.len()
        )
    }
}

/// A leased event: it belongs to the caller until it is settled or its [deadline](Self::deadline)
/// has passed.
///
/// Dropping it settles nothing: it comes back after its deadline, and the attempt counts.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use duly::prelude::*;
/// use duly::lease::LeaseStatus;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// let queue = bus.queue_named::<u64>("order-close")?;
/// queue.event(7).attempts(3).push().await?;
/// let leased = queue.lease(1, Duration::from_secs(30)).send().await?;
///
/// assert_eq!((leased[0].attempt(), leased[0].attempts_left()), (1, 2));
/// assert_eq!(leased[0].retry("the bank is closed").await?, LeaseStatus::Held);
/// assert_eq!(leased[0].ack().await?, LeaseStatus::Lost); // it is settled already
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
pub struct Leased<T> {
    inner: Arc<Inner>,
    token: LeaseToken,
    event: Event<T>,
    expires: Option<Timestamp>,
    deadline: Timestamp,
    traced: AttemptSpan,
}

impl<T: fmt::Debug> fmt::Debug for Leased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased")
            .field("token", &self.token)
            .field("event", &self.event)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl<T> Leased<T> {
    pub(super) fn new(
        inner: Arc<Inner>,
        token: LeaseToken,
        event: Event<T>,
        expires: Option<Timestamp>,
        deadline: Timestamp,
        traced: AttemptSpan,
    ) -> Self {
        Self {
            inner,
            token,
            event,
            expires,
            deadline,
            traced,
        }
    }

    /// Returns the event: its payload, headers, key, due time and the time of its push.
    #[must_use]
    pub fn event(&self) -> &Event<T> {
        &self.event
    }

    /// Returns the event by value; it is settled by its [token](Self::token) then.
    #[must_use]
    pub fn into_event(self) -> Event<T> {
        self.event
    }

    /// Returns the event's id.
    #[must_use]
    pub fn id(&self) -> EventId {
        self.token.id
    }

    /// Returns the event's queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.token.queue
    }

    /// Returns the number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.token.attempt
    }

    /// Returns how many attempts are left after this one.
    #[must_use]
    pub fn attempts_left(&self) -> u16 {
        self.event.attempts().saturating_sub(self.token.attempt)
    }

    /// Returns when the event expires, if it does.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Returns when the lease ends, by the store's clock.
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// Returns the lease's token, with which any process may settle it.
    #[must_use]
    pub fn token(&self) -> &LeaseToken {
        &self.token
    }

    /// Returns the span of this attempt, as a handler has one: it is linked to the span of the push,
    /// what is pushed in it continues its trace, and settling the lease records the outcome. It ends
    /// with the lease and the clones of the span, and is empty where no subscriber wants it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// # let queue = bus.queue_named::<u64>("order-close")?;
    /// # queue.push(7, When::Now).await?;
    /// # let leased = queue.lease(1, Duration::from_secs(1)).send().await?.remove(0);
    /// leased.span().in_scope(|| println!("closing order {}", leased.event().payload));
    /// assert_eq!(leased.ack().await?, duly::lease::LeaseStatus::Held);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    #[must_use]
    pub fn span(&self) -> tracing::Span {
        self.traced.span()
    }

    /// Settles the event as done.
    ///
    /// # Errors
    ///
    /// The store's error; on [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) calling again is
    /// safe.
    pub async fn ack(&self) -> Result<LeaseStatus> {
        self.settle(LeaseOutcome::Ack).await
    }

    /// Settles the attempt as failed: the event is due again by the queue's policy, or becomes a
    /// dead letter after its last attempt.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub async fn retry(&self, reason: impl Into<String>) -> Result<LeaseStatus> {
        let (after, reason) = (None, Some(reason.into()));
        self.settle(LeaseOutcome::Retry { after, reason }).await
    }

    /// As [`retry`](Self::retry), with this delay instead of the policy's.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub async fn retry_after(
        &self,
        delay: Duration,
        reason: impl Into<String>,
    ) -> Result<LeaseStatus> {
        let (after, reason) = (Some(delay), Some(reason.into()));
        self.settle(LeaseOutcome::Retry { after, reason }).await
    }

    /// Makes the event due again after `delay`; the attempt does not count.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub async fn snooze(&self, delay: Duration) -> Result<LeaseStatus> {
        self.settle(LeaseOutcome::Snooze(delay)).await
    }

    /// Hands the event back: it is ready again at once, at its place, and the attempt does not
    /// count.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub async fn release(&self) -> Result<LeaseStatus> {
        self.settle(LeaseOutcome::Release).await
    }

    /// Makes the event a dead letter.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub async fn bury(&self, reason: impl Into<String>) -> Result<LeaseStatus> {
        self.settle(LeaseOutcome::Bury(Some(reason.into()))).await
    }

    /// Drops the event as no longer useful.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub async fn discard(&self, reason: impl Into<String>) -> Result<LeaseStatus> {
        self.settle(LeaseOutcome::Discard(Some(reason.into())))
            .await
    }

    /// Extends the lease: it ends `ttr` from now, later or earlier than before.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack); [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a `ttr` of more
    /// than [`DELAY_MAX`](crate::time::DELAY_MAX).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// use duly::lease::LeaseStatus;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// queue.push(7, When::Now).await?;
    /// let mut leased = queue.lease(1, Duration::from_secs(1)).send().await?.remove(0);
    ///
    /// let before = leased.deadline();
    /// assert_eq!(leased.extend(Duration::from_secs(60)).await?, LeaseStatus::Held);
    /// assert!(leased.deadline() > before);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn extend(&mut self, ttr: Duration) -> Result<LeaseStatus> {
        let (status, deadline) = self.inner.extend(&self.token, ttr).await?;
        if status == LeaseStatus::Held {
            self.deadline = deadline;
        }
        Ok(status)
    }

    async fn settle(&self, outcome: LeaseOutcome) -> Result<LeaseStatus> {
        let (ended, reason) = match &outcome {
            LeaseOutcome::Ack => (Some(Outcome::Acked), None),
            LeaseOutcome::Retry { reason, .. } if self.attempts_left() == 0 => {
                (Some(Outcome::Buried), reason.clone())
            }
            LeaseOutcome::Retry { reason, .. } => (Some(Outcome::Retried), reason.clone()),
            LeaseOutcome::Snooze(_) => (Some(Outcome::Snoozed), None),
            LeaseOutcome::Bury(reason) => (Some(Outcome::Buried), reason.clone()),
            LeaseOutcome::Discard(reason) => (Some(Outcome::Discarded), reason.clone()),
            LeaseOutcome::Release => (None, None),
        };
        let status = self.inner.settle(&self.token, outcome).await?;
        if status == LeaseStatus::Held
            && let Some(ended) = ended
        {
            self.traced.settled_as(ended, reason.as_deref());
        }
        Ok(status)
    }
}

/// Decodes the value of an event, or returns how its attempt ends.
pub(super) fn decoded<T: DeserializeOwned>(
    (reader, backoff): (&PayloadDecoder<T>, &RetryPolicy),
    envelope: &Envelope,
    attempt: u16,
) -> Result<T, AttemptOutcome> {
    reader.read(envelope).map_err(|why| {
        let words = why.to_string();
        match why {
            DecodeError::Undecodable(_) => unreadable(Cause::Undecodable, words),
            DecodeError::Undecryptable(_) => unreadable(Cause::Undecryptable, words),
            DecodeError::Newer(_) => newer(words, backoff, envelope, attempt),
        }
    })
}

/// Decrypts the payload of an event, or returns how its attempt ends.
pub(super) fn opened(
    inner: &Inner,
    envelope: &Envelope,
    attempt: u16,
) -> Result<EncodedPayload, AttemptOutcome> {
    let opened = inner
        .keys
        .open(envelope.id, &envelope.queue, &envelope.payload);
    let opened = opened.map_err(|why| {
        let words = format!("the payload: {why}");
        match why {
            OpenError::Malformed(_) => unreadable(Cause::Undecodable, words),
            OpenError::NoKey(_) | OpenError::Sealed(_) => unreadable(Cause::Undecryptable, words),
            OpenError::Newer(_) => {
                let backoff = inner.options(&envelope.queue).backoff;
                newer(words, &backoff, envelope, attempt)
            }
        }
    })?;
    Ok(EncodedPayload {
        codec: opened.codec,
        bytes: opened.value.into_owned(),
    })
}

/// Ends the attempt of an event that cannot be read.
fn unreadable(cause: Cause, words: String) -> AttemptOutcome {
    AttemptOutcome::Bury(reason(cause, words))
}

/// Ends the attempt of an event that a newer program has pushed, which can read it at a later one.
fn newer(
    words: String,
    backoff: &RetryPolicy,
    envelope: &Envelope,
    attempt: u16,
) -> AttemptOutcome {
    if attempt >= envelope.attempts {
        return unreadable(Cause::Undecodable, words);
    }
    let delay = backoff.delay_after(attempt, fastrand::f64());
    AttemptOutcome::Retry(delay, reason(Cause::Undecodable, words))
}

fn reason(cause: Cause, words: String) -> FailureReason {
    FailureReason {
        cause,
        error: Some(cut_error(words)),
    }
}
