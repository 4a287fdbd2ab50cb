//! Endpoints of one job, and of a queue as a whole.

use axum::http::StatusCode;
use axum::response::Response;
use duly::event::State;
use serde::Serialize;

use super::check::Call;
use super::job::JobView;
use super::{ApiError, Result, dead, job_id};
use crate::auth::Scope;
use crate::http::reply;
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
    call.large(&JobView::found(call, &job, 0)).await
}

/// Acknowledges or recalls a job. What is unknown, or of another queue, is no error.
pub(super) async fn delete(call: &Call<'_>, id: &str) -> Result<Response> {
    may_end(call, id).await?;
    end(call, id).await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// Checks that the token may end a job in the state that it has: whoever publishes recalls what
/// waits, whoever consumes acknowledges what is leased, and an admin drops what is dead.
pub(super) async fn may_end(call: &Call<'_>, id: &str) -> Result<()> {
    if call.may_all() {
        return Ok(());
    }
    let Some(id) = job_id::parse(id) else {
        return Ok(());
    };
    let (queue, now) = (call.queue()?, dead::respawned(call, id).await?);
    for id in [id].into_iter().chain(now) {
        match queue.get(id).await?.map(|found| found.state) {
            Some(State::Scheduled | State::Ready) => call.may(Scope::Publish)?,
            Some(State::Leased) => call.may(Scope::Consume)?,
            Some(State::Dead) => call.may(Scope::Admin)?,
            _ => {}
        }
    }
    Ok(())
}

/// Ends a job in any state.
pub(super) async fn end(call: &Call<'_>, id: &str) -> Result<()> {
    let Some(id) = job_id::parse(id) else {
        return Ok(());
    };
    let queue = call.queue()?;
    let mut was_leased = call.pool.end(&queue, id).await?;
    if !was_leased {
        let now = dead::respawned(call, id).await?;
        for now in &now {
            was_leased |= call.pool.end(&queue, *now).await?;
        }
        if !now.is_empty() {
            dead::forget_respawned(call, id).await?;
        }
    }
    let acked = was_leased.then(|| call.pool.now());
    metrics::ended(&call.labels(), &call.route.queue, id, acked);
    Ok(())
}

pub(super) async fn peek(call: &Call<'_>) -> Result<Response> {
    let queue = call.queue()?;
    let Some(job) = call.step(call.pool.head(&queue)).await? else {
        return Err(ApiError::not_found("the queue is empty"));
    };
    let view = JobView::found(call, &job, job.attempts_left);
    call.large(&view).await
}

#[derive(Serialize)]
struct SizeView<'a> {
    namespace: &'a str,
    queue: &'a str,
    size: usize,
}

pub(super) async fn size(call: &Call<'_>) -> Result<Response> {
    let size = call.pool.size(&call.queue()?).await?;
    Ok(sized(call, size))
}

/// Returns a response with a size.
pub(super) fn sized(call: &Call<'_>, size: usize) -> Response {
    let view = SizeView {
        namespace: &call.route.namespace,
        queue: &call.route.queue,
        size,
    };
    reply::json(StatusCode::OK, &view)
}

pub(super) async fn destroy(call: &mut Call<'_>) -> Result<Response> {
    let (queue, begun, mut place) = (call.queue()?, call.pool.now(), None);
    call.has_begun = true;
    loop {
        let page = call.pool.remove_ready(&queue, begun, place);
        place = call.step(page).await?;
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
