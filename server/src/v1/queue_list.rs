//! The queues of a namespace.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::access::granted_namespace;
use super::input::{InPath, NamespacePath};
use super::problem::{Problem, Problems, Result};
use crate::auth::Scope;
use crate::shared::Table;
use crate::state::App;

/// The most names of a page.
const LIMIT_MAX: usize = 1_000;

/// Which page of the names.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct QueuePageQuery {
    /// The `next` of the page before: the last name of it.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "close"
    )]
    after: Option<String>,
    /// The size of the page, 1 to 1,000. Default: 1,000.
    #[param(minimum = 1, maximum = 1000, example = 100)]
    limit: Option<usize>,
}

/// A page of names of queues.
#[derive(Serialize, ToSchema)]
pub(super) struct QueuePage {
    /// The names, sorted.
    #[schema(example = json!(["close"]))]
    items: Vec<String>,
    /// The `after` of the next page; absent after the last one.
    #[schema(example = "close")]
    next: Option<String>,
}

/// Lists the queues of a namespace, page by page
///
/// Those that were published to through a server, and that the token may consume, by name.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues", operation_id = "listQueues", tag = "queues",
    params(NamespacePath, QueuePageQuery),
    responses((status = 200, description = "A page of names", body = QueuePage), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
    page: std::result::Result<Query<QueuePageQuery>, QueryRejection>,
) -> Result<Response> {
    let (pool, grant) = granted_namespace(&app, &headers, &namespace).await?;
    let Query(QueuePageQuery { after, limit }) = page?;
    let limit = limit.unwrap_or(LIMIT_MAX);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {LIMIT_MAX}"
        )));
    }
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_name = |name: &str| (1..=255).contains(&name.len()) && name.bytes().all(is_legal);
    if after.as_deref().is_some_and(|after| !is_name(after)) {
        let why = "after is no name of a queue; it must be the `next` of the page before";
        return Err(Problem::invalid(why));
    }
    let prefix = format!("{}/{namespace}/", pool.name());
    let known = app.shared.list(Table::Queues, &prefix).await?;
    let mut queues = known
        .iter()
        .filter_map(|(key, _)| key.strip_prefix(&prefix))
        .filter(|queue| after.as_deref().is_none_or(|after| *queue > after))
        .filter(|queue| grant.allows(Scope::Consume, queue).is_ok())
        .map(str::to_owned);
    let items: Vec<_> = queues.by_ref().take(limit).collect();
    let next = queues.next().and_then(|_| items.last().cloned());
    Ok(Json(QueuePage { items, next }).into_response())
}
