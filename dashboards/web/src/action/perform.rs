//! Doing an action.

use axum::http::StatusCode;
use duly::admin::StoredEvent;
use duly::time::When;
use duly::{CancelOutcome, ChangeOutcome, EventId, QueueName};
use tokio::sync::OwnedMutexGuard;

use super::input::{due, known, meant, number};
use super::kind::Action;
use super::schedule;
use crate::access::Role;
use crate::app::App;
use crate::error::{PageError, Result};
use crate::grant::Extent;
use crate::guard::Visit;
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::text::{self, Fields};

/// The most queues of a user's namespace with settings: a store keeps those of 10,000 queues.
const SET_MAX: usize = 1_000;

/// Does an action on a queue, an event or a schedule; returns what was done, and to what.
pub(super) async fn perform(
    app: &App,
    visit: &Visit,
    action: Action,
    fields: &Fields,
) -> Result<(String, String)> {
    let bus = &app.bus;
    if action.is_of_schedule() {
        return schedule::perform(app, visit, action, fields).await;
    }
    let queue = name_of(visit, fields.get("queue").unwrap_or_default())?;
    let done = match action {
        Action::Pause => {
            known(app, &queue).await?;
            let _turn = turn_with_room(app, visit, &queue).await?;
            bus.pause(&queue).await?;
            format!("{queue} is paused.")
        }
        Action::Resume => {
            known(app, &queue).await?;
            bus.resume(&queue).await?;
            format!("{queue} runs again.")
        }
        Action::Rate => {
            known(app, &queue).await?;
            let rate = number(fields, "rate")?;
            let _turn = match rate {
                Some(_) => turn_with_room(app, visit, &queue).await?,
                None => None,
            };
            let set = bus.set_rate(&queue, rate).await;
            set.map_err(|error| PageError::of_field(error, "rate"))?;
            match rate {
                Some(rate) => format!("The rate of {queue} is {rate} in a second."),
                None => format!("{queue} has no rate any more."),
            }
        }
        _ => {
            let id: EventId = fields.get("id").unwrap_or_default().parse()?;
            let done = on_event(app, visit, action, (&queue, id), fields).await?;
            return Ok((done, format!("{queue}/{id}")));
        }
    };
    Ok((done, queue.to_string()))
}

/// Returns the turn of who has a namespace to set something of a queue; refuses a first setting where
/// as many queues of the namespace have some as may.
async fn turn_with_room(
    app: &App,
    visit: &Visit,
    queue: &QueueName,
) -> Result<Option<OwnedMutexGuard<()>>> {
    let Some(namespace) = visit.user.namespace() else {
        return Ok(None);
    };
    let turn = app.turn_of(namespace).await?;
    let grant = visit.grant(app, Role::Admin, Extent::Queue(queue.to_string()));
    grant.check().await?;
    let controls = in_time(app.bus.controls()).await?;
    let of_namespace = controls.keys().filter(|name| visit.user.owns(name));
    let count = of_namespace.count();
    if count < SET_MAX || controls.contains_key(queue) {
        return Ok(Some(turn));
    }
    Err(PageError::new(
        StatusCode::INSUFFICIENT_STORAGE,
        format!("{SET_MAX} queues of the namespace have settings, the most; remove some first"),
    ))
}

/// Does an action to an event; returns what was done. The error of one that is gone, or runs, is a conflict.
pub(super) async fn on_event(
    app: &App,
    visit: &Visit,
    action: Action,
    (queue, id): (&QueueName, EventId),
    fields: &Fields,
) -> Result<String> {
    let letters = || app.bus.dead_letters().queue(queue).by(&visit.user.name);
    let result = match action {
        Action::Revive => letters().revive([id]).await?,
        Action::Drop => letters().drop([id]).await?,
        _ => {
            meant(queue)?;
            let event = in_time(app.bus.event_in(queue, id)).await?;
            let event = event.ok_or_else(|| gone(id, "not known any more"))?;
            // What is cancelled is so again as often as it is asked for.
            if event.state.is_final() {
                return Err(gone(id, event.state.as_str()));
            }
            return change(app, &event, action, fields).await;
        }
    };
    match result.finished()?.done {
        0 if action == Action::Revive => Err(gone(
            id,
            "no dead letter any more, or its expiry has passed",
        )),
        0 => Err(gone(id, "no dead letter any more")),
        _ if action == Action::Drop => Ok(format!("{id} is dropped.")),
        _ => Ok(format!("{id} is ready again.")),
    }
}

async fn change(app: &App, event: &StoredEvent, action: Action, fields: &Fields) -> Result<String> {
    let id = event.id;
    if action == Action::Cancel {
        return match event.cancel().await? {
            CancelOutcome::Cancelled | CancelOutcome::CancelledAfterAttempt => {
                Ok(format!("{id} is cancelled."))
            }
            CancelOutcome::TooLate(state) => Err(gone(id, state.as_str())),
            _ => Err(gone(id, "not known any more")),
        };
    }
    let when = match action {
        Action::Reschedule => due(fields)?,
        _ => When::Now,
    };
    match event.reschedule(when).await? {
        ChangeOutcome::Changed(due) | ChangeOutcome::ChangedAfterAttempt(due) => {
            let due = text::Moment::new(due, app.bus.store_time());
            Ok(format!("{id} is due {}.", due.far))
        }
        ChangeOutcome::TooLate(state) => Err(gone(id, state.as_str())),
        _ => Err(gone(id, "not known any more")),
    }
}

fn gone(id: EventId, state: &str) -> PageError {
    PageError::new(
        StatusCode::CONFLICT,
        format!("nothing was done: event {id} is {state}"),
    )
}
