//! Replay: events of records are pushed once more, each as an event of its own.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_util::StreamExt;

use crate::bus::fan_out::in_order;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::payloads::EncodedValue;
use crate::bus::program_audit::{ActionLine, target_in};
use crate::bus::push::options::EventOptions;
use crate::bus::queue_handle::QueueHandle;
use crate::bus::state::program_actions::{AuditedBy, ProgramAction};
use crate::codec::DecryptedPayload;
use crate::error::{Error, Result};
use crate::event::{EventId, Occurrence};
use crate::record::{Outcome, Record};

/// The longest name of a replay, in bytes.
const NAME_MAX: usize = 128;
/// The header of a replayed event that has the id of the event it repeats.
const REPLAY_HEADER: &str = "duly-replay-of";

/// A replay of records, made by [`Bus::replay`].
#[derive(Clone)]
#[must_use = "nothing is pushed before `push`"]
pub struct Replay {
    inner: Arc<Inner>,
    audited_by: AuditedBy,
    name: String,
    version: Option<u32>,
    dry_run: bool,
}

/// What a part of a replay did; in a dry run, what it would do. The events of records that are not [final](Record::is_final) are in
/// none of these: they have not ended, or another record tells of their end. Neither are occurrences of a
/// schedule that were [passed over](crate::event::SkipReason): they were not to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// How many events were pushed.
    pub pushed: u64,
    /// How many an earlier call under the same name had pushed.
    pub repeated: u64,
    /// How many records have no payload: their queue does not keep payloads, the payload was too long,
    /// or it was erased.
    pub without_payload: u64,
    /// How many payloads cannot be read, since the bus has no key for them.
    pub unreadable: u64,
}

/// What became of a record.
enum ReplayEnd {
    Pushed,
    Repeated,
    WithoutPayload,
    Unreadable,
    /// It was not to run.
    Skipped,
}

impl Bus {
    /// Starts a replay under a name: the events of records are pushed once more, due now.
    ///
    /// A replayed event has an id of its own, made from the name and the event that it repeats, so
    /// that a call that is repeated under the same name pushes nothing again for as long as the store knows
    /// these ids: at least a minute, at most a day (the guide to mechanisms says when). It has the key and
    /// the payload of the record, the header `duly-replay-of` with the id of that event, and all else
    /// from the options of its queue; a payload that is encrypted in the record stays so. A record has a payload only where the queue
    /// [keeps it](crate::EventBuilder::keep_payload). An occurrence of a schedule that was passed over, as
    /// missed or for its overlap, has a record and is not replayed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let order = queue.event(7).after(Duration::from_secs(60)).keep_payload(true);
    /// queue.cancel(order.push().await?.id()).await?;
    ///
    /// // What is replayed has records of its own when it ends: they are not to be replayed.
    /// let (replay, now) = (bus.replay("by mistake, 26 November"), SystemTime::now());
    /// let (mut pushed, mut after) = (0, None);
    /// loop {
    ///     let cancelled = bus.records().queue("order-close").outcome(Outcome::Cancelled);
    ///     let page = cancelled.until(now).after(after).page().await?;
    ///     pushed += replay.push(&page.items).await?.pushed;
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(pushed, 1);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn replay(&self, name: impl Into<String>) -> Replay {
        Replay {
            inner: Arc::clone(&self.inner),
            audited_by: self.audited_by,
            name: name.into(),
            version: None,
            dry_run: false,
        }
    }
}

impl Replay {
    /// Sets the version of the payloads that do not name theirs: those that nobody has replaced since
    /// their event was pushed. Default: that of the queue in this process, which is 0 where its handler's
    /// annotation is not linked in.
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Counts, and pushes nothing; events that an earlier call has pushed count as pushed.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Pushes the events of these records that are final, and returns how many.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that is empty or longer than 128
    /// bytes, and for an event that cannot be pushed as its queue is now. Or the store's error. Some
    /// may have been pushed; calling again is safe.
    pub async fn push(&self, records: &[Record]) -> Result<ReplayReport> {
        let len = self.name.len();
        if !(1..=NAME_MAX).contains(&len) {
            return Err(Error::invalid(format!(
                "the name of the replay has {len} bytes; it must have 1 to {NAME_MAX}"
            )));
        }
        let is_meant = |record: &&Record| record.is_final() && !record.queue.is_own();
        let queues = { records.iter().filter(is_meant) }.map(|record| record.queue.as_str());
        let queues: BTreeSet<_> = queues.collect();
        let target = target_in(queues, &format!("replay {}", self.name));
        let action = ProgramAction::new("records replayed", target);
        let line = ActionLine::new(&self.inner, self.audited_by, action);
        let pushes = { records.iter().filter(is_meant) }.map(|it| self.push_one(it, &line));
        let (mut report, mut pushes) = (ReplayReport::default(), in_order(pushes));
        while let Some(pushed) = pushes.next().await {
            let count = match pushed? {
                ReplayEnd::Skipped => continue,
                ReplayEnd::Pushed => &mut report.pushed,
                ReplayEnd::Repeated => &mut report.repeated,
                ReplayEnd::WithoutPayload => &mut report.without_payload,
                ReplayEnd::Unreadable => &mut report.unreadable,
            };
            *count += 1;
        }
        Ok(report)
    }

    async fn push_one(&self, record: &Record, line: &Arc<ActionLine>) -> Result<ReplayEnd> {
        let Some(payload) = &record.payload else {
            return Ok(ReplayEnd::WithoutPayload);
        };
        let Ok(opened) = self.inner.keys.open(record.id, &record.queue, payload) else {
            return Ok(ReplayEnd::Unreadable);
        };
        if is_skipped(record, &opened) {
            return Ok(ReplayEnd::Skipped);
        }
        if self.dry_run {
            return Ok(ReplayEnd::Pushed);
        }
        let mut queue = QueueHandle::new(Arc::clone(&self.inner), record.queue.clone());
        if opened.is_sealed() {
            // The event's pusher encrypts, though this process may not.
            Arc::make_mut(&mut queue.options).encrypt = true;
        }
        let value = EncodedValue {
            codec: opened.codec,
            bytes: opened.value.into_owned(),
        };
        let mut name = format!("replay/{}/{}", self.name, record.id);
        if !record.id.tells_time() {
            // An id of a name is that of several events, one after the other.
            name = format!("{name}/{}", record.stages.finished_us);
        }
        let id = EventId::for_name(&record.queue, &name);
        let options = EventOptions {
            key: record.key.clone(),
            version: opened.version.or(self.version),
            headers: vec![(REPLAY_HEADER.to_owned(), record.id.to_string())],
            ..EventOptions::default()
        };
        let push = async move { queue.push_named(id, value, options).await };
        Ok(if line.step(push, |is_new| *is_new).await? {
            ReplayEnd::Pushed
        } else {
            ReplayEnd::Repeated
        })
    }
}

/// Returns whether a record is that of an occurrence that was passed over, which is its own payload.
fn is_skipped(record: &Record, opened: &DecryptedPayload<'_>) -> bool {
    let is_kept_from_running = record.outcome == Outcome::Expired && !record.id.tells_time();
    is_kept_from_running
        && opened.decode::<Occurrence>().is_ok_and(|one| {
            let is_its_own =
                one.instant == record.due && record.key.as_ref() == Some(&one.schedule);
            is_its_own && one.skipped.is_some()
        })
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}
