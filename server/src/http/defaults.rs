//! Headers that a response has unless its handler has set them.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

/// When a client may try again that was refused for a reason that passes by itself.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Adds what each response has: nothing is kept by a cache, and what may succeed later says when.
pub(crate) async fn add(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let passes = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let headers = response.headers_mut();
    if passes && !headers.contains_key(header::RETRY_AFTER) {
        retry_after(headers, RETRY_AFTER);
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Sets when the client may try again, in whole seconds.
pub(crate) fn retry_after(headers: &mut HeaderMap, wait: Duration) {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
}
