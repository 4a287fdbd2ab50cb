//! Endpoints of one job, and of a queue as a whole.

use std::ops::ControlFlow;

use axum::http::StatusCode;
use axum::response::Response;
use duly::event::State;
use duly::{EventId, Queue};

use super::check::Call;
use super::job::{self, JobView};
use super::{ApiError, Result, dead};
use crate::admission::Work;
use crate::auth::Scope;
use crate::bus::{Body, JobEnd};
use crate::http::reply;
use crate::job_id;
use crate::metrics;

pub(super) async fn get(call: &Call<'_>, id: &str) -> Result<Response> {
    let none = || ApiError::not_found("job not found");
    let id = job_id::parse(id).ok_or_else(none)?;
    let queue = call.queue()?;
    let mut found = call.pool.get(&queue, id).await?;
    if found.is_none() {
        for id in dead::respawned(call, id).await? {
            found = call.pool.get(&queue, id).await?;
            if found.is_some() {
                break;
            }
        }
    }
    let job = found.ok_or_else(none)?;
    let known = dead::known_id(call, &call.route.queue, job.id, &job.headers).await?;
    call.large(&JobView::found(call, &job, known, 0)).await
}

/// Acknowledges or recalls a job. What is unknown, or of another queue, is no error.
pub(super) async fn delete(call: &Call<'_>, id: &str) -> Result<Response> {
    end(call, id).await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// Returns the scope that ends a job in a state: whoever publishes recalls what waits, whoever consumes
/// acknowledges what is leased, and an admin drops what is dead.
fn scope_of(state: State) -> Option<Scope> {
    match state {
        State::Scheduled | State::Ready => Some(Scope::Publish),
        State::Leased => Some(Scope::Consume),
        State::Dead => Some(Scope::Admin),
        _ => None,
    }
}

/// How many events of one job a republish ends: each but the first has died and was respawned meanwhile.
const RESPAWNED_MAX: usize = 16;

/// The events that an id of a job means: its own, and those that a respawn has put in its place.
#[derive(Debug)]
pub(super) struct Replaced {
    events: Vec<EventId>,
    /// Whether one of them is there.
    pub(super) is_there: bool,
}

impl Replaced {
    /// Looks for a job that the token may end, before there is another one in its place.
    pub(super) async fn find(call: &Call<'_>, id: &str) -> Result<Self> {
        let mut events = Vec::new();
        if let Some(id) = job_id::parse(id) {
            events.push(id);
            events.extend(dead::respawned(call, id).await?);
        }
        let queue = call.queue()?;
        let mut is_there = false;
        for id in &events {
            let found = queue.get(*id).await?.map(|found| found.state);
            if let Some(scope) = found.and_then(scope_of) {
                call.may(scope)?;
                is_there = true;
            }
        }
        Ok(Self { events, is_there })
    }

    /// Ends them, in whatever state they are, if the token may do so in that state; and what a respawn
    /// has put in their place since the look.
    pub(super) async fn end(self, call: &Call<'_>) -> Result<()> {
        let (queue, mut was_leased) = (call.queue()?, false);
        let Self { mut events, .. } = self;
        let Some(id) = events.first().copied() else {
            return Ok(());
        };
        let (mut ended, mut is_unsure) = (0, false);
        while let Some(event) = events.get(ended).copied() {
            was_leased |= end_event(call, &queue, event).await?;
            ended += 1;
            if ended == events.len() && ended < RESPAWNED_MAX {
                // The old job has ended: with an error the client would send again, and make one more.
                let now = dead::respawned(call, id).await.unwrap_or_else(|error| {
                    tracing::warn!(%id, ?error, "not looked whether a job was respawned meanwhile");
                    is_unsure = true;
                    Vec::new()
                });
                let now = now.into_iter().filter(|now| !events.contains(now));
                let now: Vec<_> = now.collect();
                events.extend(now);
            }
        }
        // A note that stays is one of those that a later respawn looks at. A respawn that is under way
        // takes back what it pushes where its own is gone.
        if (ended > 1 || is_unsure)
            && let Err(error) = dead::forget_respawned(call, id).await
        {
            tracing::warn!(%id, ?error, "note of a respawned job not removed");
        }
        let acked = was_leased.then(|| call.pool.now());
        metrics::ended(&call.labels(), &call.route.queue, id, acked);
        Ok(())
    }
}

/// Ends a job, in whatever state it is, if the token may do so in that state.
pub(super) async fn end(call: &Call<'_>, id: &str) -> Result<()> {
    let Some(id) = job_id::parse(id) else {
        return Ok(());
    };
    let queue = call.queue()?;
    let mut was_leased = end_event(call, &queue, id).await?;
    if !was_leased {
        let now = dead::respawned(call, id).await?;
        for now in &now {
            was_leased |= end_event(call, &queue, *now).await?;
        }
        if !now.is_empty() {
            dead::forget_respawned(call, id).await?;
        }
    }
    let acked = was_leased.then(|| call.pool.now());
    metrics::ended(&call.labels(), &call.route.queue, id, acked);
    Ok(())
}

/// Ends an event of a job, if the token may; returns whether it was leased.
async fn end_event(call: &Call<'_>, queue: &Queue<Body>, id: EventId) -> Result<bool> {
    let check = |state| scope_of(state).map_or(Ok(()), |scope| call.may(scope));
    match call
        .pool
        .end(queue, id, |state| check(state).is_ok())
        .await?
    {
        JobEnd::Refused(state) => check(state).map(|()| false),
        end => Ok(end == JobEnd::Acked),
    }
}

pub(super) async fn peek(call: &Call<'_>) -> Result<Response> {
    let queue = call.queue()?;
    let (steps, mut search) = (call.admit(Work::Read)?, call.pool.head(&queue));
    let found = loop {
        if let ControlFlow::Break(found) = steps.step(search.page()).await? {
            break found;
        }
    };
    let Some(job) = found else {
        return Err(ApiError::not_found("the queue is empty"));
    };
    let known = dead::known_id(call, &call.route.queue, job.id, &job.headers).await?;
    let view = JobView::found(call, &job, known, job.attempts_left);
    call.large(&view).await
}

pub(super) async fn size(call: &Call<'_>) -> Result<Response> {
    let size = call.pool.stats(&call.queue()?).await?.ready;
    Ok(job::sized(call, size))
}

pub(super) async fn destroy(call: &mut Call<'_>) -> Result<Response> {
    let (queue, begun, mut place) = (call.queue()?, call.pool.now(), None);
    let steps = call.admit(Work::Change)?;
    call.has_begun = true;
    loop {
        let page = call.pool.remove_ready(&queue, begun, place);
        place = steps.step(page).await?;
        if place.is_none() {
            break;
        }
    }
    let route = &call.route;
    let pool = call.pool.name();
    call.app
        .forget_queue(pool, &route.namespace, &route.queue)
        .await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}
