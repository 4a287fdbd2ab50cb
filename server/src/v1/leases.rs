//! Leases: pull events, settle them, extend the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use duly::lease::{LeaseOutcome, LeaseStatus, LeaseToken};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::access::granted;
use super::problem::{Problem, Result};
use crate::auth::Scope;
use crate::bus::Pool;
use crate::http::reply;
use crate::lmstfy::delivered::{JobsBody, Undelivered};
use crate::state::App;

/// The most events of one lease.
const LEASE_MAX: usize = 1_000;
/// The longest wait, in milliseconds.
const WAIT_MS_MAX: u64 = 3_600_000;

/// A request for events.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseBody {
    /// The most events, 1 to 1,000. Default: 1.
    #[serde(default = "one")]
    max: usize,
    /// The time to run, in milliseconds; an event that is not settled by then comes back.
    ttr_ms: u64,
    /// How long to wait for an event if none is ready, in milliseconds. Default: 0.
    #[serde(default)]
    wait_ms: u64,
}

fn one() -> usize {
    1
}

/// Leases events, now or within a time.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/leases", tag = "leases",
    params(("namespace" = String, Path), ("queue" = String, Path)),
    request_body = LeaseBody,
    responses((status = 200, body = [Value]), (status = "default", body = Problem))
)]
pub(super) async fn lease(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    headers: HeaderMap,
    request: std::result::Result<Json<LeaseBody>, JsonRejection>,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let Json(request) = request?;
    if !(1..=LEASE_MAX).contains(&request.max) {
        return Err(Problem::invalid(format!("max is 1 to {LEASE_MAX}")));
    }
    if request.wait_ms > WAIT_MS_MAX {
        return Err(Problem::invalid(format!(
            "wait_ms is at most {WAIT_MS_MAX}"
        )));
    }
    let queues = [pool.queue(&namespace, &queue)?.name().clone()];
    let ttr = Duration::from_millis(request.ttr_ms);
    let wait = Duration::from_millis(request.wait_ms);
    let events = tokio::select! {
        biased;
        events = pool.lease(&queues, request.max, ttr, wait) => Undelivered::new(events?),
        () = app.closing.cancelled() => Undelivered::default(),
    };
    let views = events.jobs().iter().map(|leased| {
        let event = leased.event();
        json!({
            "id": leased.id().to_string(),
            "token": leased.token().to_string(),
            "deadline_ms": leased.deadline().as_millis(),
            "attempt": leased.attempt(),
            "attempts_left": leased.attempts_left(),
            "key": event.key(),
            "headers": event.headers().iter().cloned().collect::<BTreeMap<_, _>>(),
            "payload_base64": STANDARD.encode(&event.payload.bytes),
        })
    });
    let text = reply::json_text(&views.collect::<Vec<Value>>())?;
    let body = JobsBody::new(Bytes::from(text), events);
    Ok(reply::with_type(
        StatusCode::OK,
        reply::JSON,
        axum::body::Body::new(body),
    ))
}

/// How an attempt ended.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Settlement {
    /// The event is done.
    Ack,
    /// It failed and is due again, by the queue's policy or after a delay.
    Retry {
        delay_ms: Option<u64>,
        reason: Option<String>,
    },
    /// It is due again after a delay; the attempt does not count.
    Snooze { delay_ms: u64 },
    /// It is ready again at once; the attempt does not count.
    Release,
    /// It becomes a dead letter.
    Bury { reason: Option<String> },
    /// It is dropped.
    Discard { reason: Option<String> },
}

impl From<Settlement> for LeaseOutcome {
    fn from(settlement: Settlement) -> Self {
        match settlement {
            Settlement::Ack => Self::Ack,
            Settlement::Retry { delay_ms, reason } => Self::Retry {
                after: delay_ms.map(Duration::from_millis),
                reason,
            },
            Settlement::Snooze { delay_ms } => Self::Snooze(Duration::from_millis(delay_ms)),
            Settlement::Release => Self::Release,
            Settlement::Bury { reason } => Self::Bury(reason),
            Settlement::Discard { reason } => Self::Discard(reason),
        }
    }
}

/// Returns the pool and the token of a lease, which names its queue.
async fn of_token<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    token: &str,
) -> Result<(&'a Pool, LeaseToken)> {
    let token: LeaseToken = token.parse()?;
    let queue = token.queue().as_str().strip_prefix(namespace);
    let queue = queue.and_then(|rest| rest.strip_prefix('.'));
    let queue = queue.ok_or_else(|| Problem::invalid("the lease is of another namespace"))?;
    let pool = granted(app, headers, namespace, queue, Scope::Consume).await?;
    Ok((pool, token))
}

fn held(status: LeaseStatus) -> Result<StatusCode> {
    match status {
        LeaseStatus::Held => Ok(StatusCode::NO_CONTENT),
        LeaseStatus::Lost => Err(Problem::new(
            StatusCode::CONFLICT,
            "lease_lost",
            "the lease is lost, or the event was settled otherwise; nothing was changed",
        )),
    }
}

/// Settles a leased event.
#[utoipa::path(
    post, path = "/v1/{namespace}/leases/{token}/settle", tag = "leases",
    params(("namespace" = String, Path), ("token" = String, Path)),
    request_body = Settlement,
    responses((status = 204), (status = 409, body = Problem), (status = "default", body = Problem))
)]
pub(super) async fn settle(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
    headers: HeaderMap,
    request: std::result::Result<Json<Settlement>, JsonRejection>,
) -> Result<StatusCode> {
    let (pool, token) = of_token(&app, &headers, &namespace, &token).await?;
    let Json(settlement) = request?;
    held(pool.bus().settle_lease(&token, settlement.into()).await?)
}

/// More time for a lease.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendBody {
    /// The new time to run, in milliseconds from now.
    ttr_ms: u64,
}

/// Extends a lease.
#[utoipa::path(
    post, path = "/v1/{namespace}/leases/{token}/extend", tag = "leases",
    params(("namespace" = String, Path), ("token" = String, Path)),
    request_body = ExtendBody,
    responses((status = 204), (status = 409, body = Problem), (status = "default", body = Problem))
)]
pub(super) async fn extend(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
    headers: HeaderMap,
    request: std::result::Result<Json<ExtendBody>, JsonRejection>,
) -> Result<StatusCode> {
    let (pool, token) = of_token(&app, &headers, &namespace, &token).await?;
    let Json(ExtendBody { ttr_ms }) = request?;
    held(
        pool.bus()
            .extend_lease(&token, Duration::from_millis(ttr_ms))
            .await?,
    )
}
