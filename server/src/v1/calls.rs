//! Calls: push an event and wait for the reply of its consumer.
//!
//! A reply is an event of the queue `<namespace>.duly.replies` under the name of the event that it
//! replies to. It is never due before it expires, so no consumer gets it; callers look it up. So a
//! reply reaches callers on every node; `Queue::call` and `Context::reply` of the library do the same.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duly::event::{CALL_HEADER, State as EventState};
use duly::records::Record;
use duly::time::Timestamp;
use duly::{ErrorKind, EventId, Queue, QueueName};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::access::{CallGrant, granted_call};
use super::event::{NewEvent, not_pushed};
use super::input::{self, EventPath, InPath, QueuePath};
use super::problem::{Problem, Problems, Result};
use crate::auth::{Action, Taken};
use crate::bus::{Body, Pool};
use crate::clock;
use crate::state::App;

/// How long a reply is kept.
const REPLY_KEPT_MS: u64 = 300_000;
const REPLY_KEPT: Duration = Duration::from_millis(REPLY_KEPT_MS);
/// The first and the longest pause between two looks for a reply that another node may store.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));
/// How many expired replies are removed at a time.
const EXPIRED_AT_ONCE: usize = 100;

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

fn replies(pool: &Pool, namespace: &str) -> Result<Queue<Body>> {
    Ok(pool.queue(namespace, "duly.replies")?)
}

/// Stores the reply to an event; the first one counts.
pub(super) async fn store_reply(
    pool: &Pool,
    namespace: &str,
    (queue, id): (&QueueName, EventId),
    reply: Box<RawValue>,
) -> Result<()> {
    let replies = replies(pool, namespace)?.encrypted_as(queue);
    let event = Pool::event(&replies, Body::Json(reply)).id(replies.id_for_name(&id.to_string()));
    let event = event.after(REPLY_KEPT).expires_after(REPLY_KEPT);
    match event.push().await {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Conflict => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    if fastrand::usize(..EXPIRED_AT_ONCE / 2) == 0 {
        // Whatever is due has expired: leasing it removes it, and returns nothing.
        let queues = [replies.name().clone()];
        let ttr = Duration::from_secs(1);
        let _none = pool
            .lease(&queues, EXPIRED_AT_ONCE, ttr, Duration::ZERO)
            .await?;
    }
    Ok(())
}

/// Waits for the reply to an event.
async fn reply(
    app: &App,
    pool: &Pool,
    namespace: &str,
    (queue, id): (&Queue<Body>, EventId),
    (grant, wait): (&CallGrant, Duration),
) -> Result<Response> {
    let replies = replies(pool, namespace)?;
    let grant_ended = grant.ended(app);
    tokio::pin!(grant_ended);
    let (mut pause, pause_max) = PAUSES;
    let until = Instant::now() + wait;
    let waiter = app.waiters.wait(id);
    loop {
        let ended = waiter.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable(); // before the look, so that no end is missed
        // The state first: a reply is stored before its event is done.
        let state = queue.get(id).await?.map(|found| found.state);
        let is_over = !matches!(
            state,
            Some(EventState::Scheduled | EventState::Ready | EventState::Leased)
        );
        if matches!(state, Some(EventState::Done) | None)
            && let Some(found) = pool
                .get(&replies, replies.id_for_name(&id.to_string()))
                .await?
        {
            grant.check(app).await?;
            let reply = serde_json::from_slice(&found.body).map_err(|error| {
                Problem::new(StatusCode::CONFLICT, "call_failed", error.to_string())
            })?;
            let id = id.to_string();
            return Ok(Json(ReplyView { id, reply }).into_response());
        }
        if is_over {
            grant.check(app).await?;
            return ended_without_reply(pool, (queue, id), state).await;
        }
        if Instant::now() >= until || app.closing.is_cancelled() {
            let id = id.to_string();
            return Ok((StatusCode::ACCEPTED, Json(Pending { id })).into_response());
        }
        tokio::select! {
            () = ended => {}
            problem = &mut grant_ended => return Err(problem),
            () = app.closing.cancelled() => {}
            () = tokio::time::sleep_until(until.min(Instant::now() + pause)) => {}
        }
        pause = (pause * 2).min(pause_max);
    }
}

/// Returns the last record of an event.
async fn last_record(pool: &Pool, (queue, id): (&Queue<Body>, EventId)) -> Result<Option<Record>> {
    // Another namespace may have an event under the same id.
    let records = pool.bus().records().queue(queue.name().as_str());
    let newest = records.id(id).newest_first().limit(1);
    Ok(newest.page().await?.items.pop())
}

async fn ended_without_reply(
    pool: &Pool,
    (queue, id): (&Queue<Body>, EventId),
    state: Option<EventState>,
) -> Result<Response> {
    match state {
        Some(EventState::Done) => {
            let last = last_record(pool, (queue, id)).await?;
            // Without a record it is not known when, but not before the event was made.
            let ended = last.map_or(id.created(), |last| {
                Timestamp::from_millis(last.stages.finished_us / 1_000)
            });
            if is_over(ended, clock::now()) {
                let text = format!(
                    "event {id} is done; replies are kept for {} s, so it is not known whether it \
                     had one",
                    REPLY_KEPT.as_secs()
                );
                return Err(Problem::new(StatusCode::GONE, "gone", text));
            }
            let (id, reply) = (id.to_string(), RawValue::NULL.to_owned());
            Ok(Json(ReplyView { id, reply }).into_response())
        }
        None => Err(Problem::not_found(format!(
            "no event of the queue has the id {id}"
        ))),
        Some(state) => {
            let last = last_record(pool, (queue, id)).await.ok().flatten();
            let error = last.and_then(|last| last.error);
            let error = error.map(|error| format!(": {error}")).unwrap_or_default();
            Err(Problem::new(
                StatusCode::CONFLICT,
                "call_failed",
                format!("event {id} is {state}{error}"),
            ))
        }
    }
}

/// Whether the reply of an event that ended then may be kept no more.
fn is_over(ended: Timestamp, now: Timestamp) -> bool {
    now.as_millis() >= ended.as_millis().saturating_add(REPLY_KEPT_MS)
}

/// Pushes an event and waits for the reply of its consumer
///
/// The event is as durable as any other, and is handled even if the wait ends first; then its reply
/// can be fetched for five minutes. An event that ended without success is a conflict.
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
    let CallRequest { event, wait_ms } = input::json(&app, &headers, body).await?;
    let (wait, handle) = (input::wait(wait_ms)?, pool.queue(&namespace, &queue)?);
    // So that a handler in Rust replies, too.
    let event = event.build(&handle)?.header(CALL_HEADER, "1");
    let taken = grant.take(&app).await?;
    app.note_queue(pool.name(), &namespace, &queue).await?;
    let id = event.push().await.map_err(not_pushed)?.id();
    taken.into_iter().for_each(Taken::keep);
    reply(&app, pool, &namespace, (&handle, id), (&grant, wait)).await
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
    reply(&app, pool, &path.namespace, (&handle, id), (&grant, wait)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_over_is_not_none() {
        let ended = Timestamp::from_millis(1_700_000_000_000);
        let later = |ms| Timestamp::from_millis(ended.as_millis() + ms);
        assert!(!is_over(ended, ended) && !is_over(ended, later(299_999)));
        assert!(is_over(ended, later(300_000)));
        // An id of a name has no time of creation.
        assert!(is_over(Timestamp::EPOCH, ended));
    }
}
