//! Sweeps over the dead letters that a filter finds: revived, or dropped.

use duly::QueueName;

use super::DRY_RUN;
use super::input::rate;
use super::kind::Action;
use super::sweep::{start, targets};
use crate::app::App;
use crate::error::{PageError, Result};
use crate::grant::Extent;
use crate::guard::Visit;
use crate::pages::dead::DeadFilter;
use crate::pages::find::queues_of;
use crate::questions::in_time;
use crate::sweeps::{Work, of_queues};
use crate::text::{Fields, count};

/// Returns the queues to look through; none, which is every queue, for who sees all.
async fn queues(app: &App, visit: &Visit, filter: &DeadFilter) -> Result<Vec<QueueName>> {
    if filter.queue.is_some() || visit.user.sees_all() {
        return Ok(Vec::new());
    }
    let queues = queues_of(app, &visit.user).await?;
    if queues.is_empty() {
        return Err(PageError::not_found("there is no queue yet"));
    }
    Ok(queues)
}

/// Returns what a sweep would be over, and how many dead letters those are now.
pub(super) async fn selection(
    app: &App,
    visit: &Visit,
    fields: &Fields,
) -> Result<(String, String)> {
    let filter = DeadFilter::read(fields, visit)?;
    let queues = queues(app, visit, &filter).await?;
    let letters = of_queues(filter.letters(&app.bus), &queues);
    let page = in_time(letters.limit(DRY_RUN).page()).await?;
    let one = "dead letter matches";
    let many = count(page.items.len(), one, "dead letters match");
    let many = match page.next {
        Some(_) => format!("At least {many}."),
        None => format!("{many}."),
    };
    Ok((format!("Dead letters {}", filter.words(&visit.user)), many))
}

/// Starts a sweep; returns what was done, and to what.
pub(super) async fn sweep(
    app: &App,
    visit: &Visit,
    action: Action,
    fields: &Fields,
) -> Result<(String, Vec<String>)> {
    let filter = DeadFilter::read(fields, visit)?;
    let rate = rate(fields)?;
    let queues = queues(app, visit, &filter).await?;
    let of_what = format!("dead letters {}", filter.words(&visit.user));
    let targets = if let Some(queue) = &filter.queue {
        vec![format!("{queue}, {of_what}")]
    } else {
        let letters = of_queues(filter.letters(&app.bus), &queues);
        let page = in_time(letters.limit(DRY_RUN).page()).await?;
        let found = page.items.into_iter().map(|letter| letter.queue);
        targets(&found.collect(), page.next.is_none(), &of_what)
    };
    let extent = Extent::of(&visit.user, filter.queue.as_deref(), &queues);
    let actor = visit.user.name.clone();
    let make = Box::new(move |bus: &duly::Bus| filter.letters(bus).by(&actor));
    let (work, verb) = match action {
        Action::DropAll => (Work::Drop(make, queues), "Drop"),
        _ => (Work::Revive(make, queues), "Revive"),
    };
    let what = format!("{verb} {of_what}, {rate} in a second");
    start(app, visit, action, (work, what, rate), (extent, &targets))?;
    Ok(("The sweep has begun.".to_owned(), targets))
}
