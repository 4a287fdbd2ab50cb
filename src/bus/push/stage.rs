//! Staging: events are prepared as for a push, and returned instead of pushed.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::bus::handle::Bus;
use crate::bus::payloads::EncodedValue;
use crate::bus::push::event::EventBuilder;
use crate::bus::push::many::{PushItem, PushMany};
use crate::bus::push::options::EventOptions;
use crate::bus::push::prepare::EventPlace;
use crate::bus::push::staged::StagedEvent;
use crate::bus::queue::Queue;
use crate::bus::state::outboxes::OutboxBacklog;
use crate::codec::Codec;
use crate::core::op::{NewEvent, Unique};
use crate::error::{Error, Result, shown};
use crate::event::{BucketId, EventId, Headers, QueueName};
use crate::flow::{Flow, HoldsTime, QueueOptions};
use crate::time::{DELAY_MAX, Timestamp, When};
use crate::trace;

/// An event that was written by plain SQL: its payload is JSON, its options are a JSON object.
#[derive(Clone, Debug)]
pub struct PlainEvent {
    /// The name of its queue.
    pub queue: String,
    /// Its payload.
    pub payload: String,
    /// When it is due; `None`: at once.
    pub due: Option<Timestamp>,
    /// When it was inserted, by the clock of its database.
    pub at: Timestamp,
    /// The id that was fixed at its insert.
    pub id: EventId,
    /// Whether it was chosen by who wrote the event.
    pub is_id_chosen: bool,
    /// Its other options.
    pub options: String,
}

impl<T: Serialize + Send + Sync + 'static> EventBuilder<T> {
    /// Prepares the event, and returns it instead of pushing it.
    pub(crate) fn stage(self) -> Result<StagedEvent> {
        let handle = self.queue.handle.clone();
        let mut prepared = self.prepare()?;
        let envelope = &prepared.event.envelope;
        let span = trace::push(&handle.name, envelope.id, envelope.bucket());
        span.in_scope(|| prepared.stamp());
        let is_given = prepared.given.is_some();
        let now_us = handle.inner.store.now_us();
        Ok(StagedEvent::new(
            prepared.event,
            is_given,
            prepared.durability,
            now_us,
        ))
    }
}

impl<T, I> PushMany<'_, T, I>
where
    T: Serialize + Send + Sync + 'static,
    I: IntoIterator,
    I::Item: Into<PushItem<T>>,
{
    /// Prepares the items, and returns them in their order instead of pushing them.
    pub(crate) fn stage(self) -> Result<Vec<StagedEvent>> {
        let handle = self.queue.handle.clone();
        let encoded = self.encoded()?;
        let span = trace::push_many(&handle.name, encoded.count);
        let now_us = handle.inner.store.now_us();
        let mut staged = Vec::new();
        for (places, batch) in handle.batches(encoded, &span)? {
            let is_given = !batch.given.is_empty();
            for (place, event) in places.into_iter().zip(batch.events) {
                event.envelope.check(handle.inner.payload_bytes_max)?;
                let event = StagedEvent::new(event, is_given, batch.durability, now_us);
                staged.push((place, event));
            }
        }
        staged.sort_unstable_by_key(|(place, _)| *place);
        Ok(staged.into_iter().map(|(_, event)| event).collect())
    }
}

impl Bus {
    /// Prepares an event that was written by plain SQL, by the options of its queue.
    pub(crate) fn stage_plain(&self, plain: &PlainEvent) -> Result<StagedEvent> {
        let queue = self.queue_to_push::<Value>(&plain.queue)?;
        let options = PlainOptions::parse(&plain.options)?;
        let handle = &queue.handle;
        let value = plain_value(&queue, &plain.payload)?;
        // What counts from the push counts from the insert, however late the row is read; of two clocks
        // by the one that is behind.
        let now = plain.at.min(handle.inner.now());
        let buckets = handle.buckets();
        let unique = options.event.unique.as_ref().map(|(key, _)| key);
        let chosen = plain.is_id_chosen.then_some(plain.id);
        let (id, is_given) = match (options.id.or(chosen), unique.or(options.event.key.as_ref())) {
            (Some(id), _) => (id, true),
            // Its id names its bucket, by which it is found.
            (None, Some(text)) => {
                let (created, bucket) = (plain.id.created(), BucketId::of_text(text, buckets));
                let id = EventId::from_parts(created, bucket, plain.id.entropy());
                (id, false)
            }
            (None, None) => (plain.id, false),
        };
        let place = EventPlace {
            id,
            bucket: id.place(buckets),
            pushed: if id.tells_time() { id.created() } else { now },
        };
        let options = EventOptions {
            when: Some(plain.due.map_or(When::Now, When::At)),
            ..options.event
        };
        let event = handle.build(place, now, value, options)?;
        event.envelope.check(handle.inner.payload_bytes_max)?;
        let now_us = handle.inner.store.now_us();
        let durability = handle.inner.durability;
        Ok(StagedEvent {
            is_derived: !is_given,
            ..StagedEvent::new(event, is_given, durability, now_us)
        })
    }

    /// Notes what a relay of this process sees in its outbox; `None` once it has ended.
    pub(crate) fn report_outbox(&self, relay: u64, backlog: Option<OutboxBacklog>) {
        self.inner.outboxes.report(relay, backlog);
    }

    /// Returns what waits in the outbox of `duly-outbox`, as the relays of this process see it; `None`
    /// without one. They count once a second.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> duly::Result<()> {
    /// let bus = duly::Bus::builder().store_url("memory:").publish_only().start().await?;
    /// assert!(bus.outbox_backlog().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn outbox_backlog(&self) -> Option<OutboxBacklog> {
        self.inner.outboxes.backlog()
    }

    /// Returns whether the bus was shut down or dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.open().is_err()
    }

    /// Waits for a relay's database, while virtual time stands still.
    pub(crate) async fn hold_time<F: Future>(&self, outside: F) -> F::Output {
        let holds = self.inner.flow().as_ref().and_then(Flow::holds);
        match holds {
            Some(holds) => HoldsTime::new(outside, holds).await,
            None => outside.await,
        }
    }

    /// Returns, of the queues that have a handler or options here, the one whose attempts of an event
    /// may last longest, and how long that is from the begin of the first to the end of the last.
    pub(crate) fn longest_attempts(&self) -> Option<(QueueName, Duration)> {
        let last = |options: &QueueOptions| {
            let delay = |failed| options.backoff.delay_after(failed, 0.0).min(DELAY_MAX);
            let delays = (1..options.attempts).map(delay);
            let attempts = options.timeout.saturating_mul(options.attempts.into());
            delays.fold(attempts, Duration::saturating_add)
        };
        let queues = self.inner.queues.iter();
        let queues = queues.map(|(name, options)| (name.clone(), last(options)));
        queues.max_by_key(|(_, last)| *last)
    }

    /// Returns the pause of a relay that nothing wakes.
    pub(crate) fn relay_pause(&self, pause: Duration) -> Duration {
        self.inner.real_pause(pause)
    }

    /// Gives a staged event an id that is made by the store's time now, with the random part of the
    /// first one, unless others may have that from their callers, too. Only for an event that was
    /// surely not accepted under its first id, or that may be handled twice.
    pub(crate) fn renew_staged(&self, staged: &StagedEvent) -> Result<StagedEvent> {
        let mut envelope = (*staged.event.envelope).clone();
        let (now, bucket) = (self.inner.now(), envelope.bucket());
        let id = if staged.is_given || staged.is_derived {
            EventId::random(now, bucket)
        } else {
            EventId::from_parts(now, bucket, envelope.id.entropy())
        };
        let ids = (envelope.id, id);
        let queue = envelope.queue.clone();
        envelope.payload = self
            .inner
            .under_another_id(&envelope.payload, &queue, ids)?;
        envelope.id = id;
        envelope.put_in(bucket);
        Ok(StagedEvent {
            event: NewEvent {
                envelope: Arc::new(envelope),
                ..staged.event
            },
            is_given: false, // the one that its caller chose is gone
            is_derived: false,
            ..*staged
        })
    }
}

/// Encodes a payload of plain SQL by the codec of its queue.
fn plain_value(queue: &Queue<Value>, payload: &str) -> Result<EncodedValue> {
    let wrong = |error| {
        let name = &queue.handle.name;
        Error::invalid(format!("queue {name}: the payload is no JSON")).because(error)
    };
    let codec = queue.handle.options.codec;
    if codec == Codec::Json {
        // As it is, since a number of any length is legal there.
        serde_json::from_str::<serde::de::IgnoredAny>(payload).map_err(wrong)?;
        return Ok(EncodedValue {
            codec,
            bytes: payload.as_bytes().to_vec(),
        });
    }
    let value: Value = serde_json::from_str(payload).map_err(wrong)?;
    queue.encode(codec, &value)
}

/// The options of an event of plain SQL.
struct PlainOptions {
    id: Option<EventId>,
    event: EventOptions,
}

/// The names of the options of plain SQL.
const PLAIN_OPTIONS: &str = "id, key, unique, on_taken, unique_for, attempts, expires_after, late, \
                             spread, headers, keep_payload and version";

impl PlainOptions {
    fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::invalid("the options are no JSON").because(error))?;
        let Value::Object(fields) = value else {
            let wrong = format!("the options are no JSON object; give one with {PLAIN_OPTIONS}");
            return Err(Error::invalid(wrong));
        };
        let mut options = Self {
            id: None,
            event: EventOptions {
                version: Some(0), // the build of a relay says nothing of who has written it
                ..EventOptions::default()
            },
        };
        let (mut unique, mut on_taken) = (None, Unique::Keep);
        let event = &mut options.event;
        for (name, value) in &fields {
            let field = Field(name, value);
            match name.as_str() {
                "id" => options.id = Some(field.text()?.parse()?),
                "key" => event.key = Some(field.text()?.to_owned()),
                "unique" => unique = Some(field.text()?.to_owned()),
                "on_taken" => {
                    on_taken = match field.text()? {
                        "keep" => Unique::Keep,
                        "replace" => Unique::Replace,
                        _ => return Err(field.wrong("keep or replace")),
                    };
                }
                "unique_for" => event.unique_for = Some(field.span()?),
                "attempts" => {
                    let attempts = value.as_u64().and_then(|it| u16::try_from(it).ok());
                    let attempts = attempts.filter(|attempts| *attempts > 0);
                    let wrong = || field.wrong("a number from 1 to 65535");
                    event.attempts = Some(attempts.ok_or_else(wrong)?);
                }
                "expires_after" => event.expires_after = Some(field.span()?),
                "late" => event.late = Some(field.text()?.parse()?),
                "spread" => event.spread = Some(field.span()?),
                "headers" => event.headers = field.headers()?,
                "keep_payload" => {
                    let keep = value.as_bool();
                    event.keep_payload = Some(keep.ok_or_else(|| field.wrong("true or false"))?);
                }
                "version" => {
                    let version = value.as_u64().and_then(|it| u32::try_from(it).ok());
                    let wrong = || field.wrong("a number from 0 to 4294967295");
                    event.version = Some(version.ok_or_else(wrong)?);
                }
                _ => {
                    return Err(Error::invalid(format!(
                        "there is no option `{}` of an event; there are {PLAIN_OPTIONS}",
                        shown(name)
                    )));
                }
            }
        }
        event.unique = unique.map(|key| (key, on_taken));
        Ok(options)
    }
}

/// An option with its name.
struct Field<'a>(&'a str, &'a Value);

impl<'a> Field<'a> {
    fn text(&self) -> Result<&'a str> {
        self.1.as_str().ok_or_else(|| self.wrong("a text"))
    }

    fn span(&self) -> Result<Duration> {
        let text = self.text()?;
        crate::duration::parse(text).map_err(|error| {
            Error::invalid(format!("the option `{}` is no time span", self.0)).because(error)
        })
    }

    fn headers(&self) -> Result<Headers> {
        let wrong = || self.wrong("an object of texts");
        let fields = self.1.as_object().ok_or_else(wrong)?;
        let header = |(name, value): (&String, &Value)| {
            let value = value.as_str().ok_or_else(wrong)?;
            Ok((name.clone(), value.to_owned()))
        };
        fields.iter().map(header).collect()
    }

    fn wrong(&self, right: &str) -> Error {
        Error::invalid(format!(
            "the option `{}` is {}; it must be {right}",
            self.0,
            shown(&self.1.to_string())
        ))
    }
}
