//! Schedules: listed, shown, set, paused, resumed, run and removed.
//!
//! The schedule `nightly` of the namespace `shop` is the schedule `shop.nightly` of the library, and
//! pushes to a queue of the namespace. Any other is none of it.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duly::ErrorKind;
use duly::admin::{Schedule, Schedules};

use super::access::{
    self, granted_call, granted_namespace, granted_namespace_json, granted_namespace_lasting,
};
use super::input::{InPath, NamespacePath};
use super::problem::{Problem, Problems, Result};
use super::schedule_forms::{ScheduleBody, SchedulePageQuery, SchedulePath};
use crate::admission::Work;
use crate::api::{Run, SchedulePage, ScheduleView};
use crate::auth::{Action, Grant, LimitedCall, Scope};
use crate::bus::Pool;
use crate::lmstfy::names::is_name;
use crate::schedules::{self, PAGE_MAX};
use crate::state::App;

/// The scopes of which a token needs one to see a schedule.
const SEES: [Scope; 2] = [Scope::Consume, Scope::Admin];

/// Returns the name of a schedule and that of its queue within a namespace, if both are in it.
fn within<'a>(namespace: &str, schedule: &'a Schedule) -> Option<(&'a str, &'a str)> {
    let own = |name: &'a str| {
        let name = name.strip_prefix(namespace)?.strip_prefix('.')?;
        is_name(name).then_some(name)
    };
    let queue = schedule.options.queue().as_str();
    Some((own(&schedule.name)?, own(queue)?))
}

/// Returns a schedule that a token may do something to. One that it may not see is not there.
async fn found(
    (pool, grant): (&Pool, &Grant),
    path: &SchedulePath,
    scopes: &[Scope],
) -> Result<Schedule> {
    let schedule = pool.bus().schedules().get(&path.full_name()?).await?;
    let schedule = schedule.ok_or_else(|| path.unknown())?;
    let (_, queue) = within(&path.namespace, &schedule).ok_or_else(|| path.unknown())?;
    if !grant.is_for(queue) {
        return Err(path.unknown());
    }
    grant.allows_any(scopes, queue)?;
    Ok(schedule)
}

/// Returns what changes the schedules of the queues for which a token has a scope: another one may
/// come between the look at a schedule and its change.
fn confined((pool, grant): (&Pool, &Arc<Grant>), namespace: &str, scope: Scope) -> Schedules {
    let (grant, prefix) = (Arc::clone(grant), format!("{namespace}."));
    pool.bus().schedules().only(move |queue| {
        let queue = queue.as_str().strip_prefix(&prefix);
        queue.is_some_and(|queue| is_name(queue) && grant.allows(scope, queue).is_ok())
    })
}

fn view(namespace: &str, schedule: &Schedule) -> Option<ScheduleView> {
    let (name, queue) = within(namespace, schedule)?;
    Some(ScheduleView::new(name, queue, schedule))
}

async fn audit(app: &App, headers: &HeaderMap, action: &str, (pool, path): (&Pool, &SchedulePath)) {
    let schedule = format!("schedules/{}", path.schedule);
    access::audit(app, headers, action, (pool, &path.namespace, &schedule)).await;
}

/// What is done to a schedule.
#[derive(Clone, Copy)]
enum Change {
    Pause,
    Resume,
    Remove,
}

impl Change {
    /// Makes it, and notes it in the audit.
    async fn make(self, app: &App, headers: &HeaderMap, path: &SchedulePath) -> Result<StatusCode> {
        let (pool, grant) = granted_namespace(app, headers, &path.namespace).await?;
        let name = found((pool, &grant), path, Scope::Admin.alone())
            .await?
            .name;
        let schedules = confined((pool, &grant), &path.namespace, Scope::Admin);
        let (done, action) = match self {
            Self::Pause => (schedules.pause(&name).await, "schedule paused"),
            Self::Resume => (schedules.resume(&name).await, "schedule resumed"),
            Self::Remove => {
                if !schedules.remove(&name).await? {
                    return Err(path.unknown());
                }
                (Ok(()), "schedule removed")
            }
        };
        done.map_err(|error| path.failed(error))?;
        audit(app, headers, action, (pool, path)).await;
        Ok(StatusCode::NO_CONTENT)
    }
}

/// Lists the schedules of a namespace, page by page
///
/// Those whose queue the token may consume or administer, by name.
#[utoipa::path(
    get, path = "/v1/{namespace}/schedules", operation_id = "listSchedules", tag = "schedules",
    params(NamespacePath, SchedulePageQuery),
    responses((status = 200, description = "A page of schedules", body = SchedulePage), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
    page: std::result::Result<Query<SchedulePageQuery>, QueryRejection>,
) -> Result<Response> {
    let scope = Scope::Consume;
    let (pool, grant) = granted_namespace_lasting(&app, &headers, &namespace, scope).await?;
    let Query(SchedulePageQuery { after, limit }) = page?;
    let limit = limit.unwrap_or(100);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {PAGE_MAX}"
        )));
    }
    if let Some(after) = &after
        && !is_name(after)
    {
        let why = "after is no name of a schedule; it must be the `next` of the page before";
        return Err(Problem::invalid(why));
    }
    let after = after.map(|after| format!("{namespace}.{after}"));
    let is_seen = |schedule: &Schedule, grant: &Grant| {
        let queue = within(&namespace, schedule).map(|(_, queue)| queue);
        queue.is_some_and(|queue| grant.allows_any(&SEES, queue).is_ok())
    };
    let read = async {
        let allowed = grant.check(&app.tokens).await?;
        let of = Some(namespace.as_str());
        let is_seen = |schedule: &Schedule| is_seen(schedule, &allowed);
        Ok(schedules::page(pool.bus(), of, is_seen, after.as_deref(), limit).await?)
    };
    let (page, grant) = access::step(&app, Work::Read, &grant, read).await?;
    let items = page.items.iter().filter(|it| is_seen(it, &grant));
    let items: Vec<_> = items.filter_map(|it| view(&namespace, it)).collect();
    let next = page.next.as_deref();
    let next = next.and_then(|next| next.strip_prefix(&namespace)?.strip_prefix('.'));
    let next = next.map(str::to_owned);
    access::large(
        &app,
        &headers,
        (pool, &namespace),
        &SchedulePage { items, next },
    )
    .await
}

/// Returns a schedule: its options, its next instants, and why
#[utoipa::path(
    get, path = "/v1/{namespace}/schedules/{schedule}", operation_id = "getSchedule",
    tag = "schedules", params(SchedulePath),
    responses((status = 200, description = "The schedule", body = ScheduleView), Problems)
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    InPath(path): InPath<SchedulePath>,
    headers: HeaderMap,
) -> Result<Response> {
    let (pool, grant) = granted_namespace(&app, &headers, &path.namespace).await?;
    let schedule = found((pool, &grant), &path, &SEES).await?;
    let view = view(&path.namespace, &schedule).ok_or_else(|| path.unknown())?;
    Ok(Json(view).into_response())
}

/// Makes a schedule, or gives it other options
///
/// Its first occurrence is its first instant from now on. A paused one stays paused. Occurrences
/// that are due already are not concerned.
#[utoipa::path(
    put, path = "/v1/{namespace}/schedules/{schedule}", operation_id = "setSchedule",
    tag = "schedules", params(SchedulePath), request_body = ScheduleBody,
    responses(
        (status = 200, description = "It was changed", body = ScheduleView),
        (status = 201, description = "It was created", body = ScheduleView),
        Problems
    )
)]
pub(super) async fn set(
    State(app): State<Arc<App>>,
    InPath(path): InPath<SchedulePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let (pool, (_, grant), body): (_, _, ScheduleBody) =
        granted_namespace_json(&app, &headers, &path.namespace, Scope::Admin, body).await?;
    let name = path.full_name()?;
    let options = body.options(&path.namespace)?;
    let queue = options.queue().as_str();
    let queue = queue.split_once('.').map_or(queue, |(_, queue)| queue);
    grant.allows(Scope::Admin, queue)?;
    // It pushes, for longer than the token lasts.
    grant.allows(Scope::Publish, queue)?;
    if grant.limits(Action::Produce) {
        let text = "a token with a limit of pushes sets no schedule, whose pushes no limit counts";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", text));
    }
    // A schedule of another queue must not be taken over by whoever has no right to that queue.
    let schedules = confined((pool, &grant), &path.namespace, Scope::Admin);
    let before = schedules.get(&name).await?;
    app.note_queue(pool.name(), &path.namespace, queue).await?;
    let set = schedules.set(&name, options.clone()).await;
    if let Err(error) = set {
        // Or a bus that works on it does not end.
        let is_taken = error.kind() == ErrorKind::Conflict
            && pool.bus().schedules().get(&name).await?.is_some_and(|it| {
                let of = it.options.queue().as_str();
                let of = of.split_once('.').map_or(of, |(_, queue)| queue);
                grant.allows(Scope::Admin, of).is_err()
            });
        if is_taken {
            let text = "the name is taken by a schedule of a queue that the token is not for";
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", text));
        }
        return Err(error.into());
    }
    audit(&app, &headers, "schedule set", (pool, &path)).await;
    let schedule = schedules.get(&name).await?;
    // Somebody may have removed it at once, or made it one of a queue that the token is not for.
    let is_seen = |it: &Schedule| {
        let of = within(&path.namespace, it).map(|(_, queue)| queue);
        of.is_some_and(|of| grant.allows(Scope::Admin, of).is_ok())
    };
    let schedule = schedule.filter(is_seen);
    let view = schedule.and_then(|it| view(&path.namespace, &it));
    let view = view.ok_or_else(|| path.unknown())?;
    let status = match before {
        Some(_) => StatusCode::OK,
        None => StatusCode::CREATED,
    };
    Ok((status, Json(view)).into_response())
}

/// Pauses a schedule: it pushes nothing until it is resumed
#[utoipa::path(
    post, path = "/v1/{namespace}/schedules/{schedule}/pause", operation_id = "pauseSchedule",
    tag = "schedules", params(SchedulePath),
    responses((status = 204, description = "It is paused"), Problems)
)]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    InPath(path): InPath<SchedulePath>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    Change::Pause.make(&app, &headers, &path).await
}

/// Resumes a paused schedule; what it missed is made up for as it says
#[utoipa::path(
    post, path = "/v1/{namespace}/schedules/{schedule}/resume", operation_id = "resumeSchedule",
    tag = "schedules", params(SchedulePath),
    responses((status = 204, description = "It is resumed"), Problems)
)]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    InPath(path): InPath<SchedulePath>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    Change::Resume.make(&app, &headers, &path).await
}

/// Removes a schedule, and cancels what it has pushed that is to come
#[utoipa::path(
    delete, path = "/v1/{namespace}/schedules/{schedule}", operation_id = "removeSchedule",
    tag = "schedules", params(SchedulePath),
    responses((status = 204, description = "It is removed"), Problems)
)]
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    InPath(path): InPath<SchedulePath>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    Change::Remove.make(&app, &headers, &path).await
}

/// Pushes an occurrence of a schedule now, beside those of its calendar
///
/// Also of a paused one. It is a push to the queue of the schedule, so the token needs the right to
/// push there, and its limit counts it.
#[utoipa::path(
    post, path = "/v1/{namespace}/schedules/{schedule}/run", operation_id = "runSchedule",
    tag = "schedules", params(SchedulePath),
    responses((status = 201, description = "It is pushed", body = Run), Problems)
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    InPath(path): InPath<SchedulePath>,
    headers: HeaderMap,
) -> Result<Response> {
    let (pool, grant) = granted_namespace(&app, &headers, &path.namespace).await?;
    let schedule = found((pool, &grant), &path, Scope::Publish.alone()).await?;
    let (_, queue) = within(&path.namespace, &schedule).ok_or_else(|| path.unknown())?;
    let call = granted_call(&app, &headers, &path.namespace, queue, Action::Produce);
    let (_, call) = call.await?;
    let taken = call.take(&app).await?;
    app.note_queue(pool.name(), &path.namespace, queue).await?;
    let schedules = pool.bus().schedules();
    let of = schedule.options.queue().clone();
    let schedules = schedules.only(move |queue| *queue == of);
    let run = schedules.run_now(&schedule.name).await;
    let id = run.map_err(|error| path.failed(error))?.to_string();
    taken.into_iter().for_each(LimitedCall::keep);
    audit(&app, &headers, "schedule run", (pool, &path)).await;
    let queue = queue.to_owned();
    Ok((StatusCode::CREATED, Json(Run { id, queue })).into_response())
}
