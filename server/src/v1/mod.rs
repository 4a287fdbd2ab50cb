//! `/v1`: the interface of duly itself, small and regular, described by OpenAPI.
//!
//! [`problem`] is the form of its errors, [`access`] checks tokens; [`events`], [`leases`],
//! [`queues`], [`dead`] and [`webhooks`] are its resources.

mod access;
mod dead;
mod events;
mod leases;
mod problem;
mod queues;
mod webhooks;

use std::sync::Arc;

use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use utoipa::OpenApi;

use self::problem::Problem;
use crate::state::App;

/// The largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 8 << 20;

#[derive(OpenApi)]
#[openapi(
    info(title = "duly", description = "Delayed jobs over HTTP"),
    paths(
        events::push,
        events::get,
        events::cancel,
        events::reschedule,
        events::explain,
        leases::lease,
        leases::settle,
        leases::extend,
        queues::stats,
        queues::set,
        queues::forecast,
        dead::list,
        dead::revive,
        dead::drop_letters,
        webhooks::set,
        webhooks::get,
        webhooks::remove,
        webhooks::list,
    )
)]
struct Description;

/// Returns the routes, which are nested under `/v1`.
pub(crate) fn router(app: Arc<App>) -> Router {
    let event = get(events::get)
        .delete(events::cancel)
        .patch(events::reschedule);
    Router::new()
        .route("/openapi.json", get(openapi))
        .route("/{namespace}/queues/{queue}/events", post(events::push))
        .route("/{namespace}/queues/{queue}/events/{id}", event)
        .route(
            "/{namespace}/queues/{queue}/events/{id}/explanation",
            get(events::explain),
        )
        .route("/{namespace}/queues/{queue}/leases", post(leases::lease))
        .route("/{namespace}/leases/{token}/settle", post(leases::settle))
        .route("/{namespace}/leases/{token}/extend", post(leases::extend))
        .route(
            "/{namespace}/queues/{queue}",
            get(queues::stats).patch(queues::set),
        )
        .route(
            "/{namespace}/queues/{queue}/forecast",
            get(queues::forecast),
        )
        .route("/{namespace}/queues/{queue}/dead-letters", get(dead::list))
        .route(
            "/{namespace}/queues/{queue}/dead-letters/revive",
            post(dead::revive),
        )
        .route(
            "/{namespace}/queues/{queue}/dead-letters/drop",
            post(dead::drop_letters),
        )
        .route(
            "/{namespace}/queues/{queue}/webhook",
            get(webhooks::get)
                .put(webhooks::set)
                .delete(webhooks::remove),
        )
        .route("/{namespace}/webhooks", get(webhooks::list))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(app)
}

#[allow(clippy::unused_async)] // a handler of axum is async
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}

#[allow(clippy::unused_async)] // a handler of axum is async
async fn unknown() -> Response {
    axum::response::IntoResponse::into_response(Problem::not_found("no such path"))
}

#[allow(clippy::unused_async)] // a handler of axum is async
async fn not_allowed() -> Response {
    axum::response::IntoResponse::into_response(Problem::method_not_allowed())
}
