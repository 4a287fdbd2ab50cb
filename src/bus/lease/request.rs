//! Requests for leases.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::lease::leased::{EncodedPayload, Leased, decoded, opened};
use crate::bus::lease::outcome::check_ttr;
use crate::bus::queue::Queue;
use crate::bus::state::leases::token::LeaseToken;
use crate::core::op::{AttemptOutcome, BATCH_MAX};
use crate::core::pull::PulledEvent;
use crate::error::{Error, Result};
use crate::event::{Envelope, Event, QueueName, StaleReason};
use crate::flow::{Flow, PayloadDecoder, PullOrder};
use crate::metrics::Stages;
use crate::panics;
use crate::record::NodeId;
use crate::time::Mono;
use crate::trace;

/// The most events of one [request](LeaseRequest).
pub const LEASE_MAX: usize = BATCH_MAX;
/// The most queues of one [request](LeaseRequest).
pub const LEASE_QUEUES_MAX: usize = 1_000;
/// The longest [wait](LeaseRequest::wait): seven days.
pub const LEASE_WAIT_MAX: Duration = Duration::from_secs(7 * 86_400);

/// A request for leased events; nothing happens before [`send`](Self::send).
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
/// queue.push(7, Duration::from_millis(5)).await?;
///
/// let request = queue.lease(10, Duration::from_secs(30)).wait(Duration::from_secs(20));
/// for leased in request.send().await? {
///     assert_eq!(leased.event().payload, 7);
///     let _ = leased.ack().await?;
/// }
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
#[must_use = "nothing is leased before `send` is called"]
pub struct LeaseRequest<T> {
    inner: Arc<Inner>,
    queues: Vec<QueueName>,
    max: usize,
    bytes_max: usize,
    ttr: Duration,
    wait: Duration,
    read: Read<T>,
}

/// Decodes a stored payload for an attempt; the outcome for one that cannot be decoded.
type Read<T> = Box<dyn Fn(&Inner, &Envelope, u16) -> Result<T, AttemptOutcome> + Send + Sync>;

impl<T> fmt::Debug for LeaseRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseRequest")
            .field("queues", &self.queues)
            .field("max", &self.max)
            .field("ttr", &self.ttr)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl<T> LeaseRequest<T> {
    /// Waits for this long until an event is ready, if none is; at most [`LEASE_WAIT_MAX`]. Default:
    /// zero.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Leases no more events once their payloads have so many bytes as they are stored; the last one
    /// may exceed it, so there is always at least one. Default: no bound.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<String>("report")?;
    /// for _ in 0..10 {
    ///     queue.push("x".repeat(1_000), When::Now).await?;
    /// }
    /// let request = queue.lease(10, Duration::from_secs(30)).bytes_max(2_500);
    /// assert_eq!(request.send().await?.len(), 3);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Leases what is ready, up to the requested number; if nothing is ready, it waits for at least
    /// one event. Empty: there was none.
    ///
    /// If the returned future is dropped, whatever was leased for it is handed back at once, and no
    /// attempt counts. Events that have expired are not returned but settled so, and those that do
    /// not decode become dead letters.
    ///
    /// # Errors
    ///
    /// The store's error; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a number outside of
    /// its bounds; [`ErrorKind::Full`](crate::ErrorKind::Full) when 100,000 callers wait already;
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) when the bus stops.
    pub async fn send(self) -> Result<Vec<Leased<T>>> {
        self.check()?;
        let pulls = self.inner.flow().as_ref().map(Flow::pulls);
        let Some(pulls) = pulls else {
            self.inner.open()?;
            return Err(Error::closed(
                "the bus stops, so nothing is leased any more",
            ));
        };
        let clock = &pulls.clock;
        let mut queues: Vec<(QueueName, u16)> = Vec::new();
        for name in &self.queues {
            if !queues.iter().any(|(known, _)| known == name) {
                let options = self.inner.options(name);
                queues.push((name.clone(), self.inner.buckets(name, &options)));
            }
        }
        let mut order = PullOrder {
            queues,
            max: self.max,
            bytes_max: self.bytes_max,
            ttr: self.ttr,
            wait: self.wait,
        };
        let began: Mono = clock.mono();
        loop {
            let pulled = pulls.lease(&order).await?;
            let is_empty = pulled.is_empty();
            let nodes = pulls.node;
            let read = pulled
                .into_iter()
                .filter_map(|event| self.read(nodes, event));
            let leased: Vec<_> = read.collect();
            // What came was of no use: there may be more.
            order.wait = self.wait.saturating_sub(clock.mono().since(began));
            if is_empty || !leased.is_empty() {
                return Ok(leased);
            }
        }
    }

    fn check(&self) -> Result<()> {
        let within = |what: &str, many: usize, most: usize| {
            if (1..=most).contains(&many) {
                Ok(())
            } else {
                Err(Error::invalid(format!(
                    "{what} is {many}; it must be 1 to {most}"
                )))
            }
        };
        within("the number of events to lease", self.max, LEASE_MAX)?;
        within("the number of queues", self.queues.len(), LEASE_QUEUES_MAX)?;
        check_ttr(self.ttr)?;
        if self.wait > LEASE_WAIT_MAX {
            return Err(Error::invalid(format!(
                "the wait is {:?}; it must be at most {LEASE_WAIT_MAX:?}",
                self.wait
            )));
        }
        Ok(())
    }

    /// Returns the event for the caller, unless it is of no use; then it is settled.
    fn read(&self, node: NodeId, event: PulledEvent<Arc<Envelope>>) -> Option<Leased<T>> {
        let PulledEvent {
            bucket,
            fetched_us,
            deadline,
            delivery,
        } = event;
        let envelope = Arc::clone(&delivery.body);
        let token = LeaseToken {
            id: delivery.id,
            queue: bucket.queue,
            bucket: bucket.bucket,
            node,
            request: delivery.request,
            attempt: delivery.attempt,
            fetched_us,
        };
        let now_us = self.inner.store.now_us();
        let stale = StaleReason::at(now_us, envelope.expires, (envelope.late, delivery.due));
        let read = match stale {
            Some(stale) => Err(stale.into()),
            None => (self.read)(&self.inner, &envelope, delivery.attempt),
        };
        match read {
            Ok(payload) => {
                let (due, attempt) = (delivery.due, delivery.attempt);
                let event = Event::stored(payload, Arc::clone(&envelope), due, attempt, fetched_us);
                let inner = Arc::clone(&self.inner);
                inner.leases.held.add(&token);
                let stages = Stages::of(due.as_micros(), delivery.moved_us, fetched_us, now_us);
                let metrics = &inner.pull_meters;
                metrics.report(&token.queue, |it| it.starts.started(&stages));
                let traced = panics::caught(|| trace::handle(&delivery, now_us));
                let traced = traced.unwrap_or_default();
                let expires = envelope.expires;
                Some(Leased::new(inner, token, event, expires, deadline, traced))
            }
            Err(verdict) => {
                let inner = Arc::clone(&self.inner);
                // In the background: the caller may be dropped at any await.
                self.inner.runtime.spawn(async move {
                    if let Err(error) = inner.settle_as(&token, verdict, 0).await {
                        panics::reported(|| {
                            tracing::warn!(%token, %error, "failed to settle an unusable event");
                        });
                    }
                });
                None
            }
        }
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Queue<T> {
    /// Leases up to `max` events, 1 to [`LEASE_MAX`], for `ttr` (*time to run*) each.
    ///
    /// A leased event belongs to the caller until it is settled, or until `ttr` is over: then it is
    /// ready again, and the attempt counts. The queue may also have handlers, here or elsewhere;
    /// each event goes to one of them. While the queue is [paused](Bus::pause), nothing is leased,
    /// and its [rate](Bus::set_rate) holds for each process that pulls.
    ///
    /// A payload of an older version is upgraded as the queue's handler would, if this is the queue
    /// of an annotated handler ([`Bus::queue`]), or one with a handler in this program.
    ///
    /// # Examples
    ///
    /// As of [`LeaseRequest`].
    pub fn lease(&self, max: usize, ttr: Duration) -> LeaseRequest<T> {
        let reader = PayloadDecoder {
            keys: self.handle.inner.keys.clone(),
            version: self.handle.options.version,
            upgrade: self.upgrade,
        };
        let backoff = self.handle.options.backoff;
        LeaseRequest {
            inner: Arc::clone(&self.handle.inner),
            queues: vec![self.handle.name.clone()],
            max,
            bytes_max: usize::MAX,
            ttr,
            wait: Duration::ZERO,
            read: Box::new(move |_, envelope, attempt| {
                decoded((&reader, &backoff), envelope, attempt)
            }),
        }
    }
}

impl Bus {
    /// Leases up to `max` events of several queues, at most [`LEASE_QUEUES_MAX`], with their
    /// payloads as they were encoded.
    ///
    /// The order of the queues is their priority: an event of a queue is leased only if no earlier
    /// one has any, also within a batch, and while the request waits. A queue need not be known to
    /// this program. Otherwise as [`Queue::lease`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.queue_named::<u64>("low")?.push(1, When::Now).await?;
    /// bus.queue_named::<u64>("high")?.push(2, When::Now).await?;
    ///
    /// let queues = ["high".parse()?, "low".parse()?];
    /// let leased = bus.lease_from(&queues, 10, Duration::from_secs(30)).send().await?;
    /// assert_eq!(leased[0].event().payload.bytes, b"2");
    /// assert_eq!(leased[1].queue().as_str(), "low");
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn lease_from(
        &self,
        queues: &[QueueName],
        max: usize,
        ttr: Duration,
    ) -> LeaseRequest<EncodedPayload> {
        self.lease_read(queues, (max, ttr), opened)
    }

    /// As [`lease_from`](Self::lease_from), with what `read` makes of each stored event, or how its
    /// attempt ends.
    pub(in crate::bus) fn lease_read<T>(
        &self,
        queues: &[QueueName],
        (max, ttr): (usize, Duration),
        read: impl Fn(&Inner, &Envelope, u16) -> Result<T, AttemptOutcome> + Send + Sync + 'static,
    ) -> LeaseRequest<T> {
        LeaseRequest {
            inner: Arc::clone(&self.inner),
            queues: queues.to_vec(),
            max,
            bytes_max: usize::MAX,
            ttr,
            wait: Duration::ZERO,
            read: Box::new(read),
        }
    }
}
