//! Request ids and the access log: one line a request, and nothing secret in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use duly::EventId;
use duly::event::BucketId;
use tokio::time::Instant;

use crate::clock;

/// The header of a request's id.
const REQUEST_ID: &str = "x-request-id";

/// The switch of the access log.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    listener: &'static str,
    enabled: Arc<AtomicBool>,
}

impl AccessLog {
    pub(crate) fn new(listener: &'static str, enabled: Arc<AtomicBool>) -> Self {
        Self { listener, enabled }
    }
}

/// Adds the id of a request to its response, and logs both.
pub(crate) async fn log(State(log): State<AccessLog>, request: Request, next: Next) -> Response {
    let id = ulid();
    let line = log.enabled.load(Ordering::Relaxed).then(|| {
        let path = shown_path(request.uri().path());
        (request.method().clone(), path, Instant::now())
    });
    let mut response = next.run(request).await;
    if let Some((method, path, began)) = line {
        let status = response.status().as_u16();
        let micros = began.elapsed().as_micros();
        tracing::info!(
            target: "duly_server::access",
            listener = log.listener, %method, path, status, micros, request_id = id, "request"
        );
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Returns a new ULID. An event's id is one as well.
fn ulid() -> String {
    EventId::from_parts(clock::now(), BucketId(fastrand::u16(..)), fastrand::u64(..)).to_string()
}

/// Returns a path without the token that a path of the admin interface names. Queries, which may
/// have one, are not logged at all.
fn shown_path(path: &str) -> String {
    let mut segments: Vec<&str> = path.split('/').collect();
    if segments.get(1) == Some(&"token")
        && let Some(token) = segments.get_mut(3)
    {
        *token = "***";
    }
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_a_path_is_not_shown() {
        assert_eq!(
            shown_path("/token/ns/01SECRET/limit"),
            "/token/ns/***/limit"
        );
        assert_eq!(shown_path("/api/ns/q"), "/api/ns/q");
    }
}
