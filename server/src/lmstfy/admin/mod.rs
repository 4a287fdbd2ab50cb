//! The admin endpoints of the contract.

pub(crate) mod account;
mod audit;
mod info;
mod limits;
mod tokens;

pub(crate) use self::info::metrics;

use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Router, middleware};

use crate::http::reply;
use crate::state::App;

/// The name by which operators have their share of what tokens share.
const OPERATOR: &str = "operator";
/// Plain text.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Returns the routes of the admin listener.
pub(crate) fn router(app: Arc<App>) -> Router {
    let limit = get(limits::get)
        .post(limits::create)
        .put(limits::replace)
        .delete(limits::delete);
    let guarded = Router::new()
        .route("/token/{namespace}", get(tokens::list).post(tokens::create))
        .route(
            "/token/{namespace}/{token}",
            axum::routing::delete(tokens::delete),
        )
        .route("/token/{namespace}/{token}/limit", limit)
        .route("/limits", get(limits::list))
        .route("/audit", get(audit::list))
        .route("/accesslog", post(info::set_access_log))
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            account::check,
        ));
    Router::new()
        .merge(guarded)
        .route("/accesslog", get(info::access_log))
        .route("/pools", get(info::pools))
        .route("/info", get(info::info))
        .route("/version", get(info::version))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(app)
}

#[allow(clippy::unused_async)] // a handler of axum is async
async fn unknown() -> Response {
    reply::with_type(StatusCode::NOT_FOUND, TEXT, "404 page not found")
}
