//! The HTTP contract of lmstfy: its endpoints, its order of checks, its texts.
//!
//! `path` says which endpoint a request means, `check` who may call it; `publish`,
//! `consume`, `jobs` and `dead` are the endpoints, `admin` those of the other listener.

pub(crate) mod admin;
mod check;
mod consume;
mod dead;
pub(crate) mod delivered;
mod ends;
pub(crate) mod gauges;
mod job;
mod jobs;
/// Names and tokens as the contract writes them.
pub(crate) mod names {
    pub(crate) use super::check::{NAME_BYTES_MAX, check_namespace, is_name, split};
}
mod params;
mod path;
mod publish;
mod respawn_notes;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use duly::ErrorKind;
use http_body::Body as _;
use serde_json::json;
use tokio::time::Instant;

use self::check::Call;
use self::path::{Endpoint, Target};
use crate::admission::Crowded;
use crate::auth::LimitedCall;
use crate::http::{defaults, reply, unread};
use crate::shares::Evicted;
use crate::state::App;
use crate::{metrics, shared};

/// The largest body of a job, in bytes.
pub(crate) const JOB_BYTES_MAX: usize = 1 << 20;

/// Why a request of the contract failed.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// `{"error": ..}` with a status.
    Refused(StatusCode, String),
    /// `{"msg": ..}` with a status.
    Message(StatusCode, String),
    /// `{"msg": ..}`: the token's limit is reached, or too many wait, until so long from now.
    Throttled(String, Duration),
    /// The server's fault; the client learns no more, the log does.
    Internal(Box<dyn std::error::Error + Send + Sync>),
    /// The limiter failed.
    Throttler(Box<dyn std::error::Error + Send + Sync>),
}

impl ApiError {
    fn bad(text: impl Into<String>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, text.into())
    }

    fn not_found(text: &str) -> Self {
        Self::Refused(StatusCode::NOT_FOUND, text.to_owned())
    }

    fn too_large(text: &str) -> Self {
        Self::Refused(StatusCode::PAYLOAD_TOO_LARGE, text.to_owned())
    }

    /// There is no room, which passes by itself, or by what an operator does.
    fn full() -> Self {
        let text = "the server has no room for it now; retry later".to_owned();
        Self::Refused(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// The request had to go, as there were too many of its kind.
    fn evicted(why: Evicted, what: &str) -> Self {
        match why {
            Evicted::Token | Evicted::Namespace => Self::Message(why.status(), why.text(what)),
            Evicted::All => Self::Refused(why.status(), why.text(what)),
        }
    }

    fn into_response(self) -> Response {
        match self {
            Self::Refused(status, text) => reply::json(status, &json!({"error": text})),
            Self::Message(status, text) => reply::json(status, &json!({"msg": text})),
            Self::Throttled(text, wait) => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                let mut response = reply::json(status, &json!({"msg": text}));
                defaults::retry_after(response.headers_mut(), wait);
                response
            }
            Self::Internal(error) => {
                tracing::error!(%error, "request failed");
                internal()
            }
            Self::Throttler(error) => {
                tracing::error!(%error, "limiter failed");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                reply::json(status, &json!({"err": "internal error"}))
            }
        }
    }
}

impl From<duly::Error> for ApiError {
    fn from(error: duly::Error) -> Self {
        match error.kind() {
            ErrorKind::Full => Self::full(),
            _ => Self::Internal(Box::new(error)),
        }
    }
}

impl From<Crowded> for ApiError {
    fn from(crowded: Crowded) -> Self {
        Self::Throttled(crowded.to_string(), Crowded::RETRY_AFTER)
    }
}

impl From<shared::StateError> for ApiError {
    fn from(error: shared::StateError) -> Self {
        if error.is_full() {
            Self::full()
        } else {
            Self::Internal(Box::new(error))
        }
    }
}

type Result<T> = std::result::Result<T, ApiError>;

fn internal() -> Response {
    reply::json(
        StatusCode::INTERNAL_SERVER_ERROR,
        &json!({"error": "internal error"}),
    )
}

/// The response to a request whose handler has panicked.
#[allow(clippy::needless_pass_by_value)] // the signature that the layer takes
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    log_panic(&*panic);
    internal()
}

/// Logs the panic of a handler.
pub(crate) fn log_panic(panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("unknown"), "handler panicked");
}

/// Serves a request of the API.
pub(crate) async fn handle(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let route = match path::target(&parts.method, parts.uri.path()) {
        Target::Endpoint(route) => route,
        Target::Redirect(status, path) => return redirect(status, path, parts.uri.query()),
        Target::Unknown => return ApiError::not_found("api not found").into_response(),
    };
    let began = Instant::now();
    let mut call = match Call::check(&app, route, &parts).await {
        Ok(call) => call,
        Err(error) => return error.into_response(),
    };
    let labels = call.labels();
    match call.take().await {
        Ok(taken) => call.taken = taken,
        Err(error) => return error.into_response(),
    }
    let method = parts.method.clone();
    let response = match dispatch(&mut call, parts, body).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    };
    if call.has_begun {
        call.audit().await;
    }
    let taken = call.taken.take();
    if response.status().is_success() {
        taken.into_iter().for_each(LimitedCall::keep);
    } else if let Some(taken) = taken {
        taken.give_back().await;
    }
    metrics::served(
        &labels,
        call.endpoint_path(),
        &method,
        response.status(),
        began.elapsed(),
    );
    response
}

async fn dispatch(call: &mut Call<'_>, parts: Parts, body: Body) -> Result<Response> {
    let body = if call.route.endpoint.takes_body() {
        body
    } else {
        if !body.is_end_stream() {
            unread::read_out(body).await;
            call.check_again().await?; // it may have taken its time
        }
        Body::empty()
    };
    match call.route.endpoint.clone() {
        Endpoint::Publish => publish::publish(call, &parts, body).await,
        Endpoint::Bulk => publish::bulk(call, &parts, body).await,
        Endpoint::Republish(id) => publish::republish(call, &id, &parts, body).await,
        Endpoint::Consume => {
            let query = parts.uri.query().map(str::to_owned);
            drop(parts); // and with it a buffer of the connection, as the poll may be parked
            consume::consume(call, query.as_deref()).await
        }
        Endpoint::Job(id) => jobs::get(call, &id).await,
        Endpoint::Delete(id) => jobs::delete(call, &id).await,
        Endpoint::Peek => jobs::peek(call).await,
        Endpoint::Size => jobs::size(call).await,
        Endpoint::Destroy => jobs::destroy(call).await,
        Endpoint::DeadSize => dead::size(call).await,
        Endpoint::DeadPeek => dead::peek(call).await,
        Endpoint::Respawn => dead::respawn(call, parts.uri.query()).await,
        Endpoint::DeadDelete => dead::delete(call, parts.uri.query()).await,
    }
}

fn redirect(status: StatusCode, path: String, query: Option<&str>) -> Response {
    let location = match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut response = reply::empty(status);
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// Clients of lmstfy read nothing else of an error that is none of the contract's own.
    #[tokio::test]
    async fn what_there_is_no_room_for_has_an_error() {
        for error in [
            duly::Error::new(ErrorKind::Full, "maxmemory").into(),
            shared::StateError::full("redis", &"maxmemory").into(),
            ApiError::evicted(Evicted::All, "polls"),
        ] {
            let response = ApiError::into_response(error);
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(body.starts_with(br#"{"error":"#), "{body:?}");
        }
    }

    #[tokio::test]
    async fn a_limiter_that_fails_is_told_from_other_errors() {
        for (error, text) in [
            (
                ApiError::Throttler("broken".into()),
                r#"{"err":"internal error"}"#,
            ),
            (
                ApiError::Internal("broken".into()),
                r#"{"error":"internal error"}"#,
            ),
        ] {
            let response = error.into_response();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, text.as_bytes());
        }
    }
}
