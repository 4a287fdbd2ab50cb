//! `/v1`: the interface of duly itself, small and regular, described by OpenAPI.
//!
//! [`problem`] is the form of its errors, [`access`] checks tokens, [`input`] reads requests;
//! [`events`], [`bulk`], [`calls`], [`leases`], [`records`], [`replay`], [`queues`], [`dead`], [`schedules`] and
//! [`webhooks`] are its resources, [`schedule_forms`] what is said of a schedule, and [`description`] is what OpenAPI says of them.

mod access;
mod audit;
mod bulk;
mod calls;
mod cut_leases;
mod dead;
mod description;
mod event;
mod event_list;
mod events;
mod input;
mod lease_stream;
mod leases;
mod nodes;
mod problem;
mod push_lines;
mod queue_list;
mod queues;
mod records;
mod replay;
mod schedule_forms;
mod schedules;
mod settlement;
mod webhook_schema;
mod webhooks;

use std::any::Any;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;

use self::problem::Problem;
use crate::http::whole;
use crate::lmstfy::log_panic;
use crate::state::App;

/// Returns the routes, which are nested under `/v1`.
pub(crate) fn router(app: Arc<App>) -> Router {
    let event = get(events::get)
        .delete(events::cancel)
        .patch(events::change);
    Router::new()
        .route("/openapi.json", get(openapi))
        .route("/{namespace}/queues/{queue}/events", post(events::push))
        .route(
            "/{namespace}/queues/{queue}/events/lines",
            post(push_lines::push_lines),
        )
        .route("/{namespace}/queues/{queue}/events/{id}", event)
        .route(
            "/{namespace}/queues/{queue}/explanations/{id}",
            get(events::explain),
        )
        .route(
            "/{namespace}/queues/{queue}/events/{id}/reply",
            get(calls::get_reply),
        )
        .route(
            "/{namespace}/queues/{queue}/leases/stream",
            get(lease_stream::stream_leases),
        )
        .route(
            "/{namespace}/queues/{queue}/leases/stream/drain",
            post(lease_stream::drain_stream),
        )
        .route("/{namespace}/queues/{queue}/records", get(records::list))
        .route(
            "/{namespace}/queues/{queue}/records/replay",
            post(replay::replay),
        )
        .route("/{namespace}/leases/{token}/settle", post(leases::settle))
        .route("/{namespace}/leases/{token}/extend", post(leases::extend))
        .route("/{namespace}/events", get(event_list::list))
        .route("/{namespace}/events/change", post(bulk::change))
        .route("/{namespace}/events/erase", post(bulk::erase))
        .route("/{namespace}/audit", get(audit::list))
        .route("/{namespace}/nodes", get(nodes::list))
        .route("/{namespace}/queues", get(queue_list::list))
        .route("/{namespace}/overview", get(queue_list::overview))
        .route(
            "/{namespace}/queues/{queue}",
            get(queues::stats).patch(queues::set),
        )
        .route(
            "/{namespace}/queues/{queue}/forecast",
            get(queues::forecast),
        )
        .route("/{namespace}/queues/{queue}/purge", post(queues::purge))
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
        .route("/{namespace}/schedules", get(schedules::list))
        .route(
            "/{namespace}/schedules/{schedule}",
            get(schedules::get)
                .put(schedules::set)
                .delete(schedules::remove),
        )
        .route(
            "/{namespace}/schedules/{schedule}/pause",
            post(schedules::pause),
        )
        .route(
            "/{namespace}/schedules/{schedule}/resume",
            post(schedules::resume),
        )
        .route(
            "/{namespace}/schedules/{schedule}/run",
            post(schedules::run),
        )
        .layer(middleware::from_fn(whole::run))
        // These wait for somebody else, and their client may hang up.
        .route("/{namespace}/queues/{queue}/calls", post(calls::call))
        .route("/{namespace}/queues/{queue}/leases", post(leases::lease))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(app)
}

#[allow(clippy::unused_async)] // a handler of axum is async
async fn openapi() -> Response {
    match description::description() {
        Ok(description) => Json(description).into_response(),
        Err(error) => {
            tracing::error!(%error, "description is not encodable");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "internal", "the description is not encodable").into_response()
        }
    }
}

#[allow(clippy::unused_async)] // a handler of axum is async
pub(crate) async fn unknown() -> Response {
    Problem::not_found("no such path").into_response()
}

/// The response to a request that may not be served, whatever it asks for.
pub(crate) fn forbidden(text: &str) -> Response {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", text).into_response()
}

/// The response to a request whose handler has panicked.
#[allow(clippy::needless_pass_by_value)] // the signature that the layer takes
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    log_panic(&*panic);
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    Problem::new(status, "internal", "the request failed; the log says why").into_response()
}

#[allow(clippy::unused_async)] // a handler of axum is async
async fn not_allowed() -> Response {
    Problem::method_not_allowed().into_response()
}
