//! Leases: pull events, settle them, extend the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::__server::replies;
use duly::lease::{EncodedPayload, LeaseStatus, LeaseToken, Leased};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::{granted, granted_call, granted_lasting};
use super::event::SPAN_MS_MAX;
use super::input::{self, InPath, LeasePath, QueuePath};
use super::problem::{Problem, Problems, Result};
use super::settlement::{Settlement, SettlementFields};
use crate::auth::{Action, LastingGrant, Scope};
use crate::bus::Pool;
use crate::http::reply;
use crate::lmstfy::delivered::{self, Undelivered};
use crate::state::App;

/// The most events of one lease.
const LEASE_MAX: usize = 1_000;

/// A request for events.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRequest {
    /// The most events, 1 to 1,000. Default: 1.
    #[serde(default = "one", deserialize_with = "input::whole")]
    #[schema(minimum = 1, maximum = 1000, example = 10)]
    max: usize,
    /// The time to run, in milliseconds; an event that is not settled by then comes back.
    #[serde(deserialize_with = "input::whole")]
    #[schema(minimum = 0, maximum = 4294967295000u64, example = 30000)]
    ttr_ms: u64,
    /// How long to wait for an event if none is ready, in milliseconds; an answer comes within 8
    /// seconds in any case. Default: 0.
    #[serde(default, deserialize_with = "input::whole")]
    #[schema(minimum = 0, maximum = 3600000, example = 5000)]
    wait_ms: u64,
}

fn one() -> usize {
    1
}

/// A leased event.
#[derive(Serialize, ToSchema)]
pub(super) struct LeaseView {
    /// The event.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    id: String,
    /// The token of the lease, which settles and extends it.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C-9f-2a-1-64a0b1c2d3e4f-shop.close")]
    pub(super) token: String,
    /// When the lease ends, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225630000u64)]
    deadline_ms: u64,
    /// The number of the attempt, from 1.
    #[schema(minimum = 1, maximum = 65535, example = 1)]
    attempt: u16,
    /// The attempts that are left after this one.
    #[schema(minimum = 0, maximum = 65535, example = 15)]
    attempts_left: u16,
    /// The key of the event.
    #[schema(example = "customer:8")]
    key: Option<String>,
    /// The headers of the event.
    #[schema(example = json!({"shop": "a"}))]
    headers: BTreeMap<String, String>,
    /// The payload, in base64.
    #[schema(example = "eyJvcmRlciI6N30=")]
    payload_base64: String,
}

impl From<&Leased<EncodedPayload>> for LeaseView {
    fn from(leased: &Leased<EncodedPayload>) -> Self {
        let event = leased.event();
        Self {
            id: leased.id().to_string(),
            token: leased.token().to_string(),
            deadline_ms: leased.deadline().as_millis(),
            attempt: leased.attempt(),
            attempts_left: leased.attempts_left(),
            key: event.key().map(str::to_owned),
            headers: event.headers().iter().cloned().collect(),
            payload_base64: STANDARD.encode(&event.payload.bytes),
        }
    }
}

/// Returns a time to run.
pub(super) fn ttr(ttr_ms: u64) -> Result<Duration> {
    if ttr_ms <= SPAN_MS_MAX {
        Ok(Duration::from_millis(ttr_ms))
    } else {
        Err(Problem::invalid(format!(
            "ttr_ms is {ttr_ms}; it must be at most {SPAN_MS_MAX}"
        )))
    }
}

/// Leases events, now or within a time
///
/// A client that hangs up before the response is on its way gives its events back at once, and no
/// attempt counts.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/leases", operation_id = "leaseEvents",
    tag = "leases", params(QueuePath), request_body = LeaseRequest,
    responses((status = 200, description = "The leased events; none if none was ready in time",
        body = [LeaseView]), Problems)
)]
pub(super) async fn lease(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let (pool, grant) = granted_call(&app, &headers, &namespace, &queue, Action::Consume).await?;
    let request: LeaseRequest = input::json(&app, &grant, &headers, body).await?;
    if !(1..=LEASE_MAX).contains(&request.max) {
        let max = request.max;
        return Err(Problem::invalid(format!(
            "max is {max}; it must be 1 to {LEASE_MAX}"
        )));
    }
    let queues = [pool.queue(&namespace, &queue)?.name().clone()];
    let (ttr, wait) = (ttr(request.ttr_ms)?, input::wait(request.wait_ms)?);
    let taken = grant.take(&app).await?;
    let place = app.waits.take(grant.owner(), queues.len()).await;
    let events = tokio::select! {
        biased;
        events = pool.lease(&queues, request.max, ttr, wait) => Undelivered::new(events?),
        problem = grant.ended(&app) => return Err(problem),
        (why, what) = place.evicted() => return Err(Problem::evicted(why, what)),
        () = app.closing.cancelled() => Undelivered::default(),
    };
    let mut events = events.allowed(&grant, &app.tokens).await?;
    match taken {
        Some(taken) if events.jobs().is_empty() => taken.give_back().await,
        taken => events.count(taken),
    }
    let views: Vec<LeaseView> = events.jobs().iter().map(LeaseView::from).collect();
    let text = reply::json_text(&views)?;
    drop(place);
    Ok(delivered::response(&app, grant.owner(), text, events).await)
}

/// Returns the pool and the token of a lease, which names its queue, and the right to it.
async fn of_token<'a>(
    app: &'a App,
    headers: &HeaderMap,
    path: &LeasePath,
) -> Result<(&'a Pool, LeaseToken, LastingGrant)> {
    let unknown =
        || Problem::not_found("the namespace has no such lease; pass its token as it was");
    let token: LeaseToken = match path.token.parse() {
        Ok(token) => token,
        Err(_) => {
            // Without a valid token of access nobody learns anything.
            granted(app, headers, &path.namespace, "any", Scope::Consume).await?;
            return Err(unknown());
        }
    };
    let queue = token.queue().as_str().strip_prefix(&*path.namespace);
    let queue = queue.and_then(|rest| rest.strip_prefix('.'));
    let Some(queue) = queue.filter(|queue| !queue.contains('.')) else {
        granted(app, headers, &path.namespace, "any", Scope::Consume).await?;
        return Err(unknown());
    };
    let (pool, grant) =
        granted_lasting(app, headers, &path.namespace, queue, Scope::Consume).await?;
    Ok((pool, token, grant))
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

/// Settles a leased event
///
/// A reply is stored first, so it reaches its caller although the server may die as soon as the event
/// is done. Where it dies before, the event comes back, and the reply of whoever settles it counts.
#[utoipa::path(
    post, path = "/v1/{namespace}/leases/{token}/settle", operation_id = "settleLease",
    tag = "leases", params(LeasePath), request_body = Settlement,
    responses((status = 204, description = "The event is settled"), Problems)
)]
pub(super) async fn settle(
    State(app): State<Arc<App>>,
    InPath(path): InPath<LeasePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<StatusCode> {
    let (pool, token, grant) = of_token(&app, &headers, &path).await?;
    let fields: SettlementFields = input::json(&app, &grant, &headers, body).await?;
    let (outcome, reply) = fields.outcome()?;
    if let Some(reply) = reply {
        replies::store(pool.bus(), &token, reply.get().as_bytes()).await?;
    }
    app.waiters.used(&path.token);
    let status = pool.bus().settle_lease(&token, outcome).await?;
    app.waiters.settled(token.id(), &path.token);
    held(status)
}

/// More time for a lease.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendRequest {
    /// The new time to run, in milliseconds from now.
    #[serde(deserialize_with = "input::whole")]
    #[schema(minimum = 0, maximum = 4294967295000u64, example = 60000)]
    ttr_ms: u64,
}

/// Extends a lease
#[utoipa::path(
    post, path = "/v1/{namespace}/leases/{token}/extend", operation_id = "extendLease",
    tag = "leases", params(LeasePath), request_body = ExtendRequest,
    responses((status = 204, description = "The lease is extended"), Problems)
)]
pub(super) async fn extend(
    State(app): State<Arc<App>>,
    InPath(path): InPath<LeasePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<StatusCode> {
    let (pool, token, grant) = of_token(&app, &headers, &path).await?;
    let ExtendRequest { ttr_ms } = input::json(&app, &grant, &headers, body).await?;
    let ttr = ttr(ttr_ms)?;
    if !app.waiters.used(&path.token) {
        return held(LeaseStatus::Lost);
    }
    let status = pool.bus().extend_lease(&token, ttr).await?;
    if status == LeaseStatus::Held {
        app.waiters.extended(&path.token, ttr);
    }
    held(status)
}
