//! Endpoints about the server itself: pools, version, statistics, metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::json;

use super::TEXT;
use super::account::Actor;
use crate::http::reply;
use crate::lmstfy::ApiError;
use crate::lmstfy::gauges::Gauges;
use crate::lmstfy::params::Params;
use crate::metrics as server_metrics;
use crate::settings::DEFAULT_POOL;
use crate::state::App;

/// The content type of the page for Prometheus.
const PROMETHEUS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// `GET /pools`.
#[allow(clippy::unused_async)] // a handler of axum is async
pub(super) async fn pools(State(app): State<Arc<App>>) -> Response {
    let names: Vec<&str> = app.pools.names().collect();
    reply::json_indented(StatusCode::OK, &names)
}

/// `GET /version`.
#[allow(clippy::unused_async)] // a handler of axum is async
pub(super) async fn version() -> Response {
    let version = json!({
        "build_commit": option_env!("DULY_BUILD_COMMIT").unwrap_or_default(),
        "build_date": option_env!("DULY_BUILD_DATE").unwrap_or_default(),
        "version": env!("CARGO_PKG_VERSION"),
    });
    reply::json_indented(StatusCode::OK, &version)
}

/// `GET /info`: the queues of each namespace that were published to.
pub(super) async fn info(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let params = Params::new(query.as_deref());
    let pool = params.get("pool").filter(|pool| !pool.is_empty());
    let pool = pool.unwrap_or(DEFAULT_POOL);
    if app.pools.get(pool).is_none() {
        return reply::with_type(StatusCode::OK, TEXT, "");
    }
    let prefix = format!("{pool}/");
    let keys = match app.shared.queues(&prefix).await {
        Ok(keys) => keys,
        Err(error) => return ApiError::from(error).into_response(),
    };
    let mut namespaces: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for key in &keys {
        let names = key
            .strip_prefix(&prefix)
            .and_then(|names| names.split_once('/'));
        if let Some((namespace, queue)) = names {
            namespaces.entry(namespace).or_default().push(queue);
        }
    }
    // A map of texts is always JSON.
    let text = serde_json::to_string(&namespaces).unwrap_or_default();
    reply::with_type(StatusCode::OK, TEXT, text)
}

/// `GET /metrics`.
pub(crate) async fn metrics(State((app, gauges)): State<(Arc<App>, Arc<Gauges>)>) -> Response {
    gauges.refresh(&app).await;
    reply::with_type(StatusCode::OK, PROMETHEUS, server_metrics::page())
}

fn access_log_status(app: &App) -> Response {
    let status = if app.access_log.load(Ordering::Relaxed) {
        "enabled"
    } else {
        "disabled"
    };
    reply::json(StatusCode::OK, &json!({"status": status}))
}

/// `GET /accesslog`.
#[allow(clippy::unused_async)] // a handler of axum is async
pub(super) async fn access_log(State(app): State<Arc<App>>) -> Response {
    access_log_status(&app)
}

/// `POST /accesslog`.
pub(super) async fn set_access_log(
    State(app): State<Arc<App>>,
    Extension(actor): Extension<Actor>,
    RawQuery(query): RawQuery,
) -> Response {
    let params = Params::new(query.as_deref());
    let enabled = match params.get("status") {
        Some("enable") => true,
        Some("disable") => false,
        _ => return ApiError::bad("invalid status").into_response(),
    };
    app.access_log.store(enabled, Ordering::Relaxed);
    let action = if enabled {
        "access log enabled"
    } else {
        "access log disabled"
    };
    app.tokens.audit(&actor.0, action, "this process").await;
    access_log_status(&app)
}
