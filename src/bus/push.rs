//! Pushing: one event with all it can say, or many at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::Serialize;

use crate::bus::queue::{Queue, unexpected};
use crate::core::op::{Answer, BATCH_MAX, NewEvent, PushVerdict, Pushed, Reply, StoreOp, Unique};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, Envelope, EventId, Headers, Late, Payload};
use crate::store::Durability;
use crate::time::{Timestamp, When};

/// The most events of one [`push_many`](Queue::push_many).
pub const PUSH_MANY_MAX: usize = 100_000;
/// No batch of a large push is smaller than this.
const CHUNK_MIN: usize = 64;

/// What a push answers: proof of what was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    id: EventId,
    due: Timestamp,
    durability: Durability,
    verdict: PushVerdict,
}

impl Receipt {
    /// The event's id: that of the event which was there already when the push was a duplicate.
    #[must_use]
    pub fn id(&self) -> EventId {
        match self.verdict {
            PushVerdict::Duplicate(id) => id,
            _ => self.id,
        }
    }

    /// When it is due, by the store's clock.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.due
    }

    /// What the event survives from now on.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether the event is new.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        !self.is_duplicate()
    }

    /// Whether it was there already, the same or one with its unique key; nothing was changed.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        matches!(self.verdict, PushVerdict::Duplicate(_))
    }

    /// The waiting event whose place it took; that one is cancelled.
    #[must_use]
    pub fn replaced(&self) -> Option<EventId> {
        match self.verdict {
            PushVerdict::Replaced(id) => Some(id),
            _ => None,
        }
    }
}

/// An event on its way into a queue; nothing happens before [`send`](Self::send).
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use duly::prelude::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// let queue = bus.queue_named::<u64>("order-close")?;
/// let first = queue.event(8).after(Duration::from_secs(60)).unique("close:8", Unique::Keep).send().await?;
/// let again = queue.event(8).after(Duration::from_secs(60)).unique("close:8", Unique::Keep).send().await?;
///
/// assert!(again.is_duplicate());
/// assert_eq!(again.id(), first.id());
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is pushed before `send` is called"]
pub struct EventBuilder<T> {
    queue: Queue<T>,
    payload: T,
    id: Option<EventId>,
    when: When,
    key: Option<String>,
    unique: Option<(String, Unique)>,
    attempts: Option<u16>,
    expires_after: Option<Duration>,
    late: Late,
    headers: Headers,
}

impl<T: Serialize + Send + Sync + 'static> EventBuilder<T> {
    pub(super) fn new(queue: Queue<T>, payload: T) -> Self {
        Self {
            queue,
            payload,
            id: None,
            when: When::Now,
            key: None,
            unique: None,
            attempts: None,
            expires_after: None,
            late: Late::Deliver,
            headers: Headers::new(),
        }
    }

    /// Due after `delay`. Default: at once.
    pub fn after(self, delay: Duration) -> Self {
        self.when(delay)
    }

    /// Due at an instant; one that is past means at once.
    pub fn at(self, due: impl Into<Timestamp>) -> Self {
        self.when(due.into())
    }

    /// Due after a [`Duration`], or at a [`SystemTime`](std::time::SystemTime) or [`Timestamp`].
    pub fn when(mut self, when: impl Into<When>) -> Self {
        self.when = when.into();
        self
    }

    /// What the event belongs to, for example an order: events of one key share a bucket, and
    /// records can be searched for it. At most 1,024 bytes.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// While an event with this key waits or runs, there is no second one. At most 1,024 bytes.
    ///
    /// Holds within the bucket count that the queue has: while it is changed, an event of before
    /// may not be seen.
    pub fn unique(mut self, key: impl Into<String>, on_taken: Unique) -> Self {
        self.unique = Some((key.into(), on_taken));
        self
    }

    /// How often the event is tried at most, 1 to 1,000. Default: as the queue says.
    pub fn attempts(mut self, attempts: u16) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// This long after the push it is not started any more: it ends as expired.
    pub fn expires_after(mut self, span: Duration) -> Self {
        self.expires_after = Some(span);
        self
    }

    /// What becomes of it when it is late. Default: it is delivered all the same.
    pub fn late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// A name and a value that travel with the event; at most 32 of them, of 1,024 bytes.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// An id chosen before, by [`Queue::new_id`]: pushing again with the same id changes nothing,
    /// so a push whose answer was lost can be repeated.
    ///
    /// The id names the bucket, so it overrules `key` and `unique` in that.
    pub fn id(mut self, id: EventId) -> Self {
        self.id = Some(id);
        self
    }

    /// Pushes the event.
    ///
    /// # Errors
    ///
    /// As [`Queue::push`]; [`ErrorKind::Conflict`] when its id belongs to another payload, or is
    /// older than what the store remembers of finished events.
    pub async fn send(self) -> Result<Receipt> {
        let queue = self.queue;
        let now = queue.inner.clock.now();
        let text = self
            .unique
            .as_ref()
            .map(|(key, _)| key)
            .or(self.key.as_ref());
        let id = match (self.id, text) {
            (Some(id), _) => id,
            (None, Some(text)) => queue.id_in(BucketId::of_text(text, queue.options.buckets)),
            (None, None) => queue.new_id(),
        };
        let attempts = self.attempts.unwrap_or(queue.options.attempts);
        if !(1..=1_000).contains(&attempts) {
            return Err(Error::invalid(format!(
                "attempts is {attempts}, it is 1 to 1000"
            )));
        }
        let envelope = Envelope {
            pushed: now,
            attempts,
            delayed: self.when != When::Now,
            version: queue.options.version,
            key: self.key,
            unique: self.unique.as_ref().map(|(key, _)| key.clone()),
            expires: self.expires_after.map(|span| now + span),
            late: self.late,
            headers: self.headers,
            ..Envelope::new(id, queue.name.clone(), queue.encode(&self.payload)?)
        };
        envelope.check(queue.inner.payload_bytes_max)?;
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when: self.when.checked(now)?,
            on_taken: self.unique.map_or(Unique::Keep, |(_, on_taken)| on_taken),
        };
        let mut receipts = queue.push_batch(id.bucket(), vec![event]).await?;
        receipts.pop().unwrap_or_else(|| Err(lost()))
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// A new id, for a push that can be repeated safely.
    #[must_use]
    pub fn new_id(&self) -> EventId {
        self.id_in(BucketId::spread(fastrand::u64(..), self.options.buckets))
    }

    fn id_in(&self, bucket: BucketId) -> EventId {
        EventId::from_parts(self.inner.clock.now(), bucket, fastrand::u64(..))
    }

    /// Pushes many values with one due time, in batches that go to the store together.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push), and [`ErrorKind::Invalid`] for more than [`PUSH_MANY_MAX`]. An error
    /// may come after a part of the batches was accepted; nothing of the failed one was, unless the
    /// kind is [`ErrorKind::Unknown`].
    pub async fn push_many(
        &self,
        payloads: impl IntoIterator<Item = T>,
        when: impl Into<When>,
    ) -> Result<Vec<Receipt>> {
        let now = self.inner.clock.now();
        let when = when.into().checked(now)?;
        let mut encoded = Vec::new();
        for payload in payloads {
            if encoded.len() == PUSH_MANY_MAX {
                return Err(Error::invalid(format!(
                    "more than {PUSH_MANY_MAX} events in one push; push them in parts"
                )));
            }
            encoded.push(self.encode(&payload)?);
        }
        let buckets = usize::from(self.options.buckets);
        let chunk = encoded.len().div_ceil(buckets).clamp(CHUNK_MIN, BATCH_MAX);
        let first = fastrand::u16(..self.options.buckets);
        let mut batches = Vec::new();
        for (payloads, turn) in encoded.chunks(chunk).zip(0_u16..) {
            // No overflow: a push has at most PUSH_MANY_MAX / CHUNK_MIN batches, a queue 1,024 buckets.
            let bucket = BucketId((first + turn) % self.options.buckets);
            let events = payloads
                .iter()
                .map(|payload| self.plain_event(bucket, now, payload, when));
            batches.push(self.push_batch(bucket, events.collect()));
        }
        try_join_all(batches).await?.into_iter().flatten().collect()
    }

    fn plain_event(
        &self,
        bucket: BucketId,
        now: Timestamp,
        payload: &Payload,
        when: When,
    ) -> NewEvent {
        let id = EventId::from_parts(now, bucket, fastrand::u64(..));
        let envelope = Envelope {
            pushed: now,
            attempts: self.options.attempts,
            delayed: when != When::Now,
            version: self.options.version,
            ..Envelope::new(id, self.name.clone(), payload.clone())
        };
        NewEvent {
            envelope: Arc::new(envelope),
            when,
            on_taken: Unique::Keep,
        }
    }

    /// Pushes a batch into one bucket.
    async fn push_batch(
        &self,
        bucket: BucketId,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Result<Receipt>>> {
        let ids: Vec<_> = events.iter().map(|event| event.envelope.id).collect();
        let bucket = BucketKey::new(self.name.clone(), bucket);
        let answer = self.inner.apply(&bucket, StoreOp::Push(events)).await?;
        let durability = self.inner.store.durability();
        match answer {
            Answer {
                reply: Reply::Pushed(pushed),
                ..
            } if pushed.len() == ids.len() => Ok(ids
                .into_iter()
                .zip(pushed)
                .map(|(id, pushed)| receipt(id, pushed, durability))
                .collect()),
            Answer { reply, .. } => Err(unexpected(&reply)),
        }
    }
}

fn receipt(id: EventId, pushed: Pushed, durability: Durability) -> Result<Receipt> {
    let Pushed { due, verdict } = pushed;
    match verdict {
        PushVerdict::Conflict => Err(Error::new(
            ErrorKind::Conflict,
            format!("the id {id} belongs to an event with another payload"),
        )),
        PushVerdict::TooOld => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "the id {id} is older than what the store remembers of finished events, so nobody \
                 can know whether it is new; push with a new id"
            ),
        )),
        _ => Ok(Receipt {
            id,
            due,
            durability,
            verdict,
        }),
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Corrupt, "the store answered a push with nothing")
}
