//! Actions on the rows that are chosen on one page of a list.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use duly::event::State;
use duly::{EventId, QueueName};

use super::kind::Action;
use super::perform::on_event;
use crate::app::App;
use crate::error::{PageError, Result};
use crate::guard::Visit;
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::text::{CHOSEN, Fields, count, number};

/// The most rows of a page.
const CHOSEN_MAX: usize = 50;
/// The field with the filter of the list, to which the action leads back.
pub(super) const LIST: &str = "list";
/// How many ids a line of the audit has, so that none is cut off.
const LINE_IDS: usize = 25;

/// Reads what is chosen, each as its queue, a slash and its id; the ids of each queue once.
fn chosen(fields: &Fields, visit: &Visit) -> Result<BTreeMap<QueueName, Vec<EventId>>> {
    let mut chosen: BTreeMap<QueueName, Vec<EventId>> = BTreeMap::new();
    for row in fields.get(CHOSEN).unwrap_or_default().split(' ') {
        let Some((queue, id)) = row.rsplit_once('/') else {
            return Err(PageError::invalid(
                "choose events first: tick the boxes before them in the list",
            ));
        };
        let ids = chosen.entry(name_of(visit, queue)?).or_default();
        let id = id.parse()?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let many: usize = chosen.values().map(Vec::len).sum();
    if many > CHOSEN_MAX {
        let text = format!("{many} are chosen; it must be at most {CHOSEN_MAX}, those of one page");
        return Err(PageError::invalid(text));
    }
    Ok(chosen)
}

/// Returns what is chosen in words, and how many an action would still find.
pub(super) async fn selection(
    app: &App,
    visit: &Visit,
    action: Action,
    fields: &Fields,
) -> Result<(String, String)> {
    let chosen = chosen(fields, visit)?;
    let (mut all, mut found) = (0, 0);
    for (queue, ids) in &chosen {
        for id in ids {
            let event = in_time(app.bus.event_in(queue, *id)).await?;
            let is_found = event.is_some_and(|event| match event.state {
                State::Scheduled | State::Ready => !action.is_of_dead(),
                State::Dead => action.is_of_dead(),
                _ => false,
            });
            all += 1;
            found += usize::from(is_found);
        }
    }
    let of_what = match chosen.len() {
        1 => chosen.keys().next().map(|queue| format!("queue {queue}")),
        queues => Some(count(queues, "queue", "queues")),
    };
    let subject = if action.is_of_dead() {
        count(all, "dead letter", "dead letters")
    } else {
        count(all, "event", "events")
    };
    let state = if action.is_of_dead() {
        "dead"
    } else {
        "waiting"
    };
    Ok((
        format!("{subject} of {}", of_what.unwrap_or_default()),
        format!("{} of them still {state}.", number(found as u64)),
    ))
}

/// Does an action to each that is chosen, and records it; what is gone meanwhile is left out. Returns what
/// was done.
pub(super) async fn perform(
    app: &App,
    visit: &Visit,
    (action, each): (Action, Action),
    fields: &Fields,
) -> Result<String> {
    let (mut changed, mut gone) = (0, 0);
    for (queue, ids) in chosen(fields, visit)? {
        let mut done = Vec::new();
        let result = async {
            for id in ids {
                match on_event(app, visit, each, (&queue, id), fields).await {
                    Ok(_) => done.push(id.to_string()),
                    Err(error) if error.status() == StatusCode::CONFLICT => gone += 1,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        let result = result.await;
        changed += done.len();
        app.sampler.refresh(&queue).await;
        // What was done before an error stays done.
        for ids in done.chunks(LINE_IDS) {
            let what = if each.is_of_dead() {
                "dead letters"
            } else {
                "events"
            };
            let target = format!("{queue}, {what} {}", ids.join(" "));
            app.audit(&visit.user, action.audited(), &target).await;
        }
        result?;
    }
    let (state, then) = match each {
        Action::Revive => ("dead", "ready again"),
        Action::Drop => ("dead", "dropped"),
        Action::Cancel => ("waiting", "cancelled"),
        _ => ("waiting", "rescheduled"),
    };
    let or_expired = if each == Action::Revive {
        ", or its expiry has passed"
    } else {
        ""
    };
    if changed == 0 {
        let text = format!("nothing was done: none of them is {state} any more{or_expired}");
        return Err(PageError::new(StatusCode::CONFLICT, text));
    }
    let done = if each.is_of_dead() {
        count(changed, "dead letter is", "dead letters are")
    } else {
        count(changed, "event is", "events are")
    };
    let mut done = format!("{done} {then}");
    if gone > 0 {
        let many = count(gone, "was", "were");
        done += &format!("; {many} not {state} any more{or_expired}");
    }
    Ok(format!("{done}."))
}
