//! Sweeps over the events that a filter finds: cancelled, or due at another time.

use duly::QueueName;
use duly::admin::Events;
use duly::time::When;

use super::DRY_RUN;
use super::input::{due, known, meant, rate};
use super::kind::Action;
use super::sweep::{start, targets};
use crate::app::App;
use crate::error::{PageError, Result};
use crate::grant::Extent;
use crate::guard::Visit;
use crate::pages::find::EventFilter;
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::sweeps::{Query, Work};
use crate::text::{Fields, count, number};

/// Reads the filter, which has to select something.
fn filter(fields: &Fields, visit: &Visit) -> Result<EventFilter> {
    let filter = EventFilter::read(fields, visit)?;
    if filter.is_empty() {
        return Err(PageError::invalid(
            "nothing selects the events; find some first, by a key, a queue, a state or a time",
        ));
    }
    filter.exact_place()?;
    Ok(filter)
}

async fn queues(app: &App, visit: &Visit, filter: &EventFilter) -> Result<Vec<QueueName>> {
    let queues = filter.queues(app, &visit.user).await?;
    if queues.is_empty() {
        return Err(PageError::not_found("there is no queue yet"));
    }
    Ok(queues)
}

/// Returns what a sweep would be over, and how many events those are now.
pub(super) async fn selection(
    app: &App,
    visit: &Visit,
    fields: &Fields,
) -> Result<(String, String)> {
    let filter = filter(fields, visit)?;
    let queues = queues(app, visit, &filter).await?;
    let events = filter.events(&app.bus, filter.exact_place()?, &queues);
    let list = in_time(events.limit(DRY_RUN).list(None)).await?;
    let waits = list.items.iter().filter(|event| {
        use duly::event::State;
        matches!(event.state, State::Scheduled | State::Ready)
    });
    let waits = waits.count();
    let mut text = count(list.items.len(), "event matches", "events match");
    if list.next.is_some() {
        text = format!("At least {text}");
    }
    if waits < list.items.len() {
        text.push_str(&format!(", of which {} wait", number(waits as u64)));
    }
    Ok((
        format!("Events {}", filter.words(&visit.user)),
        format!("{text}."),
    ))
}

/// Starts a sweep; returns what was done, and to what.
pub(super) async fn sweep(
    app: &App,
    visit: &Visit,
    action: Action,
    fields: &Fields,
) -> Result<(String, Vec<String>)> {
    let filter = filter(fields, visit)?;
    let rate = rate(fields)?;
    let queues = queues(app, visit, &filter).await?;
    let place = filter.exact_place()?;
    let words = filter.words(&visit.user);
    let of_what = format!("events {words}");
    let targets = if let Some(queue) = &filter.queue {
        vec![format!("{queue}, {of_what}")]
    } else {
        let found = filter.events(&app.bus, place, &queues).limit(DRY_RUN);
        let list = in_time(found.list(None)).await?;
        let found = list.items.into_iter().map(|event| event.queue);
        targets(&found.collect(), list.next.is_none(), &of_what)
    };
    let extent = Extent::of(&visit.user, filter.queue.as_deref(), &queues);
    let make: Query<Events> = Box::new(move |bus| filter.events(bus, place, &queues));
    let (work, verb) = match action {
        Action::CancelAll => (Work::Cancel(make), "Cancel"),
        Action::RunAll => (Work::Reschedule(make, When::Now), "Run now"),
        _ => (Work::Reschedule(make, due(fields)?), "Reschedule"),
    };
    let what = format!("{verb} {of_what}, {rate} in a second");
    start(app, visit, action, (work, what, rate), (extent, &targets))?;
    Ok(("The sweep has begun.".to_owned(), targets))
}

/// Returns the queue that a purge is of.
async fn purged(app: &App, visit: &Visit, fields: &Fields) -> Result<QueueName> {
    let queue = name_of(visit, fields.get("queue").unwrap_or_default())?;
    meant(&queue)?;
    known(app, &queue).await?;
    Ok(queue)
}

/// Returns what a purge would be of, and how many events it would cancel now.
pub(super) async fn asked_purge(
    app: &App,
    visit: &Visit,
    fields: &Fields,
) -> Result<(String, String)> {
    let queue = purged(app, visit, fields).await?;
    let stats = in_time(app.bus.stats(&queue)).await?;
    let waits = count(stats.scheduled + stats.ready, "event waits", "events wait");
    Ok((format!("Queue {queue}"), format!("{waits} in it.")))
}

/// Starts a purge; returns what was done, and to what.
pub(super) async fn purge(
    app: &App,
    visit: &Visit,
    fields: &Fields,
) -> Result<(String, Vec<String>)> {
    let queue = purged(app, visit, fields).await?;
    let rate = rate(fields)?;
    let name = queue.clone();
    let make: Query<Events> = Box::new(move |bus| bus.events().queue(&name));
    let what = format!("Purge queue {queue}, {rate} in a second");
    let extent = Extent::Queue(queue.to_string());
    let targets = vec![queue.to_string()];
    let work = (Work::Cancel(make), what, rate);
    start(app, visit, Action::Purge, work, (extent, &targets))?;
    Ok(("The purge has begun.".to_owned(), targets))
}
