//! Liveness and readiness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use duly::ErrorKind;
use serde::Serialize;
use tokio::time::timeout;

use crate::http::reply;
use crate::shared::Table;
use crate::state::App;

/// How long a part may take to answer before it counts as not ready.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The parts of a server, each with `ok` or what is wrong with it.
#[derive(Serialize)]
struct Readiness {
    ready: bool,
    /// Those with which something is wrong, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    parts: BTreeMap<String, String>,
}

/// The process runs.
#[allow(clippy::unused_async)] // a handler of axum is async
pub(crate) async fn live() -> Response {
    reply::json(StatusCode::OK, &serde_json::json!({"status": "ok"}))
}

/// Every store answers and takes writes, or is only full: it is drained through the servers, and
/// whoever takes them out of service keeps it full. And the server does not stop.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let mut parts = BTreeMap::new();
    let mut ready = !app.closing.is_cancelled();
    for pool in app.pools.iter() {
        let said = match timeout(TIMEOUT, pool.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                ready &= error.kind() == ErrorKind::Full;
                Some(error.to_string())
            }
            Err(_) => {
                ready = false;
                Some(no_answer())
            }
        };
        parts.insert(format!("pool {}", pool.name()), said);
    }
    let calls = async {
        app.shared.version().await?;
        app.shared.put(Table::Ready, "", "").await
    };
    let said = match timeout(TIMEOUT, calls).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            ready &= error.is_full();
            Some(error.to_string())
        }
        Err(_) => {
            ready = false;
            Some(no_answer())
        }
    };
    parts.insert("shared state".to_owned(), said);
    if app.closing.is_cancelled() {
        parts.insert("server".to_owned(), Some("it stops".to_owned()));
    }
    let faults = parts
        .iter()
        .filter_map(|(part, said)| said.as_ref().map(|said| format!("{part}: {said}")));
    let detail = faults.collect::<Vec<_>>().join("; ");
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

fn no_answer() -> String {
    format!("no answer within {TIMEOUT:?}")
}
