//! Shared setup of the parts: sizes, stores, counters.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use duly::config::Settings;
use duly::prelude::*;
use duly::time::{Clock, SystemClock};
use duly::{Annotation, BusBuilder};
use tempfile::TempDir;

use crate::Result;
use crate::metrics::started;

/// The queues that a bus has here: several, as a user's would, and each with the default options.
pub(crate) const QUEUES: [&str; 4] = ["order-close", "order-remind", "sms-send", "token-renew"];

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Passes of each throughput; the table shows the median.
    pub(crate) passes: usize,
    /// Events pushed one by one in a pass.
    pub(crate) singles: usize,
    /// Events pushed in batches, or drained, in a pass.
    pub(crate) events: usize,
    /// How long lateness is watched at one rate.
    pub(crate) late: Duration,
    /// Values published in a pass.
    pub(crate) published: usize,
    /// How long an idle bus is watched.
    pub(crate) idle: Duration,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        passes: 3,
        singles: 200_000,
        events: 200_000,
        late: Duration::from_secs(5),
        published: 5_000_000,
        idle: Duration::from_secs(10),
    };
    pub(crate) const QUICK: Self = Self {
        passes: 1,
        singles: 20_000,
        events: 20_000,
        late: Duration::from_secs(1),
        published: 500_000,
        idle: Duration::from_secs(1),
    };
}

/// Where events are kept.
#[derive(Clone, Copy)]
pub(crate) enum Kept {
    Memory,
    Embedded,
}

impl Kept {
    pub(crate) const ALL: [Self; 2] = [Self::Memory, Self::Embedded];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "duly, memory",
            Self::Embedded => "duly, embedded",
        }
    }

    /// The address of a fresh store, and the directory that goes when it is dropped.
    pub(crate) fn fresh(self) -> Result<(String, TempDir)> {
        let directory = tempfile::tempdir()?;
        let url = match self {
            Self::Memory => "memory:".to_owned(),
            Self::Embedded => format!("sqlite:{}", directory.path().join("duly.db").display()),
        };
        Ok((url, directory))
    }
}

/// 64 bytes, once it is encoded.
pub(crate) fn payload() -> String {
    "x".repeat(62)
}

/// A builder that no file, no variable and no annotation has a say in. Records stay in the store:
/// what a journal costs is a part of its own.
pub(crate) fn bare_builder(url: &str) -> BusBuilder {
    Bus::builder()
        .settings(Settings::default())
        .store_url(url)
        .journal_url("off")
        .only_registered()
}

/// Starts a bus with one handler for each of [`QUEUES`]; `choices` go for all of them.
pub(crate) async fn start<H: Handler>(
    url: &str,
    clock: Arc<SystemClock>,
    choices: &QueueChoices,
    handler: impl Fn() -> H,
) -> Result<Bus> {
    start_with(bare_builder(url).clock(clock), choices, handler).await
}

/// The same with a builder that has more to say.
pub(crate) async fn start_with<H: Handler>(
    mut builder: BusBuilder,
    choices: &QueueChoices,
    handler: impl Fn() -> H,
) -> Result<Bus> {
    for queue in QUEUES {
        builder = builder
            .register_as(Annotation::new(queue), handler())
            .queue(queue, choices.clone());
    }
    Ok(started(builder).await?)
}

/// Each of [`QUEUES`], to push to.
pub(crate) fn queues(bus: &Bus) -> Result<Vec<Queue<String>>> {
    let queues: duly::Result<_> = QUEUES.iter().map(|name| bus.queue_named(name)).collect();
    Ok(queues?)
}

/// Waits until `done` holds; looks once a millisecond, which no figure here would notice.
pub(crate) async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Counts, without the threads of the runtime waiting for each other.
#[derive(Default)]
pub(crate) struct Tally([CachePadded<AtomicU64>; 8]);

thread_local! {
    static STRIPE: Cell<Option<usize>> = const { Cell::new(None) };
}
static THREADS: AtomicUsize = AtomicUsize::new(0);

impl Tally {
    pub(crate) fn add(&self) {
        let stripe = STRIPE.get().unwrap_or_else(|| {
            let stripe = THREADS.fetch_add(1, Ordering::Relaxed) % 8;
            STRIPE.set(Some(stripe));
            stripe
        });
        self.0[stripe].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> usize {
        let sum: u64 = self.0.iter().map(|part| part.load(Ordering::Relaxed)).sum();
        sum as usize
    }
}

/// A handler that only counts.
pub(crate) struct Counts(pub(crate) Arc<Tally>);

impl Handler for Counts {
    type Payload = String;

    async fn handle(&self, _event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        self.0.add();
        Ok(())
    }
}

/// How late things were, in microseconds; below zero is early.
pub(crate) struct Samples {
    clock: Arc<SystemClock>,
    taken: AtomicUsize,
    late_us: Box<[AtomicI64]>,
}

impl Samples {
    pub(crate) fn new(clock: Arc<SystemClock>, most: usize) -> Arc<Self> {
        Arc::new(Self {
            clock,
            taken: AtomicUsize::new(0),
            late_us: (0..most).map(|_| AtomicI64::new(0)).collect(),
        })
    }

    /// Something that was due then starts now.
    pub(crate) fn starts(&self, due_us: u64) {
        let now = self.clock.wall_us();
        let place = self.taken.fetch_add(1, Ordering::Relaxed);
        if let Some(late_us) = self.late_us.get(place) {
            late_us.store(now.wrapping_sub(due_us) as i64, Ordering::Relaxed);
        }
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// All of them in order, once they are complete.
    pub(crate) async fn sorted(&self) -> Vec<i64> {
        until(|| self.taken() >= self.late_us.len()).await;
        let mut late: Vec<_> = self
            .late_us
            .iter()
            .map(|us| us.load(Ordering::Relaxed))
            .collect();
        late.sort_unstable();
        late
    }
}

/// A handler that notes by its own look at the clock how late it starts.
pub(crate) struct Watches(pub(crate) Arc<Samples>);

impl Handler for Watches {
    type Payload = String;

    async fn handle(&self, event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        self.0.starts(event.due().unwrap_or_default().as_micros());
        Ok(())
    }
}
