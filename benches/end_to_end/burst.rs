//! A burst: many events due at the same instant, measured until the last one has started.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::time::{Clock, SystemClock};
use tokio::time::sleep;

use crate::Result;
use crate::scene::{Kept, Plan, QUEUES, Samples, Watches, payload, queues, start};
use crate::table::Lateness;

const EVENTS: usize = 50_000;
/// Long enough to push them all before.
const DELAY: Duration = Duration::from_secs(2);

pub(crate) async fn run(plan: Plan) -> Result {
    let mut table = Lateness::titled("50,000 events due at one instant, in 4 queues");
    let base = sleeping().await;
    table.line("a tokio task that sleeps, for each event", &base, 1.0)?;
    for kept in Kept::ALL {
        let mut passes = Vec::new();
        for _ in 0..plan.passes {
            passes.push(delivering(kept).await?);
        }
        passes.sort_by_key(|late| late.last().copied());
        table.line(kept.name(), &passes[passes.len() / 2], 1.0)?;
    }
    Ok(())
}

async fn sleeping() -> Vec<i64> {
    let clock = Arc::new(SystemClock::new());
    let samples = Samples::new(Arc::clone(&clock), EVENTS);
    let due_us = (clock.now() + DELAY).as_micros();
    for _ in 0..EVENTS {
        let samples = Arc::clone(&samples);
        let sleep_for = Duration::from_micros(due_us.saturating_sub(clock.wall_us()));
        tokio::spawn(async move {
            sleep(sleep_for).await;
            samples.starts(due_us);
        });
    }
    samples.sorted().await
}

async fn delivering(kept: Kept) -> Result<Vec<i64>> {
    let (url, _directory) = kept.fresh()?;
    let clock = Arc::new(SystemClock::new());
    let samples = Samples::new(Arc::clone(&clock), EVENTS);
    let choices = QueueChoices::default();
    let watches = || Watches(Arc::clone(&samples));
    let bus = start(&url, Arc::clone(&clock), &choices, watches).await?;
    let due = clock.now() + DELAY;
    for queue in queues(&bus)? {
        let payloads = (0..EVENTS / QUEUES.len()).map(|_| payload());
        queue.push_many(payloads, due).await?;
    }
    let late = samples.sorted().await;
    bus.shutdown(Duration::from_secs(5)).await?;
    Ok(late)
}
