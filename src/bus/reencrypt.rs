//! Re-encryption of stored payloads under the active key.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::pace::BulkPacer;
use crate::bus::scan::{EventCursor, PAGE, Scan, ScanPage};
#[cfg(feature = "schedules")]
use crate::bus::schedules;
use crate::codec::Frame;
use crate::core::op::{Rewriting, StoreOp, fitting};
use crate::error::{Error, Result};
#[cfg(feature = "schedules")]
use crate::event::has_schedules;
use crate::event::{BucketKey, Envelope, EventId, Payload, QueueName, State};
use crate::store::RATES;

/// The most failures that are listed.
const LISTED: usize = 100;
/// The reason for an event without a body.
const DAMAGED: &str = "its bytes are damaged";

/// Rewrites the payloads of a queue under the active key, or counts them by key.
#[derive(Clone)]
#[must_use = "nothing is done before `run` or `count`"]
pub struct Reencrypt {
    inner: Arc<Inner>,
    queue: String,
    rate: Option<f64>,
    limit: Option<u64>,
    after: Option<EventCursor>,
}

/// The result of a re-encryption.
#[derive(Debug, Default)]
#[must_use = "it may have been stopped by an error, and some may have failed"]
#[non_exhaustive]
pub struct ReencryptReport {
    /// How many events were scanned.
    pub looked: u64,
    /// How many were rewritten.
    pub rewritten: u64,
    /// How many were under the active key already.
    pub current: u64,
    /// How many are in clear and stay so, since the queue is not encrypted.
    pub plain: u64,
    /// How many were skipped because a handler has them, or they changed concurrently. They stay
    /// under their key only until they end; another run finds those that are retried.
    pub passed_over: u64,
    /// How many could not be decrypted.
    pub failed: u64,
    /// The first hundred of those, and why.
    pub failures: Vec<(EventId, String)>,
    /// Where to continue with [`Reencrypt::after`]: after an error, or where [`Reencrypt::limit`]
    /// ended it.
    pub next: Option<EventCursor>,
    /// The error that stopped it; what was done until then is counted.
    pub stopped: Option<Error>,
}

impl ReencryptReport {
    /// Returns this result, or the error that stopped it.
    ///
    /// # Errors
    ///
    /// The error that stopped it; what had been done until then stays done.
    pub fn finished(self) -> Result<Self> {
        match self.stopped {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

/// The number of payloads of a queue by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyCounts {
    /// The number of events by key id: waiting, leased, and dead letters.
    pub keys: BTreeMap<String, u64>,
    /// How many are in clear.
    pub plain: u64,
    /// How many have a malformed frame, or damaged bytes.
    pub malformed: u64,
}

impl KeyCounts {
    /// Returns how many events are under this key.
    #[must_use]
    pub fn under(&self, key: &str) -> u64 {
        self.keys.get(key).copied().unwrap_or(0)
    }
}

impl Bus {
    /// Rewrites the payloads of a queue under the active key: of scheduled and ready events, of dead
    /// letters, and of the schedules that push into it. Leased events are skipped.
    ///
    /// Every event that exists during the whole run is scanned, however its state changes; on Redis
    /// perhaps twice. A page of events costs the same however many there are. A concurrent update
    /// of a payload wins. Records are not touched: a payload in a record stays under its key.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use duly::codec::{Key, KeyRing};
    /// use duly::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let keys = KeyRing::new();
    /// keys.add("old", Key::new([1; 32]))?;
    /// keys.choose("old")?;
    /// # let bus = Bus::builder().store_url("memory:").publish_only().keys(keys)
    /// #     .queue("cards", QueueChoices { encrypt: Some(true), ..QueueChoices::default() }).start().await?;
    /// bus.queue_named::<u64>("cards")?.push(4711, Duration::from_secs(60)).await?;
    ///
    /// bus.keys().add("new", Key::new([2; 32]))?;
    /// bus.keys().choose("new")?;
    /// let done = bus.reencrypt("cards").rate(500.0).run().await?.finished()?;
    /// assert_eq!(done.rewritten, 1);
    ///
    /// assert_eq!(bus.reencrypt("cards").count().await?.under("old"), 0); // so it can go
    /// bus.keys().remove("old")?;
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn reencrypt(&self, queue: impl Into<String>) -> Reencrypt {
        Reencrypt {
            inner: Arc::clone(&self.inner),
            queue: queue.into(),
            rate: None,
            limit: None,
            after: None,
        }
    }
}

impl std::fmt::Debug for Reencrypt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reencrypt")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Reencrypt {
    /// Limits the rewrites per second, 0.001 to 1,000,000. Default: as fast as the store goes.
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = Some(per_second);
        self
    }

    /// Scans about `events` events and then returns where to continue. Default: all.
    pub fn limit(mut self, events: u64) -> Self {
        self.limit = Some(events);
        self
    }

    /// Continues where another run [ended](ReencryptReport::next).
    pub fn after(mut self, place: Option<EventCursor>) -> Self {
        self.after = place;
        self
    }

    /// Runs it, while the future is polled. If it was dropped or stopped, another run does the
    /// rest.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) without an active key, or for an invalid
    /// name or rate. An error of the store is in [`ReencryptReport::stopped`].
    pub async fn run(self) -> Result<ReencryptReport> {
        let queue = QueueName::new(&self.queue)?;
        let Some(used) = self.inner.keys.used() else {
            return Err(Error::invalid(
                "no active key for new payloads; choose one of the key ring first",
            ));
        };
        if let Some(rate) = self.rate.filter(|rate| !(RATES.0..=RATES.1).contains(rate)) {
            return Err(Error::invalid(format!(
                "the rate is {rate} per second; it must be {} to {}",
                RATES.0, RATES.1
            )));
        }
        let mut done = ReencryptReport::default();
        done.next.clone_from(&self.after);
        if let Err(error) = self.go(&queue, &used, &mut done).await {
            done.stopped = Some(error);
        }
        Ok(done)
    }

    /// Counts the payloads of the queue by key, and the schedules that push into it. A key without
    /// payloads can be removed, once every process uses another one; records may keep payloads under
    /// it, and so may rows of an outbox that are not relayed yet, and replies to calls for five minutes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid name, or the store's error.
    pub async fn count(self) -> Result<KeyCounts> {
        let queue = QueueName::new(&self.queue)?;
        let mut counts = KeyCounts::default();
        let wanted = |one: &QueueName| is_concerned(one, &queue);
        let mut scan = Scan::unfinished(&self.inner, wanted, None).await?;
        while let Some(mut page) = scan.next(PAGE).await? {
            self.keep_concerned(&mut page, &queue);
            for event in &page.events {
                let Some(body) = &event.body else {
                    counts.malformed += 1;
                    continue;
                };
                match Frame::read(body.payload.as_bytes()).map(|frame| frame.key_id) {
                    Ok(Some(key)) => *counts.keys.entry(key.to_owned()).or_default() += 1,
                    Ok(None) => counts.plain += 1,
                    Err(_) => counts.malformed += 1,
                }
            }
        }
        Ok(counts)
    }

    async fn go(&self, queue: &QueueName, used: &str, done: &mut ReencryptReport) -> Result<()> {
        let wanted = |one: &QueueName| is_concerned(one, queue);
        let mut scan = Scan::unfinished(&self.inner, wanted, self.after.clone()).await?;
        let mut pace = BulkPacer::new(self.rate);
        let mut left = self.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let limit = pace.stride().min(usize::try_from(left).unwrap_or(PAGE));
            pace.wait().await;
            let Some(mut page) = scan.next(limit).await? else {
                break;
            };
            left -= (page.events.len() as u64).min(left);
            self.keep_concerned(&mut page, queue);
            let encrypts = self.inner.options(queue).encrypt;
            let rewritings = self.judge((&page, encrypts), used, done);
            pace.count(rewritings.len() as u64);
            self.rewrite(&page.bucket, &rewritings, done).await?;
            done.next = scan.cursor();
        }
        done.next = scan.cursor();
        Ok(())
    }

    /// Leaves out the schedules of other queues.
    fn keep_concerned(&self, page: &mut ScanPage, queue: &QueueName) {
        #[cfg(feature = "schedules")]
        if page.bucket.queue != *queue {
            page.events
                .retain(|event| schedules::pushes_into(&self.inner, event, queue));
        }
        #[cfg(not(feature = "schedules"))]
        let _ = (page, queue);
    }

    /// Returns what to rewrite of a page of a queue that encrypts, or not; counts the rest.
    fn judge(
        &self,
        (page, encrypts): (&ScanPage, bool),
        used: &str,
        done: &mut ReencryptReport,
    ) -> Vec<Rewriting> {
        let mut rewritings = Vec::new();
        for event in &page.events {
            done.looked += 1;
            let Some(body) = &event.body else {
                done.fail(event.id, DAMAGED.to_owned());
                continue;
            };
            match Frame::read(body.payload.as_bytes()).map(|frame| frame.key_id) {
                Ok(Some(key)) if key == used => done.current += 1,
                Ok(None) if !encrypts => done.plain += 1,
                Ok(_) if event.state == State::Leased => done.passed_over += 1,
                Ok(_) => match self.anew(body) {
                    Ok(payload) => rewritings.push(Rewriting {
                        id: event.id,
                        was: body.fingerprint(),
                        payload,
                    }),
                    Err(why) => done.fail(event.id, why),
                },
                Err(how) => done.fail(event.id, how.to_owned()),
            }
        }
        rewritings
    }

    /// Re-encrypts the payload of an event under the active key.
    fn anew(&self, body: &Envelope) -> Result<Payload, String> {
        let keys = &self.inner.keys;
        let opened = keys.open(body.id, &body.queue, &body.payload);
        let opened = opened.map_err(|why| why.to_string())?;
        let sealed = keys.seal((body.id, &body.queue), opened.form(), &opened.value);
        Ok(sealed.ok_or("no active key any more")?.into())
    }

    async fn rewrite(
        &self,
        bucket: &BucketKey,
        rewritings: &[Rewriting],
        done: &mut ReencryptReport,
    ) -> Result<()> {
        // A page may exceed the limits by a few events and a few bytes.
        let mut rest = rewritings;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(fitting(rest, |one| one.payload.len()));
            rest = others;
            let rewrite = StoreOp::rewrite(some.to_vec());
            let counted = self.inner.apply(bucket, rewrite).await?;
            done.rewritten += counted as u64;
            done.passed_over += some.len().saturating_sub(counted) as u64;
        }
        Ok(())
    }
}

/// Returns whether a queue may have payloads of `queue`: its schedules are encrypted as it is.
fn is_concerned(one: &QueueName, queue: &QueueName) -> bool {
    #[cfg(feature = "schedules")]
    if has_schedules(one) {
        return true;
    }
    one == queue
}

impl ReencryptReport {
    fn fail(&mut self, id: EventId, why: String) {
        self.failed += 1;
        if self.failures.len() < LISTED {
            self.failures.push((id, why));
        }
    }
}
