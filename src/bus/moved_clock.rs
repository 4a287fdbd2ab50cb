//! A bus whose clock is moved by hand: what is still to be done at this time, and when it has more
//! to do.

#[cfg(feature = "schedules")]
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::bus::builder::options::BusBuilder;
use crate::bus::handle::Bus;
use crate::core::op::{MoveReport, Reply, Response, StoreOp};
use crate::core::options::NodeOptions;
use crate::error::{Error, Result};
#[cfg(feature = "schedules")]
use crate::event::has_schedules;
use crate::event::{BucketKey, QueueName};
use crate::flow::{Flow, SettledPulls};
use crate::time::{Clock, Timestamp};

/// How often the worker of schedules is polled for its end: it works in this process, and in memory.
#[cfg(feature = "schedules")]
const POLL_EVERY: Duration = Duration::from_micros(100);

/// Fallback polls are this far apart: each is a stop of a clock that is moved.
const FALLBACK_EVERY: Duration = Duration::from_secs(86_400);

/// Sets a clock that is moved by hand.
pub fn on(builder: BusBuilder, clock: Arc<dyn Clock>) -> BusBuilder {
    builder.clock(clock).node_options(NodeOptions {
        sleep_max: FALLBACK_EVERY,
        fallback_scan_every: FALLBACK_EVERY,
        ..NodeOptions::default()
    })
}

/// The work of a queue at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueWork {
    /// The events that are leased.
    pub leased: usize,
    /// Whether one could be leased: not while the queue is paused, or its rate is used up.
    pub has_ready: bool,
    /// When the next one is due.
    next_due: Option<Timestamp>,
}

/// Waits until a bus has done what is to be done at this time of its clock: expired leases are
/// taken back, callers that wait have what is due, occurrences of schedules are pushed. Returns how
/// long until it has more to do; `None` is never.
///
/// The store is one in memory, on the clock of the bus, and nothing else moves that clock.
///
/// # Errors
///
/// The store's error; [`ErrorKind::Closed`](crate::ErrorKind::Closed) when the bus stops.
pub async fn settled(bus: &Bus) -> Result<Option<Duration>> {
    let inner = &bus.inner;
    loop {
        let wakes = pulls_of(bus).await?.wakes;
        #[cfg(feature = "schedules")]
        let look_at = {
            let work = schedules_work(bus).await?;
            if work.leased > 0 || work.has_ready {
                tokio::time::sleep(POLL_EVERY).await;
                continue;
            }
            let now_us = inner.store.now_us();
            let until = |due: Timestamp| due.as_micros().saturating_sub(now_us);
            work.next_due.map(|due| Duration::from_micros(until(due)))
        };
        #[cfg(not(feature = "schedules"))]
        let look_at = None;
        let until_pull = wakes.map(|wakes| wakes.since(inner.clock.mono()));
        return Ok(until_pull.into_iter().chain(look_at).min());
    }
}

async fn pulls_of(bus: &Bus) -> Result<SettledPulls> {
    bus.inner.open()?;
    let pulls = bus.inner.flow().as_ref().map(Flow::pulls);
    let pulls = pulls.ok_or_else(|| Error::closed("the bus was shut down"))?;
    pulls.settled().await
}

/// Returns the work of the queues of schedules, of all namespaces together.
#[cfg(feature = "schedules")]
async fn schedules_work(bus: &Bus) -> Result<QueueWork> {
    let known = bus.inner.open()?.buckets().await?;
    let queues: BTreeSet<QueueName> = known.into_iter().map(|bucket| bucket.queue).collect();
    let mut all = QueueWork::default();
    for queue in queues.iter().filter(|queue| has_schedules(queue)) {
        let work = work(bus, queue).await?;
        all.leased += work.leased;
        all.has_ready |= work.has_ready;
        all.next_due = all.next_due.into_iter().chain(work.next_due).min();
    }
    Ok(all)
}

/// Returns the work of a queue.
///
/// # Errors
///
/// The store's error.
pub async fn work(bus: &Bus, queue: &QueueName) -> Result<QueueWork> {
    let (store, mut work) = (bus.inner.open()?, QueueWork::default());
    let now = bus.inner.now();
    let is_held = pulls_of(bus).await?.held.contains(queue);
    for bucket in store.buckets_of(queue).await?.buckets {
        let (leased, ready, next_due) = bucket_work(bus, &bucket).await?;
        work.leased += leased;
        let is_due = ready > 0 || next_due.is_some_and(|due| due <= now);
        work.has_ready |= is_due && !is_held;
        work.next_due = work.next_due.into_iter().chain(next_due).min();
    }
    Ok(work)
}

async fn bucket_work(bus: &Bus, bucket: &BucketKey) -> Result<(usize, usize, Option<Timestamp>)> {
    let (limit, calls) = (0, false);
    let store = bus.inner.open()?;
    let mut work = (0, 0, None);
    for op in [StoreOp::Stats, StoreOp::MoveDue { limit, calls }] {
        let Response { reply, .. } = store.apply(bucket, op).await?;
        match reply {
            Reply::Stats(stats) => (work.0, work.1) = (stats.leased, stats.ready),
            Reply::Moved(MoveReport { next_due, .. }) => work.2 = next_due,
            _ => {}
        }
    }
    Ok(work)
}
