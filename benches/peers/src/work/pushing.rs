//! Pushing: one by one, and many a call.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{BULK_PUSHERS, PATIENCE};
use crate::Result;
use crate::contender::{Contender, To};
use crate::payload::{Watch, payload};

/// Pushes 64 at a time, each in a call of its own unless the contender knows better.
pub(super) async fn singles<C: Contender>(
    contender: &Arc<C>,
    to: To,
    numbers: std::ops::Range<usize>,
) -> Result {
    let (pushers, each) = C::IN_FLIGHT;
    let mut pushes = JoinSet::new();
    for place in 0..pushers {
        let (contender, numbers) = (Arc::clone(contender), numbers.clone());
        pushes.spawn(async move {
            let firsts = numbers.clone().skip(place * each).step_by(pushers * each);
            for first in firsts {
                if each == 1 {
                    contender.push(to, payload(to.due_ms, first)).await?;
                } else {
                    let call = first..numbers.end.min(first + each);
                    let payloads = call.map(|number| payload(to.due_ms, number));
                    contender.push_many(to, payloads.collect()).await?;
                }
            }
            Ok(())
        });
    }
    joined(pushes).await
}

/// Pushes many a call, and no more ahead of what a watch has seen than the contender can bear.
pub(super) async fn bulk<C: Contender>(
    contender: &Arc<C>,
    to: To,
    events: usize,
    handled: Option<&Watch>,
) -> Result {
    let batch = C::BATCH.min(events.div_ceil(BULK_PUSHERS)).max(1);
    let mut pushes = JoinSet::new();
    for first in (0..events).step_by(batch) {
        let numbers = first..events.min(first + batch);
        while pushes.len() == BULK_PUSHERS {
            if let Some(pushed) = pushes.join_next().await {
                pushed??;
            }
        }
        let begun = Instant::now();
        let waiting = |watch: &Watch| numbers.end.saturating_sub(watch.started());
        while handled.is_some_and(|watch| waiting(watch) > C::BACKLOG_MAX) {
            if begun.elapsed() > PATIENCE {
                return Ok(()); // The account will tell what is missing.
            }
            sleep(Duration::from_millis(1)).await;
        }
        let contender = Arc::clone(contender);
        pushes.spawn(async move {
            let payloads = numbers.map(|number| payload(to.due_ms, number));
            contender.push_many(to, payloads.collect()).await
        });
    }
    joined(pushes).await
}

pub(super) async fn joined(mut tasks: JoinSet<Result>) -> Result {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
