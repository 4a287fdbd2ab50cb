//! Events: push one or many, look up, cancel, reschedule, update, explain.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duly::explain::Reason;
use duly::time::{Timestamp, When};
use duly::{CancelOutcome, ChangeOutcome, Error, EventId, Receipt};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::access::{self, granted, granted_any, granted_call, granted_json};
use super::event::{NewEvent, PushedEvent, not_pushed, payload, when};
use super::input::{self, EventPath, InPath, QueuePath};
use super::problem::{Problem, Problems, Result};
use super::push_lines;
use crate::api::{ChangedEvent, EventView, Explanation};
use crate::auth::{Action, LimitedCall, Scope};
use crate::bus::Pool;
use crate::state::App;

/// The most events of one push.
const PUSH_MAX: usize = 1_000;

/// Events to push; with more than one, all are pushed in a few steps of the store.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PushRequest {
    /// The events, 1 to 1,000.
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<NewEvent>,
}

/// Pushes events
///
/// A body of `application/x-ndjson` is that of `pushEventLines`.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/events", operation_id = "pushEvents",
    tag = "events", params(QueuePath),
    request_body(description = "The events", content = PushRequest),
    responses(
        (status = 201, description = "Every event is stored", body = [PushedEvent]),
        (status = 207, description = "Not every event is stored: a result for each, in their order",
            body = [PushResult]),
        Problems)
)]
pub(super) async fn push(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let (pool, grant) = granted_call(&app, &headers, &namespace, &queue, Action::Produce).await?;
    if input::media_type(&headers) == push_lines::MEDIA_TYPE {
        return push_lines::begin(&app, pool, &grant, (&namespace, &queue), body).await;
    }
    let handle = pool.queue(&namespace, &queue)?;
    let PushRequest { events } = input::json(&app, &grant, &headers, body).await?;
    if !(1..=PUSH_MAX).contains(&events.len()) {
        let count = events.len();
        return Err(Problem::invalid(format!(
            "{count} events; a push has 1 to {PUSH_MAX}"
        )));
    }
    let events = events.into_iter().map(|event| event.build(&handle));
    let events = events.collect::<Result<Vec<_>>>()?;
    let taken = grant.take(&app).await?;
    app.note_queue(pool.name(), &namespace, &queue).await?;
    let pushed = handle
        .push_many(events, When::Now)
        .each()
        .await
        .map_err(not_pushed)?;
    if pushed.iter().any(|pushed| pushed.is_ok()) {
        taken.into_iter().for_each(LimitedCall::keep);
    }
    Ok(responded(pushed))
}

/// Returns the response to a push: every event is stored, or none, or a result for each.
fn responded(pushed: Vec<duly::Result<Receipt>>) -> Response {
    let count = pushed.len();
    let results = pushed.into_iter().map(|pushed| match pushed {
        Ok(receipt) => PushResult::Pushed(PushedEvent::from(&receipt)),
        Err(error) => PushResult::Refused {
            problem: not_pushed(error),
        },
    });
    let mut results: Vec<PushResult> = results.collect();
    let refused = results
        .iter()
        .filter(|result| matches!(result, PushResult::Refused { .. }));
    match refused.count() {
        0 => (StatusCode::CREATED, Json(results)).into_response(),
        refused if refused == count && count == 1 => match results.pop() {
            Some(PushResult::Refused { problem }) => problem.into_response(),
            other => Json(other).into_response(),
        },
        _ => (StatusCode::MULTI_STATUS, Json(results)).into_response(),
    }
}

/// What became of an event of a push.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum PushResult {
    /// It is stored.
    Pushed(PushedEvent),
    /// It is not stored; or it may be, where the kind is `unknown`: pushing it again under the same `id`
    /// or `idempotency_key` stores it once.
    Refused {
        /// Why.
        problem: Problem,
    },
}

/// Returns an event that is not over
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/events/{id}", operation_id = "getEvent",
    tag = "events", params(EventPath),
    responses((status = 200, description = "The event", body = EventView), Problems)
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    InPath(path): InPath<EventPath>,
    headers: HeaderMap,
) -> Result<Response> {
    let scopes = [Scope::Consume, Scope::Publish];
    let pool = granted_any(&app, &headers, &path.namespace, &path.queue, &scopes).await?;
    let handle = pool.queue(&path.namespace, &path.queue)?;
    let found = pool.get_event(&handle, path.id()?).await?;
    let found =
        found.ok_or_else(|| Problem::not_found(format!("no event {} waits or runs", path.id)))?;
    access::large(
        &app,
        &headers,
        (pool, &path.namespace),
        &EventView::from(found),
    )
    .await
}

/// Whose change it is.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeQuery {
    /// Whether it is one of an operator, which needs the scope `admin` and has a line in the audit. Default:
    /// one of a program, which needs `publish`: what it does to its own events is its business.
    #[param(example = true)]
    audited: Option<bool>,
}

impl ChangeQuery {
    fn is_audited(&self) -> bool {
        self.audited == Some(true)
    }

    fn scope(query: &std::result::Result<Query<Self>, QueryRejection>) -> Scope {
        if query.as_ref().is_ok_and(|query| query.is_audited()) {
            Scope::Admin
        } else {
            Scope::Publish
        }
    }

    /// Adds what was done to an event to the audit, if it is to be there.
    async fn audit(
        &self,
        (app, headers): (&App, &HeaderMap),
        action: &str,
        (pool, path, id): (&Pool, &EventPath, EventId),
    ) {
        if self.is_audited() {
            let target = format!("{}/{id}", path.queue);
            let place = (pool, path.namespace.as_str(), target.as_str());
            access::audit(app, headers, action, place).await;
        }
    }
}

/// Cancels an event that waits
#[utoipa::path(
    delete, path = "/v1/{namespace}/queues/{queue}/events/{id}", operation_id = "cancelEvent",
    tag = "events", params(EventPath, ChangeQuery),
    responses((status = 204, description = "The event is cancelled"), Problems)
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    InPath(path): InPath<EventPath>,
    headers: HeaderMap,
    query: std::result::Result<Query<ChangeQuery>, QueryRejection>,
) -> Result<StatusCode> {
    let scope = ChangeQuery::scope(&query);
    let pool = granted(&app, &headers, &path.namespace, &path.queue, scope).await?;
    let Query(query) = query?;
    let (handle, id) = (pool.queue(&path.namespace, &path.queue)?, path.id()?);
    match handle.cancel(id).await? {
        CancelOutcome::NotFound => return Err(unknown(&path)),
        CancelOutcome::TooLate(state) => return Err(too_late(&path, state)),
        _ => {}
    }
    let event = (pool, &path, id);
    query
        .audit((&app, &headers), "event cancelled", event)
        .await;
    Ok(StatusCode::NO_CONTENT)
}

fn too_late(path: &EventPath, state: duly::event::State) -> Problem {
    Problem::conflict(format!("event {} is {state}", path.id))
}

fn unknown(path: &EventPath) -> Problem {
    Problem::not_found(format!("no event of the queue has the id {}", path.id))
}

/// Returns the problem of an event that was not found: the store may have failed to answer, and then it
/// may be there.
fn not_found(explained: &duly::explain::Explanation, path: &EventPath) -> Problem {
    let away = explained.reasons.iter().find_map(|reason| match reason {
        Reason::StoreAway { kind, error } => Some(Error::new(*kind, error.clone())),
        _ => None,
    });
    away.map_or_else(|| unknown(path), Problem::from)
}

/// A change of an event that waits: another due time, or another payload.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventChange {
    /// The delay from now, in milliseconds.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4294967295000u64, example = 60000)]
    delay_ms: Option<u64>,
    /// The due time in milliseconds since the epoch; a past one means at once.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, example = 1767225600000u64)]
    due_ms: Option<u64>,
    /// The payload: any JSON.
    #[serde(default, deserialize_with = "input::any_json")]
    #[schema(value_type = Option<serde_json::Value>, example = json!({"order": 8}))]
    payload: Option<Box<RawValue>>,
    /// The payload in base64, if it is not JSON.
    #[schema(
        pattern = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
        max_length = 1398104,
        example = "aGVsbG8="
    )]
    payload_base64: Option<String>,
}

fn changed(path: &EventPath, changed: ChangeOutcome) -> Result<Timestamp> {
    match changed {
        ChangeOutcome::Changed(due) | ChangeOutcome::ChangedAfterAttempt(due) => Ok(due),
        ChangeOutcome::TooLate(state) => Err(too_late(path, state)),
        _ => Err(unknown(path)),
    }
}

/// Reschedules or updates an event that waits
///
/// The change of both is made in two steps, the payload first; a problem of the second says that the
/// first was made.
#[utoipa::path(
    patch, path = "/v1/{namespace}/queues/{queue}/events/{id}", operation_id = "changeEvent",
    tag = "events", params(EventPath, ChangeQuery), request_body = EventChange,
    responses((status = 200, description = "The event is changed", body = ChangedEvent), Problems)
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    InPath(path): InPath<EventPath>,
    headers: HeaderMap,
    query: std::result::Result<Query<ChangeQuery>, QueryRejection>,
    body: HttpBody,
) -> Result<Response> {
    let place = (path.namespace.as_str(), path.queue.as_str());
    let granted = granted_json(&app, &headers, place, ChangeQuery::scope(&query), body);
    let (pool, change): (_, EventChange) = granted.await?;
    let Query(query) = query?;
    let when = when(change.delay_ms, change.due_ms)?;
    let body = match (change.payload, change.payload_base64) {
        (None, None) => None,
        (json, base64) => Some(payload(json, base64)?),
    };
    let (handle, id) = (pool.queue(&path.namespace, &path.queue)?, path.id()?);
    let mut due = None;
    if let Some(body) = body {
        due = Some(changed(&path, Pool::update(&handle, id, &body).await?)?);
        let action = "payload of event replaced";
        query
            .audit((&app, &headers), action, (pool, &path, id))
            .await;
    }
    if let Some(when) = when {
        let rescheduled = handle.reschedule(id, when).await;
        let rescheduled = rescheduled.map_err(Problem::from);
        let rescheduled = rescheduled.and_then(|it| changed(&path, it));
        due = Some(rescheduled.map_err(|problem| match due {
            Some(_) => problem.after("the payload is changed, the due time is not"),
            None => problem,
        })?);
        let action = "event rescheduled";
        query
            .audit((&app, &headers), action, (pool, &path, id))
            .await;
    }
    let due = due.ok_or_else(|| {
        Problem::invalid("nothing to change; give delay_ms, due_ms, payload or payload_base64")
    })?;
    let due_ms = due.as_millis();
    Ok(Json(ChangedEvent { due_ms }).into_response())
}

/// Explains where an event is, and what it waits for; also one that is over
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/explanations/{id}",
    operation_id = "explainEvent", tag = "events", params(EventPath),
    responses((status = 200, description = "The explanation", body = Explanation), Problems)
)]
pub(super) async fn explain(
    State(app): State<Arc<App>>,
    InPath(path): InPath<EventPath>,
    headers: HeaderMap,
) -> Result<Response> {
    let scopes = [Scope::Consume, Scope::Publish];
    let pool = granted_any(&app, &headers, &path.namespace, &path.queue, &scopes).await?;
    let name = pool.queue(&path.namespace, &path.queue)?.name().clone();
    // Another namespace may have an event under the same id.
    let explained = pool.bus().explain_in(name.as_str(), path.id()?).await?;
    if explained.queue.as_ref() != Some(&name) {
        return Err(not_found(&explained, &path));
    }
    Ok(Json(Explanation::from(&explained)).into_response())
}
