//! A drain: from the release of a backlog until its last event is handled and settled.

use std::sync::Arc;
use std::time::Duration;

use duly::BusBuilder;
use duly::prelude::*;

use crate::scene::{
    Counts, Kept, Plan, QUEUES, Tally, bare_builder, payload, queues, start_with, until,
};
use crate::table::Rates;
use crate::watch::{Stopwatch, Took};
use crate::{Result, bare, wrong};

/// The workers of a queue when nobody says otherwise.
const WORKERS: usize = 16;
const BATCH: usize = 5_000;

pub(crate) async fn run(plan: Plan) -> Result {
    let mut table = Rates::titled("drain: fetch, handle, settle and record a backlog of 4 queues");
    let base: Result<_> = (0..plan.passes)
        .map(|_| bare::settle(plan.events, 500))
        .collect();
    table.line(
        "bare SQLite, delete and record, 500 a commit",
        plan.events,
        base?,
    );
    for kept in Kept::ALL {
        let mut took = Vec::new();
        for _ in 0..plan.passes {
            took.push(draining(kept, plan.events, Ok).await?);
        }
        let (handled, settled): (Vec<_>, Vec<_>) = took.into_iter().unzip();
        table.line(&format!("{}, handled", kept.name()), plan.events, handled);
        table.line(
            &format!("{}, settled too", kept.name()),
            plan.events,
            settled,
        );
    }
    Ok(())
}

/// How long it took until all were handled, and until all were settled, on a bus of which `more`
/// is chosen.
pub(crate) async fn draining(
    kept: Kept,
    events: usize,
    more: impl FnOnce(BusBuilder) -> duly::Result<BusBuilder>,
) -> Result<(Took, Took)> {
    let (url, _directory) = kept.fresh()?;
    let tally = Arc::new(Tally::default());
    let paused = QueueChoices {
        workers: Some(0),
        ..QueueChoices::default()
    };
    let builder = more(bare_builder(&url))?;
    let bus = start_with(builder, &paused, || Counts(Arc::clone(&tally))).await?;
    for queue in queues(&bus)? {
        for _ in 0..events / QUEUES.len() / BATCH {
            queue
                .push_many((0..BATCH).map(|_| payload()), Duration::ZERO)
                .await?;
        }
    }

    let took = drained(&bus, || tally.total() >= events).await?;
    bus.shutdown(Duration::from_secs(5)).await?;
    if tally.total() != events {
        let handled = tally.total();
        return Err(wrong(format!(
            "pushed {events} events, {handled} were handled"
        )));
    }
    Ok(took)
}

/// Lets workers begin; how long it took until all were handled, and until all were settled.
pub(crate) async fn drained(bus: &Bus, are_handled: impl Fn() -> bool) -> Result<(Took, Took)> {
    let watch = Stopwatch::start();
    for queue in QUEUES {
        bus.set_workers(queue, WORKERS)?;
    }
    until(are_handled).await;
    let handled = watch.took();
    while left(bus).await? > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok((handled, watch.took()))
}

async fn left(bus: &Bus) -> Result<usize> {
    let mut left = 0;
    for queue in QUEUES {
        let stats = bus.stats(queue).await?;
        left += stats.scheduled + stats.ready + stats.leased + stats.dead;
    }
    Ok(left)
}
