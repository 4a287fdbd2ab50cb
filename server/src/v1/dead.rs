//! Dead letters: list, revive, drop.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::EventId;
use duly::dead_letters::{DeadLetterCursor, DeadLetters};
use serde::Deserialize;
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::access::granted;
use super::problem::{Problem, Result};
use crate::auth::Scope;
use crate::bus::Pool;
use crate::state::App;

type QueuePath = Path<(String, String)>;

/// A page of dead letters.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// The last id of the page before.
    after: Option<String>,
    /// The size of the page, 1 to 1,000. Default: 100.
    limit: Option<usize>,
}

fn letters(pool: &Pool, namespace: &str, queue: &str) -> Result<DeadLetters> {
    let name = pool.queue(namespace, queue)?.name().clone();
    Ok(pool.bus().dead_letters().queue(&name))
}

/// Lists dead letters, by id.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/dead-letters", tag = "dead letters",
    params(("namespace" = String, Path), ("queue" = String, Path), PageQuery),
    responses((status = 200, body = Value), (status = "default", body = Problem))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): QueuePath,
    headers: HeaderMap,
    page: std::result::Result<Query<PageQuery>, QueryRejection>,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let Query(page) = page?;
    let after = match page.after {
        Some(id) => Some(DeadLetterCursor {
            queue: pool.queue(&namespace, &queue)?.name().clone(),
            id: id.parse()?,
        }),
        None => None,
    };
    let letters = letters(pool, &namespace, &queue)?.limit(page.limit.unwrap_or(100));
    let page = letters.after(after).page().await?;
    let views = page.items.iter().map(|letter| {
        let opened = pool
            .bus()
            .keys()
            .open(letter.id, &letter.queue, &letter.payload);
        json!({
            "id": letter.id.to_string(),
            "died_ms": letter.died.map(duly::time::Timestamp::as_millis),
            "tries": letter.tries,
            "key": letter.key,
            "error": letter.error(),
            "payload_base64": opened.ok().map(|opened| STANDARD.encode(&opened.value)),
        })
    });
    let next = page.next.as_ref().map(|cursor| cursor.id.to_string());
    Ok(Json(json!({"items": views.collect::<Vec<_>>(), "next": next})).into_response())
}

/// Dead letters by their ids.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ids {
    /// 1 to 1,000 ids.
    #[schema(value_type = Vec<String>)]
    ids: Vec<EventId>,
}

/// Makes dead letters ready again, with all their attempts.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/dead-letters/revive", tag = "dead letters",
    params(("namespace" = String, Path), ("queue" = String, Path)),
    request_body = Ids,
    responses((status = 200, body = Value), (status = "default", body = Problem))
)]
pub(super) async fn revive(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): QueuePath,
    headers: HeaderMap,
    request: std::result::Result<Json<Ids>, JsonRejection>,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Admin).await?;
    let Json(Ids { ids }) = request?;
    let done = letters(pool, &namespace, &queue)?
        .revive(ids)
        .await?
        .finished()?
        .done;
    Ok(Json(json!({"done": done})).into_response())
}

/// Removes dead letters for good.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/dead-letters/drop", tag = "dead letters",
    params(("namespace" = String, Path), ("queue" = String, Path)),
    request_body = Ids,
    responses((status = 200, body = Value), (status = "default", body = Problem))
)]
pub(super) async fn drop_letters(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): QueuePath,
    headers: HeaderMap,
    request: std::result::Result<Json<Ids>, JsonRejection>,
) -> Result<Response> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Admin).await?;
    let Json(Ids { ids }) = request?;
    let done = letters(pool, &namespace, &queue)?
        .drop(ids)
        .await?
        .finished()?
        .done;
    Ok(Json(json!({"done": done})).into_response())
}
