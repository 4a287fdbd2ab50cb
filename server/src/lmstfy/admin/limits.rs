//! Limits of tokens.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

use super::OPERATOR;
use super::account::Actor;
use super::tokens::target;
use crate::auth::{Limit, LimitChange, LimitError};
use crate::http::reply;
use crate::lmstfy::check::split;
use crate::lmstfy::{ApiError, Result};
use crate::shares::Owner;
use crate::state::App;

/// The largest body.
const BODY_BYTES_MAX: usize = 64 * 1024;

type Names = Path<(String, String)>;

/// A limit, with its fields in the order of the original.
#[derive(Serialize)]
struct LimitView {
    read: i64,
    write: i64,
    interval: i64,
}

impl From<Limit> for LimitView {
    fn from(limit: Limit) -> Self {
        let Limit {
            read,
            write,
            interval,
        } = limit;
        Self {
            read,
            write,
            interval,
        }
    }
}

/// `GET /token/:ns/:token/limit`.
pub(super) async fn get(State(app): State<Arc<App>>, Path((namespace, token)): Names) -> Response {
    let (pool, text) = split(&token);
    match app.tokens.limit(pool, &namespace, text).await {
        Ok(Some(limit)) => reply::json(StatusCode::OK, &LimitView::from(limit)),
        Ok(None) => reply::json(StatusCode::NOT_FOUND, &json!(null)),
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// `POST /token/:ns/:token/limit`.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Names,
    Extension(actor): Extension<Actor>,
    request: Request,
) -> Response {
    let set = set(&app, (&namespace, &token), &actor, request, true).await;
    set.unwrap_or_else(ApiError::into_response)
}

/// `PUT /token/:ns/:token/limit`.
pub(super) async fn replace(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Names,
    Extension(actor): Extension<Actor>,
    request: Request,
) -> Response {
    let set = set(&app, (&namespace, &token), &actor, request, false).await;
    set.unwrap_or_else(ApiError::into_response)
}

async fn set(
    app: &App,
    (namespace, token): (&str, &str),
    actor: &Actor,
    request: Request,
    is_new: bool,
) -> Result<Response> {
    let operator = Owner::new("", "", OPERATOR);
    #[allow(clippy::disallowed_methods)] // an operator, without a token
    let read = app
        .bodies
        .read(&operator, request.into_body(), BODY_BYTES_MAX);
    let (bytes, _) = read
        .await
        .map_err(|_| ApiError::bad("failed to read body"))?;
    let limit: Limit =
        serde_json::from_slice(&bytes).map_err(|error| ApiError::bad(error.to_string()))?;
    let view = || json!({"limiter": LimitView::from(limit)});
    match limit.check() {
        Ok(()) => {}
        Err(LimitError::Empty) => return Ok(reply::json(StatusCode::BAD_REQUEST, &view())),
        Err(error @ LimitError::NoInterval) => return Err(ApiError::bad(error.to_string())),
        Err(error @ LimitError::Negative) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return Err(ApiError::Refused(status, error.to_string()));
        }
    }
    let (pool, text) = split(token);
    let tokens = &app.tokens;
    let set = tokens.set_limit((pool, namespace, text), &limit, is_new);
    match set.await? {
        LimitChange::Done => {}
        LimitChange::Exists => {
            let text = format!("throttler token({text}) has already exists");
            return Err(ApiError::Refused(StatusCode::INTERNAL_SERVER_ERROR, text));
        }
        LimitChange::NoToken => return Err(no_token()),
    }
    let target = target(app, pool, namespace, text);
    app.tokens.audit(&actor.0, "limit set", &target).await;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(reply::json(status, &view()))
}

fn no_token() -> ApiError {
    ApiError::not_found("no token has this handle")
}

/// `DELETE /token/:ns/:token/limit`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Names,
    Extension(actor): Extension<Actor>,
) -> Response {
    let (pool, text) = split(&token);
    match app.tokens.remove_limit((pool, &namespace, text)).await {
        Ok(LimitChange::NoToken) => return no_token().into_response(),
        Ok(_) => {}
        Err(error) => return ApiError::from(error).into_response(),
    }
    let target = target(&app, pool, &namespace, text);
    app.tokens.audit(&actor.0, "limit removed", &target).await;
    reply::json(StatusCode::OK, &json!({"msg": "success"}))
}

/// `GET /limits`.
pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    let limits = match app.tokens.limits().await {
        Ok(limits) => limits,
        Err(error) => return ApiError::from(error).into_response(),
    };
    let limits = limits.into_iter().map(|(_, namespace, token, limit)| {
        json!({"namespace": namespace, "token": token, "limiter": LimitView::from(limit)})
    });
    reply::json(StatusCode::OK, &limits.collect::<Vec<_>>())
}
