//! Events: push one or many, look up, cancel, reschedule, explain.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::time::{Timestamp, When};
use duly::{Cancelled, Changed, EventBuilder, EventId, Queue, Unique};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::granted;
use super::problem::{Problem, Result};
use crate::auth::Scope;
use crate::bus::{Body, Pool};
use crate::state::App;

/// The most events of one push.
const PUSH_MAX: usize = 1_000;

/// Events to push; with more than one, all are pushed in a few steps of the store.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PushRequest {
    /// 1 to 1,000 events.
    events: Vec<NewEvent>,
}

/// An event to push.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEvent {
    /// Its payload: any JSON.
    #[schema(value_type = Value)]
    payload: Option<Box<RawValue>>,
    /// Its payload in base64, if it is not JSON.
    payload_base64: Option<String>,
    /// The id, 26 characters of a ULID that a push before has returned as `id`, or that
    /// `idempotency_key` names: a repeated push changes nothing.
    #[schema(value_type = Option<String>)]
    id: Option<EventId>,
    /// A name that stands for the id: the same name means the same event.
    idempotency_key: Option<String>,
    /// The delay in milliseconds, counted from the push.
    delay_ms: Option<u64>,
    /// The due time in milliseconds since the epoch.
    due_ms: Option<u64>,
    /// The key by which events are found.
    key: Option<String>,
    /// The key of which only one event waits or runs.
    unique: Option<String>,
    /// Whether an event with the unique key is replaced; otherwise it is kept.
    #[serde(default)]
    replace: bool,
    /// The most attempts.
    attempts: Option<u16>,
    /// When it expires, in milliseconds from the push.
    expires_ms: Option<u64>,
    /// Its headers.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// A pushed event.
#[derive(Serialize, ToSchema)]
struct PushedView {
    id: String,
    due_ms: u64,
    /// Whether it was there already; nothing was changed then.
    duplicate: bool,
}

impl NewEvent {
    fn build(self, queue: &Queue<Body>) -> Result<EventBuilder<Body>> {
        let body = match (self.payload, self.payload_base64) {
            (Some(json), None) => Body::Json(json),
            (None, Some(text)) => {
                let bytes = STANDARD.decode(text);
                Body::Raw(
                    bytes
                        .map_err(|_| Problem::invalid("payload_base64 is no base64"))?
                        .into(),
                )
            }
            _ => {
                return Err(Problem::invalid(
                    "an event has either payload or payload_base64",
                ));
            }
        };
        let mut event = Pool::event(queue, body);
        event = match (self.delay_ms, self.due_ms) {
            (None, None) => event,
            (Some(delay), None) => event.after(Duration::from_millis(delay)),
            (None, Some(due)) => event.at(Timestamp::from_millis(due)),
            _ => return Err(Problem::invalid("an event has either delay_ms or due_ms")),
        };
        event = match (self.id, self.idempotency_key) {
            (None, None) => event,
            (Some(id), None) => event.id(id),
            (None, Some(name)) => event.id(queue.id_for_name(&name)),
            _ => {
                return Err(Problem::invalid(
                    "an event has either id or idempotency_key",
                ));
            }
        };
        if let Some(key) = self.key {
            event = event.key(key);
        }
        if let Some(unique) = self.unique {
            let on_taken = if self.replace {
                Unique::Replace
            } else {
                Unique::Keep
            };
            event = event.unique(unique, on_taken);
        }
        if let Some(attempts) = self.attempts {
            event = event.attempts(attempts);
        }
        if let Some(expires) = self.expires_ms {
            event = event.expires_after(Duration::from_millis(expires));
        }
        for (name, value) in self.headers {
            event = event.header(name, value);
        }
        Ok(event)
    }
}

/// Pushes events.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/events", tag = "events",
    params(("namespace" = String, Path), ("queue" = String, Path)),
    request_body = PushRequest,
    responses((status = 201, body = [PushedView]), (status = "default", body = Problem))
)]
pub(super) async fn push(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    headers: HeaderMap,
    request: std::result::Result<Json<PushRequest>, JsonRejection>,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Publish).await?;
    let Json(PushRequest { events }) = request?;
    if !(1..=PUSH_MAX).contains(&events.len()) {
        let count = events.len();
        return Err(Problem::invalid(format!(
            "{count} events; a push has 1 to {PUSH_MAX}"
        )));
    }
    let handle = pool.queue(&namespace, &queue)?;
    let events = events.into_iter().map(|event| event.build(&handle));
    let events = events.collect::<Result<Vec<_>>>()?;
    app.note_queue(pool.name(), &namespace, &queue).await?;
    let receipts = handle.send_many(events).await?;
    let pushed = receipts.iter().map(|receipt| PushedView {
        id: receipt.id().to_string(),
        due_ms: receipt.due().as_millis(),
        duplicate: receipt.is_duplicate(),
    });
    Ok((StatusCode::CREATED, Json(pushed.collect::<Vec<_>>())).into_response())
}

/// The path of an event.
pub(super) type EventPath = Path<(String, String, String)>;

fn id_of(text: &str) -> Result<EventId> {
    Ok(text.parse::<EventId>()?)
}

/// Returns an event that is not over.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/events/{id}", tag = "events",
    params(("namespace" = String, Path), ("queue" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = Value), (status = "default", body = Problem))
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Path((namespace, queue, id)): EventPath,
    headers: HeaderMap,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let found = pool
        .get(&pool.queue(&namespace, &queue)?, id_of(&id)?)
        .await?;
    let found = found.ok_or_else(|| Problem::not_found(format!("no event {id} waits or runs")))?;
    let view = json!({
        "id": found.id.to_string(),
        "state": found.state,
        "attempts_left": found.attempts_left,
        "expires_ms": found.expires.map(Timestamp::as_millis),
        "headers": found.headers.into_iter().collect::<BTreeMap<_, _>>(),
        "payload_base64": STANDARD.encode(&found.body),
    });
    Ok(Json(view).into_response())
}

/// Cancels an event that waits.
#[utoipa::path(
    delete, path = "/v1/{namespace}/queues/{queue}/events/{id}", tag = "events",
    params(("namespace" = String, Path), ("queue" = String, Path), ("id" = String, Path)),
    responses((status = 204), (status = 409, body = Problem), (status = "default", body = Problem))
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Path((namespace, queue, id)): EventPath,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Publish).await?;
    match pool.queue(&namespace, &queue)?.cancel(id_of(&id)?).await? {
        Cancelled::NotFound => Err(Problem::not_found(format!("no event has the id {id}"))),
        Cancelled::TooLate(state) => Err(Problem::conflict(format!("the event is {state}"))),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

/// Another due time.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RescheduleRequest {
    /// The delay from now, in milliseconds.
    delay_ms: Option<u64>,
    /// The due time in milliseconds since the epoch.
    due_ms: Option<u64>,
}

/// Changes the due time of an event that waits.
#[utoipa::path(
    patch, path = "/v1/{namespace}/queues/{queue}/events/{id}", tag = "events",
    params(("namespace" = String, Path), ("queue" = String, Path), ("id" = String, Path)),
    request_body = RescheduleRequest,
    responses((status = 200, body = Value), (status = "default", body = Problem))
)]
pub(super) async fn reschedule(
    State(app): State<Arc<App>>,
    Path((namespace, queue, id)): EventPath,
    headers: HeaderMap,
    request: std::result::Result<Json<RescheduleRequest>, JsonRejection>,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Publish).await?;
    let Json(request) = request?;
    let when = match (request.delay_ms, request.due_ms) {
        (Some(delay), None) => When::After(Duration::from_millis(delay)),
        (None, Some(due)) => When::At(Timestamp::from_millis(due)),
        _ => return Err(Problem::invalid("give either delay_ms or due_ms")),
    };
    match pool
        .queue(&namespace, &queue)?
        .reschedule(id_of(&id)?, when)
        .await?
    {
        Changed::Changed(due) | Changed::ChangedAfterAttempt(due) => {
            Ok(Json(json!({"due_ms": due.as_millis()})).into_response())
        }
        Changed::TooLate(state) => Err(Problem::conflict(format!("the event is {state}"))),
        _ => Err(Problem::not_found(format!("no event has the id {id}"))),
    }
}

/// Explains where an event is, and what it waits for.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/events/{id}/explanation", tag = "events",
    params(("namespace" = String, Path), ("queue" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = Value), (status = "default", body = Problem))
)]
pub(super) async fn explain(
    State(app): State<Arc<App>>,
    Path((namespace, queue, id)): EventPath,
    headers: HeaderMap,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let name = pool.queue(&namespace, &queue)?.name().clone();
    let explained = pool.bus().explain(id_of(&id)?).await?;
    // The id alone finds an event; a token is for its own queue.
    if explained.queue.as_ref() != Some(&name) {
        return Err(Problem::not_found(format!(
            "no event of the queue has the id {id}"
        )));
    }
    let view = json!({
        "id": id,
        "state": explained.state,
        "due_ms": explained.due.map(Timestamp::as_millis),
        "tries": explained.tries,
        "text": explained.to_string(),
        "advice": explained.advice(),
    });
    Ok(Json(view).into_response())
}
