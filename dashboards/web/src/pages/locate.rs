//! Finds the queue of an event by its id alone.

use std::sync::Arc;

use duly::{EventId, QueueName};
use futures_util::{StreamExt, stream};

use crate::app::App;
use crate::error::Result;
use crate::guard::Visit;
use crate::pages::records::too_many;
use crate::questions::in_time;
use crate::text::count;

/// How many queues are asked for the event, and how many at the same time.
const QUEUES_MAX: usize = 1_000;
const AT_ONCE: usize = 32;
/// How many records of an id are read at a time, and how often: those of others may be before.
const RECORDS: u32 = 50;
const PAGES_MAX: usize = 20;

/// What is known of the queue of an event.
#[derive(Debug)]
pub(crate) enum Location {
    Queue(QueueName),
    /// None that was asked knows it, and how many that were.
    Unknown(String),
}

/// Whether a queue knows an event, or a record of it is left there.
pub(crate) async fn is_known(app: &App, queue: &QueueName, id: EventId) -> Result<bool> {
    if in_time(app.bus.event_in(queue, id)).await?.is_some() {
        return Ok(true);
    }
    let records = app.bus.records().queue(queue).id(id).limit(1);
    Ok(!in_time(records.page()).await?.items.is_empty())
}

/// Returns the first queue that the visitor sees with a record of an event.
async fn recorded(app: &App, visit: &Visit, id: EventId) -> Result<Option<QueueName>> {
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let records = app.bus.records().id(id).after(after).limit(RECORDS);
        let page = in_time(records.page()).await?;
        let mut queues = page.items.into_iter().map(|record| record.queue);
        if let Some(queue) = queues.find(|queue| visit.user.sees(queue)) {
            return Ok(Some(queue));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(None)
}

/// Returns the queue of an event. The records know that of whatever was attempted; for the rest the
/// queues that have events are asked, as many as is bounded.
pub(crate) async fn queue_of(app: &Arc<App>, visit: &Visit, id: EventId) -> Result<Location> {
    if too_many(app).await.is_none()
        && let Some(queue) = recorded(app, visit, id).await?
    {
        return Ok(Location::Queue(queue));
    }
    let picture = app.sampler.picture().await;
    let is_used = |stats: &duly::admin::QueueStats| {
        stats.scheduled + stats.ready + stats.leased + stats.dead > 0
    };
    let used = picture.queues.iter().filter(|(name, of)| {
        // What was not counted yet may have it, too; what is empty cannot.
        visit.user.sees(name) && is_used(&of.stats)
    });
    let used: Vec<&QueueName> = used.map(|(name, _)| name).collect();
    let lookups = used.iter().take(QUEUES_MAX).map(|name| {
        let (app, name) = (Arc::clone(app), (*name).clone());
        async move {
            let event = in_time(app.bus.event_in(&name, id)).await;
            event.map(|event| event.map(|_| name))
        }
    });
    let lookups: Vec<_> = lookups.collect();
    let mut results = stream::iter(lookups).buffer_unordered(AT_ONCE);
    while let Some(result) = results.next().await {
        if let Some(queue) = result? {
            return Ok(Location::Queue(queue));
        }
    }
    let mut text = format!(
        "no record of event {id} was found, and none of {} with events knows it",
        count(used.len().min(QUEUES_MAX), "queue", "queues")
    );
    if used.len() > QUEUES_MAX || !picture.is_whole {
        text.push_str(
            "; others were not asked: open the page of its queue, and enter its id there",
        );
    }
    Ok(Location::Unknown(text))
}
