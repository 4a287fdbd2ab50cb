//! Liveness and readiness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use tokio::time::timeout;

use crate::http::reply;
use crate::shared::Table;
use crate::state::App;

/// How long a part may take to answer before it counts as not ready.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The parts of a server, each with `ok` or the reason why it is not ready.
#[derive(Serialize)]
struct Readiness {
    ready: bool,
    /// Those that are not ready, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    parts: BTreeMap<String, String>,
}

/// The process runs.
#[allow(clippy::unused_async)] // a handler of axum is async
pub(crate) async fn live() -> Response {
    reply::json(StatusCode::OK, &serde_json::json!({"status": "ok"}))
}

/// Every store answers and takes writes, and the server does not stop.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let mut parts = BTreeMap::new();
    for pool in app.pools.iter() {
        let said = match timeout(TIMEOUT, pool.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {TIMEOUT:?}")),
        };
        parts.insert(format!("pool {}", pool.name()), said);
    }
    let answers = async {
        app.shared.version().await?;
        app.shared.put(Table::Ready, "", "").await
    };
    let said = match timeout(TIMEOUT, answers).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {TIMEOUT:?}")),
    };
    parts.insert("shared state".to_owned(), said);
    if app.closing.is_cancelled() {
        parts.insert("server".to_owned(), Some("it stops".to_owned()));
    }
    let faults = parts
        .iter()
        .filter_map(|(part, said)| said.as_ref().map(|said| format!("{part}: {said}")));
    let detail = faults.collect::<Vec<_>>().join("; ");
    let ready = detail.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let parts = parts
        .into_iter()
        .map(|(part, said)| (part, said.unwrap_or_else(|| "ok".to_owned())));
    reply::json(
        status,
        &Readiness {
            ready,
            detail,
            parts: parts.collect(),
        },
    )
}
