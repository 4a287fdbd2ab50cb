//! Requests that change something in several steps: they are done whole, although the client hangs
//! up in the middle.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use super::{peer, reply};

/// Runs a request that may change something as a task of its own, which ends by itself.
pub(crate) async fn run(request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let response = finish(next.run(request)).await;
    response.unwrap_or_else(|| reply::empty(StatusCode::SERVICE_UNAVAILABLE))
}

/// Runs a part of a request as a task of its own, which ends by itself; returns `None` when the runtime
/// ends.
pub(crate) async fn finish<T: Send + 'static>(
    part: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let running = peer::inherited(part).in_current_span();
    match tokio::spawn(running).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}
