//! The erasure of a person: what is stored under a key goes, that it was and how it ended stays.
//!
//! [`events`] ends what is not over, and [`records`] erases payloads and error texts in the store and
//! in the journal; [`step`](Erasure::step) does a bounded part of both.

mod cursor;
mod events;
mod records;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::cursor::ErasureCursor;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::program_audit::program;
use crate::error::{Error, ErrorKind, Result};
use crate::event::QueueName;
use crate::record::{BY_BYTES_MAX, Cursor};

/// How long [`Erasure::run`] waits for records that are on their way to the journal, and how often it
/// looks.
const WAITS: u32 = 20;
const WAIT: Duration = Duration::from_millis(250);

/// An erasure of what is stored of the events of a key: payloads, headers, replies and error texts.
///
/// That each event was, when, with which key, and how it ended stays in its records, and the erasure
/// itself is a line of the [audit](Bus::audit). It may be repeated at any time; what is erased already
/// stays so.
///
/// | what | becomes of it |
/// |---|---|
/// | events that wait | refused with [`Conflict`](ErrorKind::Conflict) before anything is erased; with [`cancel`](Self::cancel), cancelled |
/// | events that run | stay, and are counted in [`running`](ErasureReport::running): erase again when they have ended |
/// | dead letters | dropped |
/// | replies to calls | removed |
/// | records, in the store and in the journal | lose payload and error text |
///
/// It does not reach other stores and journals, backups, logs, errors of other keys that quote the
/// person, the rows of an outbox that are not relayed yet, and the memory of running handlers. The
/// guide to operations says when the bytes are gone from files.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use duly::prelude::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// let queue = bus.queue_named::<String>("mail")?;
/// let letter = queue.event("Dear Ann".to_owned()).after(Duration::from_secs(60));
/// letter.key("customer:8").push().await?;
///
/// let refused = bus.erase("customer:8").run().await.unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Conflict); // it still waits
///
/// let erased = bus.erase("customer:8").cancel().by("ann").run().await?;
/// assert_eq!((erased.cancelled, erased.running), (1, 0));
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is erased before `run` or `step`"]
pub struct Erasure {
    inner: Arc<Inner>,
    key: String,
    /// Empty: every queue.
    queues: BTreeSet<QueueName>,
    /// What the names of the queues begin with.
    prefix: String,
    cancels: bool,
    dry_run: bool,
    by: Option<String>,
    wrong: Option<String>,
}

/// What an erasure did; in a dry run, what it would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErasureReport {
    /// How many events were cancelled.
    pub cancelled: u64,
    /// How many dead letters were dropped.
    pub dropped: u64,
    /// How many events run: they stay, and are to be erased when they have ended.
    pub running: u64,
    /// How many records were erased.
    pub records: u64,
    /// How many records could not be erased where they are: those in the outboxes of Redis; and with a
    /// journal those in any outbox, which may be on their way to it as they were. With a journal they
    /// are there in a moment, and erased by another run; without one they stay until newer ones replace
    /// them. Those that cannot be read count as well, as they may be of the key: damaged ones, and those
    /// that a newer duly has written.
    pub unreached: u64,
}

/// A bounded part of an erasure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErasureStep {
    /// What this step did.
    pub report: ErasureReport,
    /// Where the next step goes on; `None` after the last one.
    pub next: Option<ErasureCursor>,
}

impl Bus {
    /// Starts an erasure of what is stored of the events of a key, in every queue or in some.
    pub fn erase(&self, key: impl Into<String>) -> Erasure {
        Erasure {
            inner: Arc::clone(&self.inner),
            key: key.into(),
            queues: BTreeSet::new(),
            prefix: String::new(),
            cancels: false,
            dry_run: false,
            by: None,
            wrong: None,
        }
    }
}

impl Erasure {
    /// Selects this queue; repeat for several.
    pub fn queue(mut self, name: &str) -> Self {
        match QueueName::new(name) {
            Ok(name) => drop(self.queues.insert(name)),
            Err(error) => self.wrong = Some(error.to_string()),
        }
        self
    }

    /// Selects the queues of a namespace: those whose names begin with it and a dot.
    pub fn namespace(mut self, name: &str) -> Self {
        self.prefix = format!("{name}.");
        self
    }

    /// Also cancels the events that wait.
    pub fn cancel(mut self) -> Self {
        self.cancels = true;
        self
    }

    /// Counts, and changes nothing.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets who erases, for the audit and the records: up to 128 bytes. Default: in the audit this
    /// program and its machine, such as `orders@web-1`.
    pub fn by(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        if name.is_empty() || name.len() > BY_BYTES_MAX {
            let len = name.len();
            self.wrong = Some(format!(
                "the actor has {len} bytes; it must have 1 to {BY_BYTES_MAX}"
            ));
        }
        self.by = Some(name);
        self
    }

    /// Erases all of it, step by step, and waits up to five seconds for records that are on their way
    /// to the journal.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for an invalid option or an empty key; [`ErrorKind::Conflict`] while
    /// events wait and [`cancel`](Self::cancel) was not called: then nothing was erased, unless one was
    /// pushed or revived meanwhile, which the error says. Otherwise the error of the store or of the journal; what
    /// was erased stays erased, and calling again is safe.
    pub async fn run(self) -> Result<ErasureReport> {
        let has_journal = self.inner.recorded.is_some();
        let (mut sum, mut next, mut waits) = (ErasureReport::default(), None, 0);
        loop {
            let ErasureStep { report, next: then } = self.step(next).await?;
            sum.cancelled += report.cancelled;
            sum.dropped += report.dropped;
            sum.records += report.records;
            sum.running += report.running;
            sum.unreached += report.unreached;
            next = then;
            if next.is_some() {
                continue;
            }
            if sum.unreached == 0 || !has_journal || self.dry_run || waits == WAITS {
                return Ok(sum);
            }
            waits += 1;
            tokio::time::sleep(WAIT).await;
            sum.unreached = 0;
            next = Some(ErasureCursor::FIRST_RECORD);
        }
    }

    /// Erases a bounded part, `from` the [`next`](ErasureStep::next) of the step before, or from the
    /// beginning: first the events that are not over, then the records that wait in outboxes, then
    /// about a thousand of the others a step.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn step(&self, from: Option<ErasureCursor>) -> Result<ErasureStep> {
        self.check()?;
        let mut report = ErasureReport::default();
        let next = self.next_step(from, &mut report).await?;
        Ok(ErasureStep { report, next })
    }

    async fn next_step(
        &self,
        from: Option<ErasureCursor>,
        report: &mut ErasureReport,
    ) -> Result<Option<ErasureCursor>> {
        let place = match from {
            Some(ErasureCursor::Record(after)) => return self.record_step(after, report).await,
            Some(ErasureCursor::Events(at)) => Some(at),
            _ if self.dry_run => None,
            from => {
                let at = match from {
                    Some(ErasureCursor::Look(at)) => Some(at),
                    _ => None,
                };
                if !self.cancels
                    && let Some(next) = self.look(at).await?
                {
                    return Ok(Some(ErasureCursor::Look(next)));
                }
                self.begin().await?;
                None
            }
        };
        if !self.dry_run {
            // From now on the store overwrites what it deletes, also where this goes on after a restart.
            self.inner.open()?.erase_records(Vec::new()).await?;
        }
        match self.end_events(place, report).await? {
            Some(next) => Ok(Some(ErasureCursor::Events(next))),
            None => self.record_step(None, report).await,
        }
    }

    async fn record_step(
        &self,
        after: Option<Cursor>,
        report: &mut ErasureReport,
    ) -> Result<Option<ErasureCursor>> {
        let next = self.erase_records(after, report).await?;
        Ok(next.map(|place| ErasureCursor::Record(Some(place))))
    }

    /// Adds to the audit that it begins.
    async fn begin(&self) -> Result<()> {
        let bus = Bus::from_inside(Arc::clone(&self.inner));
        let actor = self.by.clone().unwrap_or_else(program);
        bus.add_to_audit(&actor, "events of a key erased", &self.target())
            .await
    }

    fn target(&self) -> String {
        let queues = self.queues.iter().map(|queue| queue.as_str());
        let queues = queues.collect::<Vec<_>>().join(" ");
        let queues = match (queues.as_str(), self.prefix.as_str()) {
            ("", "") => "every queue".to_owned(),
            ("", prefix) => format!("{prefix}*"),
            _ => queues,
        };
        format!("{queues}, key {}", self.key)
    }

    fn selects(&self, queue: &QueueName) -> bool {
        queue.starts_with(&self.prefix)
            && (self.queues.is_empty() || self.queues.contains(queue))
            && !queue.is_own()
    }

    fn check(&self) -> Result<()> {
        let empty = self.key.is_empty().then(|| {
            "the key is empty; give the key that the events of the person were pushed with"
                .to_owned()
        });
        match self.wrong.clone().or(empty) {
            Some(wrong) => Err(Error::invalid(wrong)),
            None => Ok(()),
        }
    }

    fn conflict(waiting: usize, are_all: bool) -> Error {
        let least = if are_all { "" } else { "at least " };
        let many = match waiting {
            1 => "1 event with this key waits".to_owned(),
            _ => format!("{waiting} events with this key wait"),
        };
        Error::new(
            ErrorKind::Conflict,
            format!(
                "{least}{many}, and nothing was erased; cancel them first, or erase with `cancel`"
            ),
        )
    }

    /// The end of an erasure that has begun.
    fn pushed_meanwhile() -> Error {
        let text = "an event with this key was pushed or revived while others were erased; cancel it, \
                    or erase with `cancel`";
        Error::new(ErrorKind::Conflict, text)
    }
}

impl fmt::Debug for Erasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erasure")
            .field("queues", &self.queues)
            .field("cancels", &self.cancels)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}
