//! Calls: push an event and wait for the reply of its consumer, which the library stores and looks up.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duly::__server::replies::{self, ReplyStatus};
use duly::__server::timing::Backoff;
use duly::event::CALL_HEADER;
use duly::{EventId, Queue};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::access::{CallGrant, counted, granted_call};
use super::event::{NewEvent, not_pushed};
use super::input::{self, EventPath, InPath, QueuePath};
use super::problem::{Problem, Problems, Result};
use crate::auth::Action;
use crate::bus::Body;
use crate::http::reply::json_text;
use crate::lmstfy::delivered::{self, Deliverable};
use crate::state::App;

/// The pauses between two looks for a reply that another node may store.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(250));

/// A call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallRequest {
    /// The event to push.
    event: NewEvent,
    /// How long to wait for the reply, in milliseconds; an answer comes within 8 seconds in any
    /// case.
    #[serde(deserialize_with = "input::whole")]
    #[schema(minimum = 0, maximum = 3600000, example = 100)]
    wait_ms: u64,
}

/// A call whose reply is not there yet; `getReply` waits for it.
#[derive(Serialize, ToSchema)]
pub(super) struct Pending {
    /// The event.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    id: String,
}

/// The reply to an event.
#[derive(Serialize, ToSchema)]
pub(super) struct ReplyView {
    /// The event.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    id: String,
    /// The reply of its consumer: any JSON, `null` if it gave none.
    #[schema(value_type = serde_json::Value, example = json!({"closed": true}))]
    reply: Box<RawValue>,
}

/// How long to wait for a reply.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplyWait {
    /// How long to wait for the reply, in milliseconds; an answer comes within 8 seconds in any
    /// case. Default: 0.
    #[param(minimum = 0, maximum = 3600000, example = 100)]
    wait_ms: Option<u64>,
}

/// Waits for the reply to an event.
async fn reply(
    app: &App,
    (queue, id): (&Queue<Body>, EventId),
    (grant, wait): (&CallGrant, Duration),
) -> Result<Response> {
    let grant_ended = grant.ended(app);
    tokio::pin!(grant_ended);
    let mut looks = 0;
    let until = Instant::now() + wait;
    let place = app.waits.take(grant.owner(), 0).await;
    let waiter = app.waiters.wait(id);
    loop {
        let ended = waiter.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable(); // before the look, so that no end is missed
        let status = replies::look_up(queue, id).await?;
        looks += 1;
        if status != ReplyStatus::Pending {
            grant.check(app).await?;
        }
        if let Some(view) = replied(id, status)? {
            let (text, none) = (json_text(&view)?, Deliverable::default());
            return Ok(delivered::response(app, grant.owner(), text, none).await);
        }
        if Instant::now() >= until || app.closing.is_cancelled() {
            return Ok(pending(id));
        }
        tokio::select! {
            () = ended => {}
            problem = &mut grant_ended => return Err(problem),
            (why, what) = place.evicted() => return Err(Problem::evicted(why, what)),
            () = app.closing.cancelled() => {}
            () = tokio::time::sleep_until(until.min(Instant::now() + PAUSES.after(looks))) => {}
        }
    }
}

fn pending(id: EventId) -> Response {
    let id = id.to_string();
    (StatusCode::ACCEPTED, Json(Pending { id })).into_response()
}

/// Returns the reply, unless it is not there yet.
fn replied(id: EventId, status: ReplyStatus) -> Result<Option<ReplyView>> {
    let failed = |words: String| {
        let text = format!("event {id} failed: {words}");
        Problem::new(StatusCode::CONFLICT, "call_failed", text)
    };
    let reply = match status {
        ReplyStatus::Pending => return Ok(None),
        ReplyStatus::Replied(reply) => {
            serde_json::from_slice(&reply).map_err(|error| failed(error.to_string()))?
        }
        ReplyStatus::None => RawValue::NULL.to_owned(),
        ReplyStatus::Over => {
            let text = format!(
                "event {id} is done; replies are kept for {} s, so it is not known whether it had \
                 one",
                replies::REPLY_KEPT.as_secs()
            );
            return Err(Problem::new(StatusCode::GONE, "gone", text));
        }
        ReplyStatus::Failed(words) => return Err(failed(words)),
        ReplyStatus::Unknown => {
            let text = format!("no event of the queue has the id {id}");
            return Err(Problem::not_found(text));
        }
    };
    let id = id.to_string();
    Ok(Some(ReplyView { id, reply }))
}

/// Pushes an event and waits for the reply of its consumer
///
/// The event is as durable as any other, and is handled even if the wait ends first, as its time is
/// over, others need its place or the store fails; then its reply can be fetched for five minutes. An
/// event that ended without success is a conflict.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/calls", operation_id = "call", tag = "calls",
    params(QueuePath), request_body = CallRequest,
    responses(
        (status = 200, description = "The reply", body = ReplyView),
        (status = 202, description = "The reply is not there yet", body = Pending),
        Problems)
)]
pub(super) async fn call(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let (pool, grant) = granted_call(&app, &headers, &namespace, &queue, Action::Produce).await?;
    let CallRequest { event, wait_ms } = input::json(&app, &grant, &headers, body).await?;
    let (wait, handle) = (input::wait(wait_ms)?, pool.queue(&namespace, &queue)?);
    // So that a handler in Rust replies, too.
    let event = event.build(&handle)?.header(CALL_HEADER, "1");
    app.note_queue(pool.name(), &namespace, &queue).await?;
    let (taken, called) = (grant.take(&app).await?, handle.clone());
    let push = async move {
        let pushed = replies::push(&called, event).await;
        pushed.map_err(not_pushed)
    };
    let id = counted(taken, push).await?.id();
    match reply(&app, (&handle, id), (&grant, wait)).await {
        // The event is there: a client that sends the call again would push a second one.
        Err(problem) if problem.is_retried() => Ok(pending(id)),
        replied => replied,
    }
}

/// Returns the reply to an event, now or within a time
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/events/{id}/reply", operation_id = "getReply",
    tag = "calls", params(EventPath, ReplyWait),
    responses(
        (status = 200, description = "The reply", body = ReplyView),
        (status = 202, description = "The reply is not there yet", body = Pending),
        Problems)
)]
pub(super) async fn get_reply(
    State(app): State<Arc<App>>,
    InPath(path): InPath<EventPath>,
    headers: HeaderMap,
    wait: std::result::Result<Query<ReplyWait>, QueryRejection>,
) -> Result<Response> {
    let (namespace, queue) = (&path.namespace, &path.queue);
    let (pool, grant) = granted_call(&app, &headers, namespace, queue, Action::Produce).await?;
    let Query(ReplyWait { wait_ms }) = wait?;
    let (wait, id) = (input::wait(wait_ms.unwrap_or_default())?, path.id()?);
    let handle = pool.queue(&path.namespace, &path.queue)?;
    reply(&app, (&handle, id), (&grant, wait)).await
}
