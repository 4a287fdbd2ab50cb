//! Buses of a point, their handlers, and what these have seen.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::Annotation;
use duly::config::Settings;
use duly::prelude::*;
use duly::time::{Clock, SystemClock};
use tokio::sync::watch;

use crate::Result;
use crate::plan::Point;

/// The workers of a queue when nobody says otherwise.
const WORKERS: usize = 16;

/// What handlers have seen.
pub(crate) struct Seen {
    clock: SystemClock,
    handled: AtomicUsize,
    wanted: AtomicUsize,
    reached: watch::Sender<usize>,
    earliest_us: AtomicI64,
    late_us: Mutex<Vec<i64>>,
}

impl Seen {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            clock: SystemClock::new(),
            handled: AtomicUsize::new(0),
            wanted: AtomicUsize::new(usize::MAX),
            reached: watch::Sender::new(0),
            earliest_us: AtomicI64::new(i64::MAX),
            late_us: Mutex::default(),
        })
    }

    /// From now on so many events are expected.
    pub(crate) fn expect(&self, events: usize) {
        self.handled.store(0, Ordering::Relaxed);
        self.wanted.store(events, Ordering::Relaxed);
        self.reached.send_replace(0);
        let mut late = self.late_us.lock().unwrap_or_else(|lock| lock.into_inner());
        late.clear();
    }

    /// Waits until all that are expected were handled.
    pub(crate) async fn all(&self) -> Result {
        let wanted = self.wanted.load(Ordering::Relaxed);
        let mut reached = self.reached.subscribe();
        let reached = reached.wait_for(|handled| *handled >= wanted);
        tokio::time::timeout(Duration::from_secs(120), reached)
            .await
            .map_err(|_| "events were lost, or nothing moves")??;
        Ok(())
    }

    /// How late the last expected ones were, in order.
    pub(crate) fn lateness(&self) -> Vec<i64> {
        let late = self.late_us.lock().unwrap_or_else(|lock| lock.into_inner());
        let mut late = late.clone();
        late.sort_unstable();
        late
    }

    /// # Errors
    ///
    /// When an event was early.
    pub(crate) fn check(&self) -> Result {
        match self.earliest_us.load(Ordering::Relaxed) {
            us if us < 0 => Err(format!("an event was {} µs early", -us).into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.clock.wall_us()
    }
}

/// A handler that counts; it notes how late it is where few events come.
struct Sees(Arc<Seen>);

impl Handler for Sees {
    type Payload = String;

    async fn handle(&self, event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        let seen = &self.0;
        let wanted = seen.wanted.load(Ordering::Relaxed);
        if wanted <= LATE_MAX
            && let Some(due) = event.due()
        {
            let late_us = seen.now_us().wrapping_sub(due.as_micros()) as i64;
            seen.earliest_us.fetch_min(late_us, Ordering::Relaxed);
            let mut late = seen.late_us.lock().unwrap_or_else(|lock| lock.into_inner());
            late.push(late_us);
        }
        let handled = seen.handled.fetch_add(1, Ordering::Relaxed) + 1;
        if handled >= wanted {
            seen.reached.send_replace(handled);
        }
        Ok(())
    }
}

/// Lateness is noted where at most so many events are expected.
const LATE_MAX: usize = 10_000;

pub(crate) fn queue_name(place: u64) -> String {
    format!("line-{place}")
}

/// A bus that handles every queue of the point.
pub(crate) async fn bus(point: &Point, url: &str, seen: &Arc<Seen>) -> Result<Bus> {
    let choices = QueueChoices {
        buckets: point.buckets,
        workers: Some(WORKERS),
        ..QueueChoices::default()
    };
    let mut builder = Bus::builder()
        .settings(Settings::default())
        .store_url(url)
        .journal_url("off")
        .only_registered();
    for place in 0..point.queues {
        let annotation = Annotation::new(queue_name(place).leak()); // as long as the program
        builder = builder
            .register_as(annotation, Sees(Arc::clone(seen)))
            .queue(queue_name(place), choices.clone());
    }
    Ok(builder.start().await?)
}

pub(crate) fn pause(bus: &Bus, point: &Point) -> Result {
    for place in 0..point.queues {
        bus.set_workers(&queue_name(place), 0)?;
    }
    Ok(())
}

pub(crate) fn resume(bus: &Bus, point: &Point) -> Result {
    for place in 0..point.queues {
        bus.set_workers(&queue_name(place), WORKERS)?;
    }
    Ok(())
}

pub(crate) fn queues(bus: &Bus, point: &Point) -> Result<Vec<Queue<String>>> {
    let queues = (0..point.queues).map(|place| bus.queue_named(&queue_name(place)));
    Ok(queues.collect::<duly::Result<_>>()?)
}

/// As many bytes as the point says, with the quotes of JSON.
pub(crate) fn payload(point: &Point) -> String {
    "x".repeat(point.payload_bytes - 2)
}
