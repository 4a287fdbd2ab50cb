//! A probe: a handler that records its attempts and runs a script.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::event::{Event, EventId};
use crate::handler::{Context, Failure, Handler};

/// The most attempts that a probe records.
const SEEN_MAX: usize = 1_000_000;

type ProbeFn<T> =
    dyn Fn(Event<T>, &Context) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync;

/// A handler that records its attempts, and runs a closure for each.
///
/// Its clones share one state: pass one to the bus, and query another afterwards. It records the
/// first million attempts.
///
/// # Examples
///
/// ```standalone_crate
/// use std::time::Duration;
/// use duly::Annotation;
/// use duly::prelude::*;
/// use duly::testing::{Probe, TestBus};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> duly::Result<()> {
/// let probe = Probe::answering(|event: &Event<u64>, _cx| match event.attempt() {
///     1 => Err(Failure::retry_after(Duration::from_secs(5), "not yet")),
///     _ => Ok(()),
/// });
/// let bus = TestBus::start(Bus::builder().register_as(Annotation::new("count"), probe.clone())).await?;
/// bus.queue_named::<u64>("count")?.push(7, When::Now).await?;
/// bus.advance(Duration::from_secs(60)).await;
///
/// assert_eq!(probe.payloads(), [7, 7]);
/// assert_eq!(probe.times(), [Duration::ZERO, Duration::from_secs(5)]);
/// # Ok(())
/// # }
/// ```
pub struct Probe<T>(Arc<ProbeState<T>>);

struct ProbeState<T> {
    does: Box<ProbeFn<T>>,
    made: Instant,
    log: Mutex<ProbeLog<T>>,
}

struct ProbeLog<T> {
    seen: Vec<ProbeAttempt<T>>,
    count: usize,
    running: usize,
    most_at_once: usize,
}

/// An attempt that a [`Probe`] has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeAttempt<T> {
    /// The event.
    pub id: EventId,
    /// Its value.
    pub payload: T,
    /// The number of the attempt, from 1.
    pub attempt: u16,
    /// When it started, since the probe was created.
    pub at: Duration,
    /// When it ended, or was dropped; `None` while it runs.
    pub ended: Option<Duration>,
    /// Whether it came through [`Handler::handle_delayed`].
    pub delayed: bool,
}

impl<T: Send + Sync + 'static> Probe<T> {
    /// Creates a probe whose every attempt succeeds at once.
    #[must_use]
    pub fn new() -> Self {
        Self::answering(|_event, _cx| Ok(()))
    }

    /// Creates a probe that returns the result of `does` at once.
    pub fn answering(
        does: impl Fn(&Event<T>, &Context) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Self {
        Self::running(move |event, cx| ready(does(&event, cx)))
    }

    /// Creates a probe that runs the future of `does`.
    pub fn running<F>(does: impl Fn(Event<T>, &Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self(Arc::new(ProbeState {
            does: Box::new(move |event, cx| Box::pin(does(event, cx))),
            made: Instant::now(),
            log: Mutex::new(ProbeLog {
                seen: Vec::new(),
                count: 0,
                running: 0,
                most_at_once: 0,
            }),
        }))
    }

    /// Creates a probe whose attempts take `span` each, and then succeed.
    #[must_use]
    pub fn taking(span: Duration) -> Self {
        Self::running(move |_event, _cx| async move {
            tokio::time::sleep(span).await;
            Ok(())
        })
    }

    /// Returns how many attempts there were.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.log().count
    }

    /// Returns how many attempts run now.
    #[must_use]
    pub fn running_now(&self) -> usize {
        self.0.log().running
    }

    /// Returns the most attempts that ran at once.
    #[must_use]
    pub fn most_at_once(&self) -> usize {
        self.0.log().most_at_once
    }

    /// Returns when each attempt started, since the probe was created.
    #[must_use]
    pub fn times(&self) -> Vec<Duration> {
        self.0.log().seen.iter().map(|seen| seen.at).collect()
    }

    /// Returns the event and the number of each attempt.
    #[must_use]
    pub fn attempts(&self) -> Vec<(EventId, u16)> {
        let log = self.0.log();
        log.seen
            .iter()
            .map(|seen| (seen.id, seen.attempt))
            .collect()
    }
}

impl<T: Clone> Probe<T> {
    /// Returns the value of each attempt.
    #[must_use]
    pub fn payloads(&self) -> Vec<T> {
        let log = self.0.log();
        log.seen.iter().map(|seen| seen.payload.clone()).collect()
    }

    /// Returns every attempt, in the order of their starts.
    #[must_use]
    pub fn seen(&self) -> Vec<ProbeAttempt<T>> {
        self.0.log().seen.clone()
    }
}

impl<T: Clone + Send + Sync + 'static> Probe<T> {
    /// Runs one attempt; its end is recorded on drop.
    async fn attempt(&self, event: Event<T>, cx: &Context, delayed: bool) -> Result<(), Failure> {
        let _running = AttemptGuard(&self.0, self.0.begin(&event, delayed));
        (self.0.does)(event, cx).await
    }
}

impl<T> ProbeState<T> {
    fn log(&self) -> MutexGuard<'_, ProbeLog<T>> {
        self.log.lock()
    }
}

impl<T: Clone> ProbeState<T> {
    /// Records the start of an attempt; returns its index.
    fn begin(&self, event: &Event<T>, delayed: bool) -> usize {
        let at = self.made.elapsed();
        // Before the lock and the counts: it may panic, or ask the probe.
        let payload = event.payload.clone();
        let mut log = self.log();
        log.count += 1;
        log.running += 1;
        log.most_at_once = log.most_at_once.max(log.running);
        if log.seen.len() < SEEN_MAX {
            log.seen.push(ProbeAttempt {
                id: event.id(),
                payload,
                attempt: event.attempt(),
                at,
                ended: None,
                delayed,
            });
        }
        log.count - 1
    }
}

/// A running attempt, by its index.
struct AttemptGuard<'a, T>(&'a ProbeState<T>, usize);

impl<T> Drop for AttemptGuard<'_, T> {
    fn drop(&mut self) {
        let at = self.0.made.elapsed();
        let mut log = self.0.log();
        log.running -= 1;
        if let Some(seen) = log.seen.get_mut(self.1) {
            seen.ended = Some(at);
        }
    }
}

impl<T> Handler for Probe<T>
where
    T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Payload = T;

    async fn handle(&self, event: Event<T>, cx: &Context) -> Result<(), Failure> {
        self.attempt(event, cx, false).await
    }

    async fn handle_delayed(&self, event: Event<T>, cx: &Context) -> Result<(), Failure> {
        self.attempt(event, cx, true).await
    }
}

impl<T> Clone for Probe<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> Default for Probe<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows how many attempts it has recorded, never payloads.
impl<T> fmt::Debug for Probe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.0.log();
        f.debug_struct("Probe")
            .field("count", &log.count)
            .field("running", &log.running)
            .finish_non_exhaustive()
    }
}
