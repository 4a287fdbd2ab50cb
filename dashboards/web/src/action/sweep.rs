//! The start and the stop of a sweep, whatever it is over.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use duly::QueueName;

use super::input::too_many;
use super::kind::Action;
use crate::access::Role;
use crate::app::App;
use crate::error::{PageError, Result};
use crate::grant::Extent;
use crate::guard::Visit;
use crate::sweeps::Work;
use crate::text::Fields;

/// The most queues that have a line each in the audit.
const QUEUES_MAX: usize = 100;

/// Returns the targets of what is done to what was found in some queues: each has a line, which is
/// in the audit of its namespace and names nothing of another. One more, of the store, is for those
/// that were not looked at, are too many, or none.
pub(super) fn targets(found: &BTreeSet<QueueName>, is_whole: bool, what: &str) -> Vec<String> {
    let is_told = is_whole && !found.is_empty() && found.len() <= QUEUES_MAX;
    let named = found.iter().take(QUEUES_MAX);
    let named = named.map(|queue| format!("{queue}, {what}"));
    let rest = (!is_told).then(|| format!("every queue, {what}"));
    named.chain(rest).collect()
}

/// Starts a sweep with the right of its visitor, unless too many run. What it is done to is said once
/// more when it is stopped.
pub(super) fn start(
    app: &App,
    visit: &Visit,
    action: Action,
    (work, what, rate): (Work, String, f64),
    (extent, targets): (Extent, &[String]),
) -> Result<()> {
    let grant = visit.grant(app, action.role(), extent.clone());
    let started = app.sweeps.start(
        (work, grant),
        (what, targets.to_vec(), &visit.user, extent),
        (app.bus.clone(), rate),
    );
    started.ok_or_else(too_many)?;
    Ok(())
}

/// Stops a sweep of the visitor, or as an administrator any; returns what was done, and to what.
pub(super) fn stop(app: &App, visit: &Visit, fields: &Fields) -> Result<(String, Vec<String>)> {
    let id = fields.get("id").and_then(|id| id.parse::<u64>().ok());
    let sweeps = app.sweeps.list();
    let sweep = sweeps.iter().find(|sweep| Some(sweep.id) == id);
    let sweep = sweep.filter(|sweep| sweep.extent.is_seen_by(&visit.user));
    let sweep = sweep.ok_or_else(|| PageError::not_found("there is no such sweep"))?;
    if sweep.owner.user != visit.user.name {
        visit.needs(Role::Admin)?;
    }
    if sweep.ended().is_some() {
        let text = "the sweep is over";
        return Err(PageError::new(StatusCode::CONFLICT, text.to_owned()));
    }
    sweep.stop();
    let targets = sweep.targets.iter();
    let targets = targets.map(|target| {
        let queue = target
            .split_once(", ")
            .map_or(&**target, |(queue, _)| queue);
        format!("{queue}, {}", sweep.what)
    });
    Ok(("The sweep stops.".to_owned(), targets.collect()))
}
