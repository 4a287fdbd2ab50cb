//! A pool: a bus of `duly`, with what the interfaces need of it.
//!
//! The queue `q` of namespace `ns` is the queue `ns.q` of the library. A body that is JSON is stored
//! as JSON, so that a handler in Rust can serve the queue; any other as raw bytes.

mod body;
mod scan;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duly::__server::{dead_letters, ends, moved_clock, payloads};
use duly::admin::QueueStats;
use duly::codec::Codec;
use duly::config::Settings;
use duly::event::State;
use duly::lease::{EncodedPayload, EndResult, Leased};
use duly::time::Timestamp;
use duly::{Bus, Error, ErrorKind, EventBuilder, EventId, LatePolicy, Queue, QueueName, Result};

pub(crate) use self::body::Body;
use crate::clock::ManualClock;
use crate::metrics;
use crate::overview::EndedCounter;
use crate::schedules::SCHEDULES_MAX;

/// A queue of the server's own, in no namespace that a token can be for: no name has a dot.
const OWN_QUEUE: &str = "duly.duly.server";
/// When the event by which the store is tried would be due.
const PING_DELAY: Duration = Duration::from_secs(3_600);
/// The most bytes of payloads of one lease.
const LEASED_BYTES_MAX: usize = 16 << 20;
/// How many queues have a label of their own in the library's metrics.
const LABELS_MAX: usize = 400;
/// The largest payload that a pool stores: that of a job, and the frame around it.
const PAYLOAD_BYTES_MAX: usize = (1 << 20) + 4096;

/// A pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    name: Arc<str>,
    bus: Bus,
    /// A queue of the server's own, whose ids tell the time of the store.
    clock: Queue<Body>,
    ended: Arc<EndedCounter>,
}

/// A job that is not over.
#[derive(Clone, Debug)]
pub(crate) struct FoundJob {
    pub(crate) id: EventId,
    pub(crate) state: State,
    pub(crate) due: Timestamp,
    pub(crate) pushed: Timestamp,
    pub(crate) key: Option<String>,
    pub(crate) unique: Option<String>,
    pub(crate) late: LatePolicy,
    pub(crate) keeps_payload: bool,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// How its body is stored.
    pub(crate) form: BodyForm,
    pub(crate) attempts_left: u16,
    pub(crate) expires: Option<Timestamp>,
}

/// What came of the end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobEnd {
    /// It was leased, and is acked.
    Acked,
    /// It waited or was dead, or was over before.
    Over,
    /// It is in this state, in which it may not be ended.
    Refused(State),
}

/// How a body is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyForm {
    codec: Codec,
    /// The version of its type.
    version: u32,
    pub(crate) is_encrypted: bool,
}

impl Pool {
    /// Adds a line to the audit of the store, where commands and programs without this server add theirs.
    pub(crate) async fn audit(&self, actor: &str, action: &str, target: &str) {
        if let Err(error) = self.bus().add_to_audit(actor, action, target).await {
            tracing::error!(%error, actor, action, target, "audit of the store failed");
        }
    }

    /// Opens the store of a URL, on a clock of its own if one is given.
    pub(crate) async fn open(
        name: &str,
        url: &str,
        mut settings: Settings,
        clock: Option<&Arc<ManualClock>>,
    ) -> Result<Self> {
        // One bucket keeps the order of a queue, which clients of lmstfy expect.
        settings.queue_defaults.buckets.get_or_insert(1);
        settings.payload_bytes_max.get_or_insert(PAYLOAD_BYTES_MAX);
        settings.metrics.queues_max.get_or_insert(LABELS_MAX);
        let builder = match clock {
            Some(clock) => moved_clock::on(Bus::builder(), Arc::clone(clock) as _),
            None => Bus::builder(),
        };
        let bus = builder
            .settings(settings)
            .store_url(url)
            .only_registered()
            .dynamic_queues()
            .publish_only()
            .run_schedules(true)
            .schedules_max(SCHEDULES_MAX)
            .start()
            .await?;
        // Whoever has a queue consumed over HTTP, or by a webhook, has no other process for this.
        dead_letters::start_for_all(&bus);
        Self::of(name, bus)
    }

    /// Makes a pool of a bus.
    pub(crate) fn of(name: &str, bus: Bus) -> Result<Self> {
        Ok(Self {
            name: name.into(),
            clock: bus.queue_to_push(OWN_QUEUE)?,
            // A line of the audit says by whom a request was.
            bus: bus.with_own_audit(),
            ended: Arc::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns its bus, for what needs no more than that.
    pub(crate) fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Returns its counter of what ended in the last minute.
    pub(crate) fn ended(&self) -> &EndedCounter {
        &self.ended
    }

    /// Returns the time of the store, by which events are due, expire and have their ids: the clocks
    /// of servers may differ.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.new_id().created()
    }

    pub(crate) async fn close(&self, grace: Duration) -> Result<()> {
        self.bus.shutdown(grace).await
    }

    /// Returns the queue of a namespace.
    pub(crate) fn queue(&self, namespace: &str, queue: &str) -> Result<Queue<Body>> {
        self.bus.queue_to_push(&format!("{namespace}.{queue}"))
    }

    /// Builds an event of a body.
    pub(crate) fn event(queue: &Queue<Body>, body: Body) -> EventBuilder<Body> {
        let codec = body.codec();
        queue.event(body).codec(codec)
    }

    /// Builds an event of a body that was stored before, in the form that it had; of an encrypted one
    /// the queue has to be [`encrypted`](payloads::encrypted).
    pub(crate) fn event_again(
        queue: &Queue<Body>,
        body: Bytes,
        form: BodyForm,
    ) -> EventBuilder<Body> {
        let event = payloads::encoded_by(queue.event(Body::Raw(body)), form.codec);
        payloads::versioned(event, form.version)
    }

    /// Replaces the payload of an event that waits.
    pub(crate) async fn update(
        queue: &Queue<Body>,
        id: EventId,
        body: &Body,
    ) -> Result<duly::ChangeOutcome> {
        queue
            .clone()
            .with_codec(body.codec())
            .update(id, body)
            .await
    }

    /// Leases up to `max` jobs of several queues, in the order of the queues.
    pub(crate) async fn lease(
        &self,
        queues: &[QueueName],
        max: usize,
        ttr: Duration,
        wait: Duration,
    ) -> Result<Vec<Leased<EncodedPayload>>> {
        let _waits = (!wait.is_zero()).then(metrics::waits);
        self.bus
            .lease_from(queues, max, ttr)
            .bytes_max(LEASED_BYTES_MAX)
            .wait(wait)
            .send()
            .await
    }

    /// Ends a job in a state that `may` accepts. One that was cancelled before is cancelled again, so
    /// only a lease says that the job was there.
    pub(crate) async fn end(
        &self,
        queue: &Queue<Body>,
        id: EventId,
        may: impl Fn(State) -> bool,
    ) -> Result<JobEnd> {
        match ends::end_if(queue, id, &may).await? {
            EndResult::Acked => Ok(JobEnd::Acked),
            EndResult::TooLate(State::Dead) if may(State::Dead) => {
                self.drop_dead(queue, [id]).await.map(|_| JobEnd::Over)
            }
            EndResult::TooLate(state) if !may(state) => Ok(JobEnd::Refused(state)),
            _ => Ok(JobEnd::Over),
        }
    }

    /// Returns a job, if it is not over. One that expires is, though a consumer has it.
    pub(crate) async fn get(&self, queue: &Queue<Body>, id: EventId) -> Result<Option<FoundJob>> {
        let found = self.get_event(queue, id).await?;
        let is_over = |job: &FoundJob| {
            job.state == State::Leased && job.expires.is_some_and(|expires| expires <= self.now())
        };
        Ok(found.filter(|job| !is_over(job)))
    }

    /// Returns an event, if it is not over. One that expires is, unless a consumer has it.
    ///
    /// An error is [`Invalid`](ErrorKind::Invalid) if this server cannot decrypt its payload.
    pub(crate) async fn get_event(
        &self,
        queue: &Queue<Body>,
        id: EventId,
    ) -> Result<Option<FoundJob>> {
        let Some(found) = queue.get(id).await? else {
            return Ok(None);
        };
        let Some(envelope) = &found.body else {
            return Ok(None);
        };
        let waits = matches!(found.state, State::Scheduled | State::Ready);
        if waits
            && envelope
                .expires
                .is_some_and(|expires| expires <= self.now())
        {
            return Ok(None);
        }
        let opened = self
            .bus
            .keys()
            .open(found.id, queue.name(), &envelope.payload);
        let body = opened.map_err(|why| {
            Error::new(ErrorKind::Invalid, "the payload cannot be decrypted").because(why)
        })?;
        let form = BodyForm {
            codec: body.codec,
            version: body.version.unwrap_or(envelope.version),
            is_encrypted: body.is_sealed(),
        };
        Ok(Some(FoundJob {
            id: found.id,
            state: found.state,
            due: found.due,
            pushed: envelope.pushed,
            key: envelope.key.clone(),
            unique: envelope.unique.clone(),
            late: envelope.late,
            keeps_payload: envelope.keeps_payload,
            headers: envelope.headers.clone(),
            body: body.value.into_owned().into(),
            form,
            attempts_left: envelope.attempts.saturating_sub(found.tries),
            expires: envelope.expires,
        }))
    }

    /// Counts the jobs of a queue by state.
    pub(crate) async fn stats(&self, queue: &Queue<Body>) -> Result<QueueStats> {
        match self.bus.stats(queue.name()).await {
            // A new queue whose name is nearly that of another.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(QueueStats::default()),
            stats => stats,
        }
    }

    /// Removes dead jobs; returns how many there were.
    pub(crate) async fn drop_dead(
        &self,
        queue: &Queue<Body>,
        ids: impl IntoIterator<Item = EventId>,
    ) -> Result<u64> {
        let letters = self.bus.dead_letters().queue(queue.name());
        Ok(letters.drop(ids).await?.finished()?.done)
    }

    /// Reads from the store and pushes to it, to learn whether it does both. The event is the same each
    /// time, and is cancelled at once: later it is a duplicate, which a store refuses as any other
    /// where it takes no pushes.
    pub(crate) async fn ping(&self) -> Result<()> {
        self.bus.controls().await?;
        let id = self.clock.id_for_name("ready");
        let event = Self::event(&self.clock, Body::Raw(Bytes::new())).id(id);
        let pushed = event.after(PING_DELAY).push().await?;
        if pushed.is_accepted() {
            // It may not be confirmed: then it is cancelled by the next.
            let _ = self.clock.cancel(id).await?;
        }
        Ok(())
    }
}
