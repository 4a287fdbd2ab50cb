//! The workloads of equal events, through the library.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::config::QueueChoices;
use duly::time::Timestamp;
use duly::{Annotation, Bus, Context, Event, Handler, Queue};
use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::place::Place;
use crate::command::error::{CommandError, Failure, Result};
use crate::command::values::{now, now_us};

/// Pushes and handlers under way at the same time.
pub(super) const IN_FLIGHT: usize = 64;
/// Events of a batch.
pub(super) const BATCH: usize = 1_000;
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
/// How long after its push an event of the workload lateness is due.
const DELAY: Duration = Duration::from_secs(2);
/// When nothing has started for so long, what has not will not.
const PATIENCE: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(10);
/// After how long an event that fails is handled again.
const AGAIN: Duration = Duration::from_millis(100);
const QUEUE: &str = "bench";

/// 64 bytes with the quotes of JSON: when it is due, in microseconds, and its number.
pub(super) fn payload(due_us: u64, number: u64) -> String {
    format!("{due_us:016}{number:08}{:x<38}", "")
}

pub(super) fn per_second(events: u64, took: Duration) -> f64 {
    events as f64 / took.as_secs_f64().max(1e-9)
}

/// The starts of events: how late each was, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Watch {
    started: AtomicUsize,
    late_us: Mutex<Vec<i64>>,
    /// Of so many events one fails at its first attempt; 0 for none.
    fails_one_in: u64,
}

impl Watch {
    pub(super) fn failing(one_in: u64) -> Self {
        Self {
            fails_one_in: one_in,
            ..Self::default()
        }
    }

    fn fails(&self, event: &Event<String>) -> bool {
        let number = || event.payload.get(16..24)?.parse::<u64>().ok();
        event.attempt() == 1 && number().is_some_and(|it| it.is_multiple_of(self.fails_one_in))
    }

    /// Waits until so many have started.
    pub(super) async fn until(&self, events: u64) -> Result<()> {
        let (mut last, mut changed) = (0, Instant::now());
        loop {
            let started = self.started.load(Ordering::Acquire);
            if started as u64 >= events {
                return Ok(());
            }
            if started != last {
                (last, changed) = (started, Instant::now());
            }
            if changed.elapsed() > PATIENCE {
                return Err(CommandError::new(
                    Failure::Unavailable,
                    format!("of {events} events {started} have started, and no more for 30 s"),
                ));
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns how late those were that have started, sorted.
    fn sorted(&self) -> Vec<i64> {
        let mut late = std::mem::take(&mut *self.late_us.lock());
        late.sort_unstable();
        late
    }
}

struct Starts(Arc<Watch>);

impl Handler for Starts {
    type Payload = String;

    async fn handle(
        &self,
        event: Event<String>,
        _cx: &Context,
    ) -> std::result::Result<(), duly::Failure> {
        if self.0.fails(&event) {
            return Err(duly::Failure::retry_after(AGAIN, "not yet"));
        }
        let due_us = event.payload.get(..16).and_then(|due| due.parse().ok());
        let late = now_us() as i64 - due_us.unwrap_or(0);
        self.0.late_us.lock().push(late);
        self.0.started.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

async fn open(place: &Place, watch: Option<&Arc<Watch>>) -> Result<(Bus, Queue<String>)> {
    let builder = Bus::builder()
        .settings(duly::config::Settings::default())
        .store_url(place.store_url())
        .only_registered();
    let builder = match watch {
        None => builder.publish_only(),
        Some(watch) => {
            let choices = QueueChoices {
                workers: Some(IN_FLIGHT),
                ..QueueChoices::default()
            };
            builder
                .register_as(Annotation::new(QUEUE), Starts(Arc::clone(watch)))
                .queue(QUEUE, choices)
        }
    };
    // Its place is removed behind it, and the audit with it.
    let bus = builder.start().await?.with_own_audit();
    let queue = bus.queue_named(QUEUE)?;
    Ok((bus, queue))
}

/// Does some work with a bus, and closes it however the work ends, so that nothing goes on at a place
/// that is removed.
pub(super) async fn with_bus<T>(
    place: &Place,
    watch: Option<&Arc<Watch>>,
    work: impl AsyncFnOnce(&Bus, Queue<String>) -> Result<T>,
) -> Result<T> {
    let (bus, queue) = open(place, watch).await?;
    let done = place.unless_interrupted(work(&bus, queue)).await;
    let closed = bus.shutdown(GRACE).await;
    let done = done?;
    closed?;
    Ok(done)
}

async fn push_all(queue: &Queue<String>, events: u64, due: Option<Timestamp>) -> Result<()> {
    for first in (0..events).step_by(BATCH * 4) {
        let numbers = first..events.min(first + 4 * BATCH as u64);
        let due_us = due.map_or(0, |due| due.as_micros());
        let payloads = numbers.map(|number| payload(due_us, number));
        match due {
            Some(due) => queue.push_many(payloads, due).await?,
            None => queue.push_many(payloads, Duration::ZERO).await?,
        };
    }
    Ok(())
}

pub(super) async fn push_one(place: &Place, events: u64) -> Result<f64> {
    let took = with_bus(place, None, async |_, queue| {
        let begun = Instant::now();
        let pushes = stream::iter(0..events).map(|number| {
            let queue = queue.clone();
            async move { queue.push(payload(0, number), HOUR).await.map(drop) }
        });
        let pushes = pushes.buffer_unordered(IN_FLIGHT);
        pushes.try_collect::<()>().await?;
        Ok(begun.elapsed())
    });
    Ok(per_second(events, took.await?))
}

/// Returns how many a second, and the bytes of each.
pub(super) async fn push_batch(place: &Place, events: u64) -> Result<(f64, f64)> {
    let before = place.bytes().await?;
    let took = with_bus(place, None, async |_, queue| {
        let due = now() + HOUR;
        let begun = Instant::now();
        push_all(&queue, events, Some(due)).await?;
        Ok(begun.elapsed())
    });
    let took = took.await?;
    let bytes = place.bytes().await?.saturating_sub(before);
    Ok((per_second(events, took), bytes as f64 / events as f64))
}

/// Measures from the first fetch to the last settlement: a start reads what other workloads have left.
pub(super) async fn drain(place: &Place, events: u64) -> Result<f64> {
    with_bus(place, None, async |bus, queue| {
        bus.pause(QUEUE).await?;
        push_all(&queue, events, None).await
    })
    .await?;
    let watch = Arc::new(Watch::default());
    let took = with_bus(place, Some(&watch), async |bus, _| {
        let begun = Instant::now();
        bus.resume(QUEUE).await?;
        watch.until(events).await?;
        settled(bus).await?;
        Ok(begun.elapsed())
    });
    Ok(per_second(events, took.await?))
}

/// Waits until what was due is settled.
pub(super) async fn settled(bus: &Bus) -> Result<()> {
    let is_over = async {
        loop {
            let stats = bus.stats(QUEUE).await?;
            if stats.ready + stats.leased == 0 {
                return Ok(());
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = timeout(PATIENCE, is_over).await;
    waited.unwrap_or_else(|_| {
        let text = "the outcomes of events were not settled within 30 s";
        Err(CommandError::new(Failure::Unavailable, text))
    })
}

/// Returns how late each was, in microseconds, sorted.
pub(super) async fn lateness(place: &Place, rate: u64, seconds: u64) -> Result<Vec<i64>> {
    let watch = Arc::new(Watch::default());
    with_bus(place, Some(&watch), async |_, queue| {
        let (events, begun) = (rate * seconds, Instant::now());
        let first = now() + DELAY;
        let pushes = stream::iter(0..events).map(|number| {
            let queue = queue.clone();
            async move {
                let after = Duration::from_secs_f64(number as f64 / rate as f64);
                sleep_until(begun + after).await;
                // To the millisecond, as the store has it.
                let due = Timestamp::from_millis((first + after).as_millis());
                queue.push(payload(due.as_micros(), number), due).await?;
                if now_us() >= due.as_micros() {
                    return Err(CommandError::failed(format!(
                        "pushing {rate} events a second took longer than until they were due; use \
                         a lower --rate"
                    )));
                }
                Ok(())
            }
        });
        let pushes = pushes.buffer_unordered(IN_FLIGHT);
        pushes.try_collect::<()>().await?;
        watch.until(events).await
    })
    .await?;
    Ok(watch.sorted())
}

/// Returns how late each was, in microseconds, sorted.
pub(super) async fn herd(place: &Place, events: u64) -> Result<Vec<i64>> {
    let watch = Arc::new(Watch::default());
    with_bus(place, Some(&watch), async |_, queue| {
        let ahead = Duration::from_millis(1_500 + events / 10);
        let due_ms = (now() + ahead).as_millis();
        push_all(&queue, events, Some(Timestamp::from_millis(due_ms))).await?;
        if now_us() >= due_ms * 1_000 {
            return Err(CommandError::failed(format!(
                "pushing {events} events took longer than until they were due; use fewer --events"
            )));
        }
        watch.until(events).await
    })
    .await?;
    Ok(watch.sorted())
}
