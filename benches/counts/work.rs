//! The workloads, each of which a process of its own does for a number of events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::config::Settings;
use duly::prelude::*;
use duly::{Annotation, BusBuilder};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::runtime::Builder;
use tokio::sync::Notify;

use crate::Result;

pub(crate) const QUEUE: &str = "clicks";
pub(crate) const TOMORROW: Duration = Duration::from_secs(86_400);
/// Values that are published at once.
pub(crate) const BATCH: usize = 64;
/// Events of a push of many.
const MANY: u64 = 1_024;
/// Pushes of one event that are under way at a time.
const IN_FLIGHT: usize = 64;
/// How long the rest of a bus may take to stop.
pub(crate) const GRACE: Duration = Duration::from_secs(60);

/// 64 bytes.
pub(crate) type Value = [u64; 8];
pub(crate) const VALUE: Value = [7; 8];

/// Where events are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Memory,
    Embedded,
    Redis,
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Values go into the ring one by one, and are handled.
    Publish,
    /// The same in batches.
    PublishMany,
    /// Events due tomorrow are pushed one by one, 64 under way at a time.
    PushOne(Kept),
    /// The same, 1,024 at once.
    PushMany(Kept),
    /// Events due at once are pushed, 1,024 at once; then a bus starts, which fetches and handles
    /// them, settles them and writes their records.
    Drain(Kept),
    /// The same, and one event of 64 fails once and is retried.
    Fail(Kept),
    /// Events due tomorrow are pushed, 1,024 at once, and cancelled one by one, 64 under way at a time.
    Cancel(Kept),
}

impl Work {
    pub(crate) const ALL: [Self; 11] = [
        Self::Publish,
        Self::PublishMany,
        Self::Drain(Kept::Memory),
        Self::PushOne(Kept::Embedded),
        Self::PushMany(Kept::Embedded),
        Self::Drain(Kept::Embedded),
        Self::PushOne(Kept::Redis),
        Self::PushMany(Kept::Redis),
        Self::Drain(Kept::Redis),
        Self::Fail(Kept::Redis),
        Self::Cancel(Kept::Redis),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::PublishMany => "publish_many",
            Self::PushOne(Kept::Memory) => "push_one_memory",
            Self::PushOne(Kept::Embedded) => "push_one_embedded",
            Self::PushOne(Kept::Redis) => "push_one_redis",
            Self::PushMany(Kept::Memory) => "push_many_memory",
            Self::PushMany(Kept::Embedded) => "push_many_embedded",
            Self::PushMany(Kept::Redis) => "push_many_redis",
            Self::Drain(Kept::Memory) => "drain_memory",
            Self::Drain(Kept::Embedded) => "drain_embedded",
            Self::Drain(Kept::Redis) => "drain_redis",
            Self::Fail(Kept::Memory) => "fail_memory",
            Self::Fail(Kept::Embedded) => "fail_embedded",
            Self::Fail(Kept::Redis) => "fail_redis",
            Self::Cancel(Kept::Memory) => "cancel_memory",
            Self::Cancel(Kept::Embedded) => "cancel_embedded",
            Self::Cancel(Kept::Redis) => "cancel_redis",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|work| work.name() == name)
            .ok_or_else(|| format!("there is no workload {name:?}").into())
    }

    pub(crate) fn kept(self) -> Kept {
        match self {
            Self::Publish | Self::PublishMany => Kept::Memory,
            Self::PushOne(kept)
            | Self::PushMany(kept)
            | Self::Drain(kept)
            | Self::Fail(kept)
            | Self::Cancel(kept) => kept,
        }
    }

    /// Does the work, on one thread besides those of the bus.
    pub(crate) fn run(self, url: &str, events: u64) -> Result {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Self::Publish => publish(events, false).await,
                Self::PublishMany => publish(events, true).await,
                Self::PushOne(_) => {
                    let bus = builder(url).publish_only().start().await?;
                    push_one(&bus, events).await?;
                    Ok(bus.shutdown(GRACE).await?)
                }
                Self::PushMany(_) => {
                    let bus = builder(url).publish_only().start().await?;
                    push_many(&bus, events, TOMORROW).await?;
                    Ok(bus.shutdown(GRACE).await?)
                }
                Self::Drain(_) => drain(url, events, false).await,
                Self::Fail(_) => drain(url, events, true).await,
                Self::Cancel(_) => cancel(url, events).await,
            }
        })
    }
}

/// Tells when so many events have been handled.
pub(crate) struct Goal {
    handled: AtomicU64,
    wanted: AtomicU64,
    reached: Notify,
}

impl Goal {
    pub(crate) fn new(wanted: u64) -> Arc<Self> {
        Arc::new(Self {
            handled: AtomicU64::new(0),
            wanted: AtomicU64::new(wanted),
            reached: Notify::new(),
        })
    }

    /// Waits until all that were wanted, and so many more, have been handled.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    pub(crate) fn raise(&self, more: u64) {
        self.wanted.fetch_add(more, Ordering::Relaxed);
    }
}

pub(crate) struct Counts {
    pub(crate) goal: Arc<Goal>,
    /// Whether one event of [`BATCH`] fails once.
    pub(crate) fails: bool,
}

impl Handler for Counts {
    type Payload = Value;

    async fn handle(&self, event: Event<Value>, _cx: &Context) -> Result<(), Failure> {
        let goal = &self.goal;
        let handled = goal.handled.fetch_add(1, Ordering::Relaxed) + 1;
        if self.fails && event.attempt() == 1 && handled.is_multiple_of(BATCH as u64) {
            goal.raise(1);
            return Err(Failure::retry_after(Duration::ZERO, "once"));
        }
        if handled == goal.wanted.load(Ordering::Relaxed) {
            goal.reached.notify_one();
        }
        Ok(())
    }
}

pub(crate) fn builder(url: &str) -> BusBuilder {
    Bus::builder()
        .settings(Settings::default())
        .store_url(url)
        .journal_url("off")
        .only_registered()
}

pub(crate) fn handling(builder: BusBuilder, goal: &Arc<Goal>) -> BusBuilder {
    failing(builder, goal, false)
}

fn failing(builder: BusBuilder, goal: &Arc<Goal>, fails: bool) -> BusBuilder {
    let goal = Arc::clone(goal);
    builder.register_as(Annotation::new(QUEUE).workers(64), Counts { goal, fails })
}

async fn publish(events: u64, batched: bool) -> Result {
    let goal = Goal::new(events);
    let bus = handling(builder("memory:"), &goal).start().await?;
    let mut publisher = bus.queue_named::<Value>(QUEUE)?.publisher()?;
    let mut batch = VecDeque::with_capacity(BATCH);
    for _ in 0..events / BATCH as u64 {
        publish_batch(&mut publisher, &mut batch, batched).await?;
    }
    goal.reached().await;
    Ok(bus.shutdown(GRACE).await?)
}

/// Publishes as many values as make a batch.
pub(crate) async fn publish_batch(
    publisher: &mut duly::Publisher<Value>,
    batch: &mut VecDeque<Value>,
    batched: bool,
) -> Result {
    if batched {
        batch.extend([VALUE; BATCH]);
        return Ok(publisher.publish_many(batch).await?);
    }
    for _ in 0..BATCH {
        publisher.publish(VALUE).await?;
    }
    Ok(())
}

pub(crate) async fn push_one(bus: &Bus, events: u64) -> Result {
    let queue = bus.queue_named::<Value>(QUEUE)?;
    stream::iter(0..events)
        .map(|_| queue.push(VALUE, TOMORROW))
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok(())
}

pub(crate) async fn push_many(bus: &Bus, events: u64, delay: Duration) -> Result {
    let queue = bus.queue_named::<Value>(QUEUE)?;
    for _ in 0..events / MANY {
        let pushed = queue.push_many((0..MANY).map(|_| VALUE), delay).await?;
        if pushed.len() as u64 != MANY {
            return Err("a push of many has lost some".into());
        }
    }
    Ok(())
}

async fn cancel(url: &str, events: u64) -> Result {
    let bus = builder(url).publish_only().start().await?;
    let queue = bus.queue_named::<Value>(QUEUE)?;
    for _ in 0..events / MANY {
        let pushed = queue.push_many((0..MANY).map(|_| VALUE), TOMORROW).await?;
        let cancelled = stream::iter(&pushed)
            .map(|receipt| queue.cancel(receipt.id()))
            .buffer_unordered(IN_FLIGHT);
        let cancelled: Vec<CancelOutcome> = cancelled.try_collect().await?;
        if cancelled.iter().any(|it| *it != CancelOutcome::Cancelled) {
            return Err("an event was not cancelled".into());
        }
    }
    Ok(bus.shutdown(GRACE).await?)
}

async fn drain(url: &str, events: u64, fails: bool) -> Result {
    let goal = Goal::new(events);
    if url == "memory:" {
        // It ends with its bus: one bus does both.
        let bus = handling(builder(url), &goal).start().await?;
        push_many(&bus, events, Duration::ZERO).await?;
        goal.reached().await;
        return Ok(bus.shutdown(GRACE).await?);
    }
    let bus = builder(url).publish_only().start().await?;
    push_many(&bus, events, Duration::ZERO).await?;
    bus.shutdown(GRACE).await?;
    let bus = failing(builder(url), &goal, fails).start().await?;
    goal.reached().await;
    Ok(bus.shutdown(GRACE).await?)
}
