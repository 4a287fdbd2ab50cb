//! The test bus: the real bus on a virtual clock.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::bus::{Bus, BusBuilder};
use crate::core::op::{MoveReport, Reply, Response, Stats, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventId;
use crate::record::{Outcome, Record};
use crate::testing::VirtualClock;
use crate::testing::quiet::quiet;
use crate::time::{Clock, Timestamp};

/// How long [`TestBus::run_until_idle`] lets handlers run between two checks.
const STRIDE: Duration = Duration::from_millis(100);

/// The real bus on a virtual clock, for tests; use it like a [`Bus`].
///
/// Its runtime must have paused time, as in `#[tokio::test(start_paused = true)]`. Time stands
/// still while any task can run, and jumps to the next timer when none can, so a test is as exact
/// as it is fast: an event that is due in a minute starts in a minute, not a millisecond later.
///
/// Time also stands still while a blocking handler runs, so such a handler takes no time, and never
/// times out; and while a handler, or a relay of `duly-outbox`, waits for the outside world, such as a
/// database, for up to five seconds for each answer. A handler that sleeps looks the same to it in a process with connections:
/// its test takes these seconds. What the test itself asks of a database goes into
/// [`outside`](crate::testing::outside()).
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
/// let probe = Probe::<String>::new();
/// let bus = TestBus::start(Bus::builder().register_as(Annotation::new("remind"), probe.clone())).await?;
/// let queue = bus.queue_named::<String>("remind")?;
/// queue.push("pay!".to_owned(), Duration::from_secs(60)).await?;
///
/// bus.advance(Duration::from_millis(59_999)).await;
/// assert_eq!(probe.count(), 0);
/// bus.advance(Duration::from_millis(1)).await;
/// assert_eq!(probe.payloads(), ["pay!"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestBus {
    bus: Bus,
    clock: Arc<VirtualClock>,
}

impl TestBus {
    /// Starts the bus of `builder`, on a new clock.
    ///
    /// By default the store is `memory:`, and neither a settings file nor the environment is read.
    /// A custom store needs the same clock: [`start_on`](Self::start_on).
    ///
    /// # Errors
    ///
    /// As [`BusBuilder::start`].
    ///
    /// # Panics
    ///
    /// When the runtime's time is not paused.
    pub async fn start(builder: BusBuilder) -> Result<Self> {
        Self::start_on(Arc::new(VirtualClock::new()), builder).await
    }

    /// Starts the bus of `builder` on `clock`, which may be shared with a store or another bus.
    ///
    /// # Errors
    ///
    /// As [`BusBuilder::start`].
    ///
    /// # Panics
    ///
    /// When the runtime's time is not paused.
    pub async fn start_on(clock: Arc<VirtualClock>, builder: BusBuilder) -> Result<Self> {
        tokio::time::advance(Duration::ZERO).await; // panics unless time is paused
        let bus = builder
            .virtual_time(Arc::clone(&clock) as _)
            .start()
            .await?;
        let bus = Self { bus, clock };
        bus.settle().await; // the mover has polled its buckets, and sleeps
        Ok(bus)
    }

    /// Returns the clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<VirtualClock> {
        &self.clock
    }

    /// Returns the clock's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Advances time by `span`; everything that falls due runs, each thing at its time.
    pub async fn advance(&self, span: Duration) {
        self.settle().await;
        // Sleep rather than jump: timers on the way fire one after the other, at their times.
        tokio::time::sleep(span).await;
        self.settle().await;
    }

    /// Runs everything that can run now, without advancing time.
    pub async fn settle(&self) {
        quiet().await;
        while self.bus.is_blocking() {
            quiet().await;
        }
    }

    /// Advances time until no event of the queues handled here waits or runs, and returns how long
    /// that took; dead letters are ignored.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] when that takes longer than `limit`, as it does beside a schedule, whose
    /// next occurrence always waits; or the store's error.
    pub async fn run_until_idle(&self, limit: Duration) -> Result<Duration> {
        let began = self.clock.elapsed();
        loop {
            self.settle().await;
            let (stats, next_due) = self.waiting().await?;
            let took = self.clock.elapsed() - began;
            let left = limit.saturating_sub(took);
            if (stats.scheduled, stats.ready, stats.leased) == (0, 0, 0) {
                return Ok(took);
            }
            if left.is_zero() {
                return Err(Error::new(
                    ErrorKind::TimedOut,
                    format!(
                        "after {limit:?} {} events are scheduled, {} ready and {} running",
                        stats.scheduled, stats.ready, stats.leased
                    ),
                ));
            }
            let until_due = next_due.filter(|_| stats.ready + stats.leased == 0);
            let stride = until_due.map_or(STRIDE, |due| due.since(self.now()).max(STRIDE));
            tokio::time::sleep(stride.min(left)).await;
        }
    }

    /// Returns every record of an event, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn history(&self, id: EventId) -> Result<Vec<Record>> {
        let mut history = Vec::new();
        let mut after = None;
        loop {
            let mut records = self.bus.records().id(id).limit(1_000);
            if let Some(after) = after {
                records = records.after(after);
            }
            let page = records.page().await?;
            history.extend(page.items);
            if page.next.is_none() {
                return Ok(history);
            }
            after = page.next;
        }
    }

    /// Returns the outcomes of an event's attempts, and of the event itself.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn outcomes(&self, id: EventId) -> Result<Vec<Outcome>> {
        let history = self.history(id).await?;
        Ok(history.iter().map(|record| record.outcome).collect())
    }

    /// Returns when each ended attempt of an event started, since the clock's start; zero for one
    /// from before it.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn starts(&self, id: EventId) -> Result<Vec<Duration>> {
        let history = self.history(id).await?;
        let starts = history.iter().map(|record| record.stages.started_us);
        let start_us = self.clock.start().as_micros();
        let since = |us: u64| Duration::from_micros(us.saturating_sub(start_us));
        Ok(starts.filter(|us| *us > 0).map(since).collect())
    }

    /// Returns the statistics of the queues handled here, and when their next event is due.
    async fn waiting(&self) -> Result<(Stats, Option<Timestamp>)> {
        let (mut sum, mut next) = (Stats::default(), None);
        let store = self.bus.store();
        for bucket in store.buckets().await? {
            if !self.bus.serves(&bucket.queue) {
                continue;
            }
            for op in [
                StoreOp::Stats,
                StoreOp::MoveDue {
                    limit: 0,
                    calls: false,
                },
            ] {
                match store.apply(&bucket, op).await? {
                    Response {
                        reply: Reply::Stats(stats),
                        ..
                    } => sum += stats,
                    Response {
                        reply: Reply::Moved(MoveReport { next_due, .. }),
                        ..
                    } => next = next.into_iter().chain(next_due).min(),
                    _ => {}
                }
            }
        }
        Ok((sum, next))
    }
}

impl Deref for TestBus {
    type Target = Bus;

    fn deref(&self) -> &Bus {
        &self.bus
    }
}
