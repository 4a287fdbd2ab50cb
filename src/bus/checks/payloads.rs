//! A check that this build can read every stored payload.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::payloads::version_of;
use crate::bus::scan::{PAGE, Scan};
#[cfg(feature = "schedules")]
use crate::bus::schedules::next_events;
use crate::core::op::Snapshot;
use crate::error::{Error, Result};
use crate::event::{Envelope, EventId, QueueName, State, has_schedules};

/// The most failures that are listed.
const LISTED: usize = 100;

/// Payloads, each with what is said before a failure.
type Payloads = Vec<(Arc<Envelope>, String)>;

/// A check that the handlers of this program can read every stored payload.
#[derive(Clone)]
#[must_use = "nothing is looked at before `run`"]
pub struct PayloadCheck {
    inner: Arc<Inner>,
    queues: Vec<String>,
    limit: Option<u64>,
    dead: bool,
}

/// The result of a payload check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "what cannot be read is in it"]
pub struct PayloadReport {
    /// How many payloads were checked: of events, and of what schedules will push.
    pub looked: u64,
    /// How many payloads were read.
    pub read: u64,
    /// How many were not.
    pub failed: u64,
    /// The first hundred of those.
    pub failures: Vec<UndecodablePayload>,
    /// Queues that have events or schedules, and no handler in this program.
    pub without_handler: BTreeSet<QueueName>,
}

/// A payload that its handler could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UndecodablePayload {
    /// The event; that of a schedule in a queue of duly, where `why` names the schedule.
    pub id: EventId,
    /// Its queue, or that of the schedule.
    pub queue: QueueName,
    /// Its state.
    pub state: State,
    /// The version of its payload: that of its push, or of a later update or edit.
    pub version: u32,
    /// Why, as its record would say.
    pub why: String,
}

impl fmt::Display for UndecodablePayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of queue {}, version {}: {}",
            self.id, self.queue, self.version, self.why
        )
    }
}

impl PayloadReport {
    /// Returns this report, if every payload was read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), with the first ten failures.
    pub fn passed(self) -> Result<Self> {
        if self.failed == 0 {
            return Ok(self);
        }
        let first = self.failures.iter().take(10).map(ToString::to_string);
        Err(Error::invalid(format!(
            "{} of {} payloads would not be read: {}",
            self.failed,
            self.looked,
            first.collect::<Vec<_>>().join("; ")
        )))
    }
}

impl Bus {
    /// Checks whether the handlers of this program can read every stored payload, and what schedules
    /// will push: with its codec, the keys of this bus, and upgrades. Calls no handler and changes
    /// nothing, so a publish-only bus can check the store of a running system before a deployment.
    ///
    /// Every event that exists during the whole check is included, however its state changes; on
    /// Redis an event may be counted twice. A page of events costs the same however many there are.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// #[delay_event(queue = "order-close")]
    /// async fn close(event: Event<u64>) -> Result<(), Failure> {
    ///     println!("{}", event.payload);
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.queue::<close>().push(7, Duration::from_secs(60)).await?;
    /// bus.check_payloads().run().await?.passed()?;
    ///
    /// // An older build has pushed something else.
    /// let older = bus.queue_named::<String>("order-close")?;
    /// older.push("order 7".to_owned(), Duration::from_secs(60)).await?;
    /// let report = bus.check_payloads().run().await?;
    /// assert_eq!((report.read, report.failed), (1, 1));
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn check_payloads(&self) -> PayloadCheck {
        PayloadCheck {
            inner: Arc::clone(&self.inner),
            queues: Vec::new(),
            limit: None,
            dead: true,
        }
    }
}

impl fmt::Debug for PayloadCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PayloadCheck")
            .field("queues", &self.queues)
            .field("limit", &self.limit)
            .field("dead", &self.dead)
            .finish_non_exhaustive()
    }
}

impl PayloadCheck {
    /// Checks only this queue, and the schedules that push into it or cannot be read; repeat for
    /// several. Default: all.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queues.push(name.into());
        self
    }

    /// Checks at most `events` of each queue, and every schedule. Default: all.
    pub fn limit(mut self, events: u64) -> Self {
        self.limit = Some(events);
        self
    }

    /// Leaves out dead letters.
    pub fn without_dead_letters(mut self) -> Self {
        self.dead = false;
        self
    }

    /// Runs the check, page by page.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid name, or the store's error.
    pub async fn run(self) -> Result<PayloadReport> {
        let names = self.queues.iter().map(|name| QueueName::new(name));
        let named: BTreeSet<QueueName> = names.collect::<Result<_>>()?;
        let is_named = |queue: &QueueName| named.is_empty() || named.contains(queue);
        // Of the queues of duly itself, those of schedules have what will be pushed.
        let is_wanted = |queue: &QueueName| {
            cfg!(feature = "schedules") && has_schedules(queue)
                || !queue.is_own() && is_named(queue)
        };
        let mut report = PayloadReport::default();
        let mut looked: BTreeMap<QueueName, u64> = BTreeMap::new();
        let mut scan = Scan::unfinished(&self.inner, is_wanted, None).await?;
        while let Some(queue) = scan.queue().cloned() {
            // A schedule's event counts for no queue: what it pushes may go into any.
            let limit = self.limit.filter(|_| !queue.is_own()).unwrap_or(u64::MAX);
            let seen = looked.entry(queue.clone()).or_default();
            if *seen >= limit {
                scan.skip_queue(&queue);
                continue;
            }
            let left = usize::try_from(limit - *seen).unwrap_or(PAGE);
            let Some(page) = scan.next(left).await? else {
                break;
            };
            for event in &page.events {
                if *seen >= limit {
                    break;
                }
                if event.state == State::Dead && !self.dead {
                    continue;
                }
                if !queue.is_own() && !self.inner.checks.contains_key(&queue) {
                    report.without_handler.insert(queue.clone());
                    scan.skip_queue(&queue);
                    break;
                }
                *seen += 1;
                match self.payloads(event) {
                    Ok(payloads) => {
                        for (stored, of) in payloads {
                            if is_named(&stored.queue) {
                                self.look(event, (stored.as_ref(), of.as_str()), &mut report);
                            }
                        }
                    }
                    // A schedule that cannot be read may push into any queue.
                    Err(why) => report.fail(event, (&queue, 0), why),
                }
            }
        }
        Ok(report)
    }

    /// Returns the payloads that an event has, or that its schedule will push, each with what is said
    /// before a failure; fails for one that is damaged, or is a schedule that cannot be read.
    fn payloads(&self, event: &Snapshot) -> Result<Payloads, String> {
        let Some(body) = &event.body else {
            return Err("its bytes are damaged".to_owned());
        };
        #[cfg(feature = "schedules")]
        if body.queue.is_own() {
            let next = next_events(&self.inner, body).map_err(|why| why.to_string())?;
            let of = format!("schedule {}: ", body.key.as_deref().unwrap_or_default());
            let next = next.into_iter().map(|event| (Arc::new(event), of.clone()));
            return Ok(next.collect());
        }
        Ok(vec![(Arc::clone(body), String::new())])
    }

    /// Decodes a payload as the handler of its queue would.
    fn look(&self, event: &Snapshot, (stored, of): (&Envelope, &str), report: &mut PayloadReport) {
        let queue = &stored.queue;
        let Some(check) = self.inner.checks.get(queue) else {
            report.without_handler.insert(queue.clone());
            return;
        };
        let version = self.inner.options(queue).version;
        match check.decode(&self.inner.keys, version, stored) {
            Ok(()) => {
                report.looked += 1;
                report.read += 1;
            }
            Err(why) => report.fail(event, (queue, version_of(stored)), format!("{of}{why}")),
        }
    }
}

impl PayloadReport {
    fn fail(&mut self, event: &Snapshot, (queue, version): (&QueueName, u32), why: String) {
        self.looked += 1;
        self.failed += 1;
        if self.failures.len() < LISTED {
            self.failures.push(UndecodablePayload {
                id: event.id,
                queue: queue.clone(),
                state: event.state,
                version,
                why,
            });
        }
    }
}
