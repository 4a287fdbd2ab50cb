//! The payloads that wait, under the key that is used now.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bus::pace::Pace;
use crate::bus::scan::{PAGE, Scan, ScanPage, WaitingCursor};
use crate::bus::{Bus, Inner};
use crate::codec::Frame;
use crate::core::op::{Rewriting, StoreOp, fitting};
use crate::error::{Error, Result};
use crate::event::{BucketKey, Envelope, EventId, Payload, QueueName, State};
use crate::store::RATES;

/// How many failures are listed one by one.
const LISTED: usize = 100;
/// Why nothing is done with an event that has no body.
const DAMAGED: &str = "its bytes are damaged";

/// Writes the payloads of a queue anew under the key that is used now, or counts under which keys
/// they are.
#[derive(Clone)]
#[must_use = "nothing is done before `run` or `count`"]
pub struct Reencrypt {
    inner: Arc<Inner>,
    queue: String,
    rate: Option<f64>,
    limit: Option<u64>,
    after: Option<WaitingCursor>,
}

/// What became of the payloads of a queue.
#[derive(Debug, Default)]
#[must_use = "it may have been stopped by an error, and some may have failed"]
#[non_exhaustive]
pub struct Reencrypted {
    /// How many events were looked at.
    pub looked: u64,
    /// How many were written anew.
    pub rewritten: u64,
    /// How many were under the key that is used already.
    pub current: u64,
    /// How many are in clear and stay so, as the queue says nothing of encryption.
    pub plain: u64,
    /// How many are as they were because a handler has them, or somebody changed them meanwhile.
    /// They are under another key only until they end; another run finds those that come back.
    pub passed_over: u64,
    /// How many could not be opened.
    pub failed: u64,
    /// The first hundred of those, and why.
    pub failures: Vec<(EventId, String)>,
    /// Where to go on with [`Reencrypt::after`]: after an error, or where [`Reencrypt::limit`]
    /// ended it.
    pub next: Option<WaitingCursor>,
    /// What ended it before its end; what was done until then is counted.
    pub stopped: Option<Error>,
}

impl Reencrypted {
    /// The same, or the error that stopped it.
    ///
    /// # Errors
    ///
    /// What stopped it; what had been done until then stays done.
    pub fn finished(self) -> Result<Self> {
        match self.stopped {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

/// Under which keys the payloads of a queue are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyCounts {
    /// How many events are under each key, by its id: those that wait, those that are held by a
    /// handler, and dead letters.
    pub keys: BTreeMap<String, u64>,
    /// How many are in clear.
    pub plain: u64,
    /// How many have a malformed frame, or damaged bytes.
    pub malformed: u64,
}

impl KeyCounts {
    /// How many events are under this key.
    #[must_use]
    pub fn under(&self, key: &str) -> u64 {
        self.keys.get(key).copied().unwrap_or(0)
    }
}

impl Bus {
    /// Writes the payloads of a queue anew under the key that is used now: of everything that is
    /// scheduled or ready and of dead letters. What handlers hold is passed over.
    ///
    /// What is there from the beginning to the end is looked at, whatever becomes of it meanwhile;
    /// on Redis an event may be looked at twice. A page of events costs the same however many there
    /// are. A payload that somebody changes meanwhile keeps the change. Records are not touched: a
    /// payload that a record keeps stays under the key that it was pushed under.
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
    /// At most so many a second, 0.001 to 1,000,000. Default: as fast as the store goes.
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = Some(per_second);
        self
    }

    /// Looks at about so many and then says where to go on. Default: at all.
    pub fn limit(mut self, events: u64) -> Self {
        self.limit = Some(events);
        self
    }

    /// Goes on from where another run [ended](Reencrypted::next).
    pub fn after(mut self, place: Option<WaitingCursor>) -> Self {
        self.after = place;
        self
    }

    /// Does it; goes on for as long as the future is polled. Where it was dropped or stopped,
    /// another run does the rest.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when no key is used for new payloads, or
    /// for a name or a rate that is not possible. An error of the store is in
    /// [`Reencrypted::stopped`].
    pub async fn run(self) -> Result<Reencrypted> {
        let queue = QueueName::new(&self.queue)?;
        let Some(used) = self.inner.keys.used() else {
            return Err(Error::invalid(
                "no key is used for new payloads; choose one of the key ring first",
            ));
        };
        if let Some(rate) = self.rate.filter(|rate| !(RATES.0..=RATES.1).contains(rate)) {
            return Err(Error::invalid(format!(
                "a rate of {rate} a second is not possible, it is {} to {}",
                RATES.0, RATES.1
            )));
        }
        let mut done = Reencrypted::default();
        done.next.clone_from(&self.after);
        if let Err(error) = self.go(&queue, &used, &mut done).await {
            done.stopped = Some(error);
        }
        Ok(done)
    }

    /// Counts under which keys the payloads of the queue are. A key that none is under can be
    /// removed, once every process uses another one; records may keep payloads under it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that is not legal, or what the
    /// store answers.
    pub async fn count(self) -> Result<KeyCounts> {
        let queue = QueueName::new(&self.queue)?;
        let mut counts = KeyCounts::default();
        let mut scan = Scan::unfinished(&self.inner, |one| *one == queue, None).await?;
        while let Some(page) = scan.next(PAGE).await? {
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

    async fn go(&self, queue: &QueueName, used: &str, done: &mut Reencrypted) -> Result<()> {
        let mut scan =
            Scan::unfinished(&self.inner, |one| one == queue, self.after.clone()).await?;
        let mut pace = Pace::new(self.rate);
        let mut left = self.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let limit = pace.stride().min(usize::try_from(left).unwrap_or(PAGE));
            pace.wait().await;
            let Some(page) = scan.next(limit).await? else {
                break;
            };
            left -= (page.events.len() as u64).min(left);
            let rewritings = self.judge(&page, used, done);
            pace.took(rewritings.len());
            self.rewrite(&page.bucket, &rewritings, done).await?;
            done.next = scan.cursor();
        }
        done.next = scan.cursor();
        Ok(())
    }

    /// What is to be written anew of a page; whatever else there is, is counted.
    fn judge(&self, page: &ScanPage, used: &str, done: &mut Reencrypted) -> Vec<Rewriting> {
        let encrypts = self.inner.options(&page.bucket.queue).encrypt;
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

    /// The payload of an event under the key that is used.
    fn anew(&self, body: &Envelope) -> Result<Payload, String> {
        let keys = &self.inner.keys;
        let opened = keys.open(body.id, &body.queue, &body.payload);
        let opened = opened.map_err(|why| why.to_string())?;
        let sealed = keys.seal((body.id, &body.queue), opened.form(), &opened.value);
        Ok(sealed.ok_or("no key is used any more")?.into())
    }

    async fn rewrite(
        &self,
        bucket: &BucketKey,
        rewritings: &[Rewriting],
        done: &mut Reencrypted,
    ) -> Result<()> {
        // A page may have a few more than were asked for, and a few bytes more than are enough.
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

impl Reencrypted {
    fn fail(&mut self, id: EventId, why: String) {
        self.failed += 1;
        if self.failures.len() < LISTED {
            self.failures.push((id, why));
        }
    }
}
