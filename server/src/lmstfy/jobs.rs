//! Endpoints of one job, and of a queue as a whole.

use std::ops::ControlFlow;

use axum::http::StatusCode;
use axum::response::Response;
use duly::EventId;

use super::check::Call;
use super::ends::{self, EndStep};
use super::job::{self, JobView};
use super::{ApiError, Result, respawn_notes};
use crate::admission::Work;
use crate::http::reply;
use crate::job_id;
use crate::metrics;

pub(super) async fn get(call: &Call<'_>, id: &str) -> Result<Response> {
    let none = || ApiError::not_found("job not found");
    let id = job_id::parse(id).ok_or_else(none)?;
    let queue = call.queue()?;
    let mut found = call.pool.get(&queue, id).await?;
    if found.is_none() {
        for id in respawn_notes::of(call, id).await? {
            found = call.pool.get(&queue, id).await?;
            if found.is_some() {
                break;
            }
        }
    }
    let job = found.ok_or_else(none)?;
    let known = respawn_notes::known_id(call, &call.route.queue, job.id, &job.headers).await?;
    call.large(&JobView::found(call, &job, known, 0)).await
}

/// Acknowledges or recalls a job. What is unknown, or of another queue, is no error.
pub(super) async fn delete(call: &Call<'_>, id: &str) -> Result<Response> {
    if let Some(id) = job_id::parse(id) {
        let ended = end_step(call, id).all(vec![id]).await?;
        ended.successors?;
        count_end(call, id, ended.was_leased);
    }
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

fn end_step<'a, 'c>(call: &'a Call<'c>, known: EventId) -> EndStep<'a, 'c> {
    EndStep {
        call,
        known,
        needs_right: true,
    }
}

fn count_end(call: &Call<'_>, id: EventId, was_leased: bool) {
    let acked = was_leased.then(|| call.pool.now());
    metrics::ended(&call.labels(), &call.route.queue, id, acked);
}

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
            events.extend(respawn_notes::of(call, id).await?);
        }
        let queue = call.queue()?;
        let mut is_there = false;
        for id in &events {
            if let Some(found) = queue.get(*id).await?
                && !found.state.is_final()
            {
                ends::permitted(call, found.state)?;
                is_there = true;
            }
        }
        Ok(Self { events, is_there })
    }

    /// Ends them, if the token may do so, once there is another one in their place.
    pub(super) async fn end(self, call: &Call<'_>) -> Result<()> {
        let Some(id) = self.events.first().copied() else {
            return Ok(());
        };
        let ended = end_step(call, id).all(self.events).await?;
        match ended.successors {
            Err(refusal @ ApiError::Refused(StatusCode::FORBIDDEN, _)) => return Err(refusal),
            // The old job has ended: with an error the client would send again, and make one more.
            Err(error) => tracing::warn!(%id, ?error, "not known whether a job was respawned"),
            Ok(()) => {}
        }
        count_end(call, id, ended.was_leased);
        Ok(())
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
    let known = respawn_notes::known_id(call, &call.route.queue, job.id, &job.headers).await?;
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
