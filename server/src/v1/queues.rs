//! Queues: counts, pause, rate, forecast.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duly::ErrorKind;
use duly::admin::QueueStats;
use serde::Deserialize;
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::access::granted;
use super::problem::{Problem, Result};
use crate::auth::Scope;
use crate::state::App;

type QueuePath = Path<(String, String)>;

/// Counts the events of a queue by state.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}", tag = "queues",
    params(("namespace" = String, Path), ("queue" = String, Path)),
    responses((status = 200, body = Value), (status = "default", body = Problem))
)]
pub(super) async fn stats(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): QueuePath,
    headers: HeaderMap,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let name = pool.queue(&namespace, &queue)?.name().clone();
    let stats = match pool.bus().stats(&name).await {
        Err(error) if error.kind() == ErrorKind::NotFound => QueueStats::default(),
        stats => stats?,
    };
    let control = pool
        .bus()
        .controls()
        .await?
        .remove(&name)
        .unwrap_or_default();
    let view = json!({
        "scheduled": stats.scheduled, "ready": stats.ready, "leased": stats.leased,
        "dead": stats.dead,
        "oldest_ready_ms": stats.oldest_ready.map(duly::time::Timestamp::as_millis),
        "paused": control.paused, "rate": control.rate,
    });
    Ok(Json(view).into_response())
}

/// Changes of a queue; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueChange {
    /// Whether handlers of it start.
    paused: Option<bool>,
    /// The most starts of handlers in a second, over all nodes; 0 removes the limit.
    rate: Option<f64>,
}

/// Pauses or resumes a queue, or changes its rate, on every node.
#[utoipa::path(
    patch, path = "/v1/{namespace}/queues/{queue}", tag = "queues",
    params(("namespace" = String, Path), ("queue" = String, Path)),
    request_body = QueueChange,
    responses((status = 204), (status = "default", body = Problem))
)]
pub(super) async fn set(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): QueuePath,
    headers: HeaderMap,
    request: std::result::Result<Json<QueueChange>, JsonRejection>,
) -> Result<StatusCode> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Admin).await?;
    let Json(change) = request?;
    let name = pool.queue(&namespace, &queue)?.name().clone();
    match change.paused {
        Some(true) => pool.bus().pause(&name).await?,
        Some(false) => pool.bus().resume(&name).await?,
        None => {}
    }
    if let Some(rate) = change.rate {
        pool.bus()
            .set_rate(&name, Some(rate).filter(|rate| *rate != 0.0))
            .await?;
    }
    let target = format!("{}/{name}", pool.name());
    app.tokens.audit("token", "queue changed", &target).await;
    Ok(StatusCode::NO_CONTENT)
}

/// The span of a forecast.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ForecastSpan {
    /// How far to look, in milliseconds.
    horizon_ms: u64,
    /// The length of a step, in milliseconds.
    step_ms: u64,
}

/// Counts what falls due in each step of the time to come.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/forecast", tag = "queues",
    params(("namespace" = String, Path), ("queue" = String, Path), ForecastSpan),
    responses((status = 200, body = [Value]), (status = "default", body = Problem))
)]
pub(super) async fn forecast(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): QueuePath,
    headers: HeaderMap,
    span: std::result::Result<Query<ForecastSpan>, QueryRejection>,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let Query(span) = span?;
    let name = pool.queue(&namespace, &queue)?.name().clone();
    let (horizon, step) = (span.horizon_ms, span.step_ms);
    let [horizon, step] = [horizon, step].map(Duration::from_millis);
    let steps = pool.bus().forecast(&name, horizon, step).await?;
    let steps = steps
        .iter()
        .map(|step| json!({"until_ms": step.until.as_millis(), "events": step.events}));
    Ok(Json(steps.collect::<Vec<_>>()).into_response())
}
