//! Pushing: one by one with many in flight, and in batches.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::time::SystemClock;
use tokio::task::JoinSet;

use crate::scene::{Counts, Kept, Plan, payload, queues, start};
use crate::table::Rates;
use crate::watch::{Stopwatch, Took};
use crate::{Result, bare, wrong};

const IN_FLIGHT: usize = 64;
const BATCH: usize = 5_000;
const TOMORROW: Duration = Duration::from_secs(86_400);

pub(crate) async fn run(plan: Plan) -> Result {
    let mut table = Rates::titled("push, one by one, 64 in flight, each answered once it is safe");
    let passes = || 0..plan.passes;
    let base: Result<_> = passes()
        .map(|_| bare::append(plan.singles, IN_FLIGHT))
        .collect();
    table.line("bare SQLite, 64 rows a commit", plan.singles, base?);
    for kept in Kept::ALL {
        let mut took = Vec::new();
        for _ in passes() {
            let push = |queues, events| one_by_one(queues, events, TOMORROW);
            took.push(pushing(kept, plan.singles, push).await?);
        }
        table.line(kept.name(), plan.singles, took);
    }

    let mut table = Rates::titled("push, batches of 5,000 to each of 4 queues");
    let base: Result<_> = passes().map(|_| bare::append(plan.events, 1_000)).collect();
    table.line("bare SQLite, 1,000 rows a commit", plan.events, base?);
    for kept in Kept::ALL {
        let mut took = Vec::new();
        for _ in passes() {
            took.push(pushing(kept, plan.events, batched).await?);
        }
        table.line(kept.name(), plan.events, took);
    }
    Ok(())
}

/// Times `push`, and looks afterwards whether everything is there.
pub(crate) async fn pushing<P, F>(kept: Kept, events: usize, push: P) -> Result<Took>
where
    P: Fn(Vec<Queue<String>>, usize) -> F,
    F: Future<Output = Result>,
{
    let (url, _directory) = kept.fresh()?;
    let choices = QueueChoices::default();
    let clock = Arc::new(SystemClock::new());
    let bus = start(&url, clock, &choices, || Counts(Arc::default())).await?;
    let watch = Stopwatch::start();
    push(queues(&bus)?, events).await?;
    let took = watch.took();
    let mut there = 0;
    for queue in queues(&bus)? {
        there += bus.stats(queue.name()).await?.scheduled;
    }
    bus.shutdown(Duration::from_secs(5)).await?;
    if there != events {
        return Err(wrong(format!(
            "pushed {events} events, the store has {there}"
        )));
    }
    Ok(took)
}

/// Pushes one after the other from each of [`IN_FLIGHT`] tasks.
pub(crate) async fn one_by_one(
    queues: Vec<Queue<String>>,
    events: usize,
    delay: Duration,
) -> Result {
    let mut pushers = JoinSet::new();
    for place in 0..IN_FLIGHT {
        let queue = queues[place % queues.len()].clone();
        pushers.spawn(async move {
            for _ in (place..events).step_by(IN_FLIGHT) {
                queue.push(payload(), delay).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(pushed) = pushers.join_next().await {
        pushed??;
    }
    Ok(())
}

/// Pushes in batches, one on its way to each queue.
pub(crate) async fn batched(queues: Vec<Queue<String>>, events: usize) -> Result {
    let mut pushers = JoinSet::new();
    let each = events / queues.len();
    for queue in queues {
        pushers.spawn(async move {
            for first in (0..each).step_by(BATCH) {
                let size = BATCH.min(each - first);
                queue
                    .push_many((0..size).map(|_| payload()), TOMORROW)
                    .await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(pushed) = pushers.join_next().await {
        pushed??;
    }
    Ok(())
}
