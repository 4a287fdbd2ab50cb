//! Lateness at a steady rate, during pushes.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::time::{Clock, SystemClock, Timestamp};
use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Result;
use crate::scene::{Kept, Plan, Samples, Watches, payload, queues, start};
use crate::table::Lateness;

/// How long after its push an event is due.
const DELAY: Duration = Duration::from_millis(400);
/// How often the pusher pushes what is due in so many milliseconds.
const STEP_MS: u64 = 10;

pub(crate) async fn run(plan: Plan) -> Result {
    for rate in [1_000, 20_000] {
        let title = format!("lateness at {rate} events a second, pushed while others are due");
        let mut table = Lateness::titled(&title);
        let base = sleeping(plan.late, rate).await;
        table.line("a tokio task that sleeps, for each event", &base, 0.99)?;
        for kept in Kept::ALL {
            let late = delivering(kept, plan.late, rate).await?;
            table.line(kept.name(), &late, 0.99)?;
        }
    }
    Ok(())
}

/// What an application does without a bus, and forgets when it ends.
async fn sleeping(span: Duration, rate: usize) -> Vec<i64> {
    let clock = Arc::new(SystemClock::new());
    let (samples, begun) = (samples(&clock, span, rate), Instant::now());
    let first = clock.now() + DELAY;
    for step in 0..steps(span) {
        for due in step_dues(first, step) {
            let sleep_for = Duration::from_micros(due.as_micros().saturating_sub(clock.wall_us()));
            for _ in 0..rate / 1_000 {
                let samples = Arc::clone(&samples);
                tokio::spawn(async move {
                    sleep(sleep_for).await;
                    samples.starts(due.as_micros());
                });
            }
        }
        sleep_until(begun + Duration::from_millis((step + 1) * STEP_MS)).await;
    }
    samples.sorted().await
}

async fn delivering(kept: Kept, span: Duration, rate: usize) -> Result<Vec<i64>> {
    let (url, _directory) = kept.fresh()?;
    let clock = Arc::new(SystemClock::new());
    let samples = samples(&clock, span, rate);
    let choices = QueueChoices::default();
    let watches = || Watches(Arc::clone(&samples));
    let bus = start(&url, Arc::clone(&clock), &choices, watches).await?;
    let queues = queues(&bus)?;

    let (begun, first) = (Instant::now(), clock.now() + DELAY);
    for step in 0..steps(span) {
        let pushes = step_dues(first, step).enumerate().map(|(place, due)| {
            let queue = &queues[place % queues.len()];
            let pushed = queue.push_many((0..rate / 1_000).map(|_| payload()), due);
            pushed.into_future()
        });
        try_join_all(pushes).await?;
        let due = step_dues(first, step).next();
        if due.is_none_or(|due| clock.now() >= due) {
            let name = kept.name();
            return Err(format!("{name}: events are due before {rate} a second are pushed").into());
        }
        sleep_until(begun + Duration::from_millis((step + 1) * STEP_MS)).await;
    }
    let late = samples.sorted().await;
    bus.shutdown(Duration::from_secs(5)).await?;
    Ok(late)
}

fn samples(clock: &Arc<SystemClock>, span: Duration, rate: usize) -> Arc<Samples> {
    let events = steps(span) as usize * STEP_MS as usize * (rate / 1_000);
    Samples::new(Arc::clone(clock), events)
}

fn steps(span: Duration) -> u64 {
    span.as_millis() as u64 / STEP_MS
}

/// The due times of one step: each millisecond of it.
fn step_dues(first: Timestamp, step: u64) -> impl Iterator<Item = Timestamp> {
    (0..STEP_MS).map(move |ms| Timestamp::from_millis(first.as_millis() + step * STEP_MS + ms))
}
