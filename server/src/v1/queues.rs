//! Queues: counts, pause, rate, forecast.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duly::__server::queues::counts_and_control;
use duly::{ErrorKind, QueueName};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::access::{self, granted_any, granted_lasting};
use super::event::SPAN_MS_MAX;
use super::input::{self, InPath, QueuePath};
use super::problem::{Problem, Problems, Result};
use crate::admission::Work;
use crate::api::{ForecastStep, Purged, QueueView};
use crate::auth::Scope;
use crate::bus::Pool;
use crate::purge::{self, PurgeCursor};
use crate::state::App;

/// The most steps of a forecast.
const STEPS_MAX: u64 = 400;
/// The most workers and buckets of a queue.
const SETTING_MAX: u16 = 1_024;
/// The most queues of a namespace with runtime settings: a store keeps those of 10,000 queues.
const SET_MAX: usize = 1_000;

/// Counts the events of a queue by state
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}", operation_id = "getQueue", tag = "queues",
    params(QueuePath),
    responses((status = 200, description = "The queue", body = QueueView), Problems)
)]
pub(super) async fn stats(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
) -> Result<Response> {
    let scopes = [Scope::Consume, Scope::Admin];
    let pool = granted_any(&app, &headers, &namespace, &queue, &scopes).await?;
    let name = pool.queue(&namespace, &queue)?.name().clone();
    let known = counts_and_control(pool.bus(), &name).await?;
    let exists = known.is_some();
    let (stats, control) = known.unwrap_or_default();
    Ok(Json(QueueView::new(exists, stats, &control)).into_response())
}

/// Changes of a queue; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueChange {
    /// Whether it is paused: then no consumer gets an event of it, at another server from a quarter of a
    /// second later.
    #[schema(example = true)]
    paused: Option<bool>,
    /// The most starts of handlers in a second, over all nodes, at least 0.001; each server gives its
    /// HTTP consumers and webhooks the whole rate. 0 removes the limit.
    #[schema(minimum = 0, maximum = 1000000, example = 10.0)]
    rate: Option<f64>,
    /// The most handlers in Rust at once on each node; 0 removes the setting. To start nothing,
    /// pause the queue.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 1024, example = 16)]
    workers: Option<u16>,
    /// The number of buckets of new events; 0 removes the setting. Only one bucket keeps the order
    /// of events, and only with one a unique key is unique beside `id` and `idempotency_key`.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 1024, example = 1)]
    buckets: Option<u16>,
}

/// Pauses or resumes a queue, or changes its rate, on every node
#[utoipa::path(
    patch, path = "/v1/{namespace}/queues/{queue}", operation_id = "changeQueue", tag = "queues",
    params(QueuePath), request_body = QueueChange,
    responses((status = 204, description = "The queue is changed"), Problems)
)]
pub(super) async fn set(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<StatusCode> {
    let (pool, grant) = granted_lasting(&app, &headers, &namespace, &queue, Scope::Admin).await?;
    let change: QueueChange = input::json(&app, &grant, &headers, body).await?;
    let name = pool.queue(&namespace, &queue)?.name().clone();
    for (name, value) in [("workers", change.workers), ("buckets", change.buckets)] {
        if let Some(value) = value.filter(|value| *value > SETTING_MAX) {
            return Err(Problem::invalid(format!(
                "{name} is {value}; it must be 1 to {SETTING_MAX}, or 0 to remove it"
            )));
        }
    }
    let (turn, _) = access::turn(&app, &grant).await?;
    if change.sets_any() {
        check_room(pool, &namespace, &name).await?;
    }
    let mut done = Vec::new();
    let changed = change.make(pool, &name, &mut done).await;
    drop(turn);
    for action in done {
        access::audit(&app, &headers, action, (pool, &namespace, &queue)).await;
    }
    changed?;
    Ok(StatusCode::NO_CONTENT)
}

impl QueueChange {
    /// Makes the changes, one after the other, and adds each to what is done, in the words of the audit.
    async fn make(
        &self,
        pool: &Pool,
        name: &QueueName,
        done: &mut Vec<&'static str>,
    ) -> duly::Result<()> {
        let bus = pool.bus();
        // The rate first: it may be out of bounds, and then nothing is changed.
        if let Some(rate) = self.rate {
            bus.set_rate(name, at_least(rate)).await?;
            done.push("rate of queue set");
        }
        let or_none = |value: u16| Some(value).filter(|value| *value > 0);
        if let Some(workers) = self.workers {
            bus.set_workers_everywhere(name, or_none(workers)).await?;
            done.push("workers of queue set");
        }
        if let Some(buckets) = self.buckets {
            bus.set_buckets(name, or_none(buckets)).await?;
            done.push("buckets of queue set");
        }
        match self.paused {
            Some(true) => {
                bus.pause(name).await?;
                done.push("queue paused");
            }
            Some(false) => {
                bus.resume(name).await?;
                done.push("queue resumed");
            }
            None => {}
        }
        Ok(())
    }

    /// Whether the queue has a setting afterwards.
    fn sets_any(&self) -> bool {
        let is_set = |value: Option<u16>| value.is_some_and(|value| value > 0);
        let has_rate = self.rate.is_some_and(|rate| rate > 0.0);
        self.paused == Some(true) || has_rate || is_set(self.workers) || is_set(self.buckets)
    }
}

/// Refuses a first setting of a queue where as many queues of its namespace have some as may. Whoever
/// asks has the turn of the namespace.
async fn check_room(pool: &Pool, namespace: &str, queue: &QueueName) -> Result<()> {
    let controls = pool.bus().controls().await?;
    let of_namespace = |name: &QueueName| {
        let rest = name.strip_prefix(namespace);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let count = controls.keys().filter(|name| of_namespace(name)).count();
    if count < SET_MAX || controls.contains_key(queue) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::INSUFFICIENT_STORAGE,
        "full",
        format!("{SET_MAX} queues of the namespace have settings, the most; remove some first"),
    ))
}

/// Returns a rate that the library takes; `None` removes it. One out of bounds stays so.
fn at_least(rate: f64) -> Option<f64> {
    match rate {
        0.0 => None,
        rate if rate > 0.0 => Some(rate.max(0.001)),
        rate => Some(rate),
    }
}

/// The span of a forecast.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ForecastSpan {
    /// How far to look, in milliseconds.
    #[param(minimum = 1, maximum = 4294967295000u64, example = 3600000)]
    horizon_ms: u64,
    /// The length of a step, in milliseconds; longer if there were more than 400.
    #[param(minimum = 1, maximum = 4294967295000u64, example = 60000)]
    step_ms: u64,
}

/// Counts what falls due in each step of the time to come
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/forecast", operation_id = "forecastQueue",
    tag = "queues", params(QueuePath, ForecastSpan),
    responses((status = 200, description = "The steps", body = [ForecastStep]), Problems)
)]
pub(super) async fn forecast(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    span: std::result::Result<Query<ForecastSpan>, QueryRejection>,
) -> Result<Response> {
    let (pool, grant) = granted_lasting(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let Query(span) = span?;
    let name = pool.queue(&namespace, &queue)?.name().clone();
    let (horizon, step) = (span.horizon_ms, span.step_ms);
    if [horizon, step]
        .iter()
        .any(|it| !(1..=SPAN_MS_MAX).contains(it))
    {
        return Err(Problem::invalid(format!(
            "horizon_ms is {horizon} and step_ms {step}; they must be 1 to {SPAN_MS_MAX}"
        )));
    }
    let step = Duration::from_millis(step.max(horizon.div_ceil(STEPS_MAX)));
    let horizon = Duration::from_millis(horizon);
    let forecast = async {
        match pool.bus().forecast(&name, horizon, step).await {
            // A new queue whose name is nearly that of another.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            steps => steps.map_err(Problem::from),
        }
    };
    let (steps, _) = access::step(&app, Work::Forecast, &grant, forecast).await?;
    let steps = steps.iter().map(ForecastStep::from);
    Ok(Json(steps.collect::<Vec<_>>()).into_response())
}

/// Where a purge goes on, and how far.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeQuery {
    /// The `next` of the answer before.
    #[param(min_length = 1, max_length = 1200)]
    after: Option<String>,
    /// About the most events that are cancelled, 1 to 1,000: to keep a rate. Default: 1,000.
    #[param(minimum = 1, maximum = 1000, example = 100)]
    limit: Option<usize>,
}

/// Cancels events of a queue that wait, about 1,000 with each request; dead letters, leased events and
/// what is pushed after the first request stay
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/purge", operation_id = "purgeQueue",
    tag = "queues", params(QueuePath, PurgeQuery),
    responses((status = 200, description = "A part of them is cancelled", body = Purged), Problems)
)]
pub(super) async fn purge(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    place: std::result::Result<Query<PurgeQuery>, QueryRejection>,
) -> Result<Response> {
    let (pool, grant) = granted_lasting(&app, &headers, &namespace, &queue, Scope::Admin).await?;
    let Query(PurgeQuery { after, limit }) = place?;
    let limit = limit.unwrap_or(purge::STEP);
    if !(1..=purge::STEP).contains(&limit) {
        let most = purge::STEP;
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {most}"
        )));
    }
    let after = after.as_deref().map(str::parse::<PurgeCursor>);
    let after = after.transpose().map_err(Problem::invalid)?;
    let name = pool.queue(&namespace, &queue)?.name().clone();
    let purge = async {
        // Before it begins, as it may end half-way.
        let target = (pool, namespace.as_str(), queue.as_str());
        let goes_on = after.is_some();
        access::audit_bulk(&app, &headers, "queue purged", target, (goes_on, false)).await;
        match purge::step(pool.bus(), &name, after, limit).await {
            // A new queue whose name is nearly that of another.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((0, None)),
            step => Ok(step.map(|step| (step.cancelled, step.next))?),
        }
    };
    let ((cancelled, next), _) = access::step(&app, Work::Change, &grant, purge).await?;
    let next = next.map(|next| next.to_string());
    Ok(Json(Purged { cancelled, next }).into_response())
}
