//! Defaults of a response whose handler has not set them: headers, and the body of an error.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body;

use super::reply;

/// When a client may try again that was refused for a reason that passes by itself.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Adds what each response has: nothing is kept by a cache, and what may succeed later says when.
pub(crate) async fn add(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if is_bare_error(&response) {
        response = described(response);
    }
    let passes = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::INSUFFICIENT_STORAGE
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

/// Whether a response is an error without a body, as the framework has some. A login that is missing
/// has none by the contract.
fn is_bare_error(response: &Response) -> bool {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let is_empty = response.body().size_hint().exact() == Some(0);
    is_error && is_empty && status != StatusCode::UNAUTHORIZED
}

/// Gives an error a body with the words of its status.
fn described(bare: Response) -> Response {
    let (parts, _) = bare.into_parts();
    let text = parts.status.canonical_reason().unwrap_or("error");
    let json = serde_json::json!({"error": text.to_ascii_lowercase()});
    let mut response = reply::json(parts.status, &json);
    for (name, value) in &parts.headers {
        if *name != header::CONTENT_LENGTH && *name != header::CONTENT_TYPE {
            response.headers_mut().append(name, value.clone());
        }
    }
    response
}

/// Sets when the client may try again, in whole seconds.
pub(crate) fn retry_after(headers: &mut HeaderMap, wait: Duration) {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn what_may_succeed_later_says_when() {
        let said = async |status: StatusCode| {
            let router = Router::new().route("/", get(move || async move { status }));
            let request = Request::new(Body::empty());
            let response = router.layer(from_fn(add)).oneshot(request).await.unwrap();
            assert_eq!(response.status(), status);
            response.headers().contains_key(header::RETRY_AFTER)
        };
        for status in [429, 503, 507] {
            assert!(
                said(StatusCode::from_u16(status).unwrap()).await,
                "{status}"
            );
        }
        for status in [200, 400, 401, 404, 409, 500] {
            assert!(
                !said(StatusCode::from_u16(status).unwrap()).await,
                "{status}"
            );
        }
    }
}
