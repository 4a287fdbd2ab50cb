//! The queues of a namespace.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use super::access::granted_namespace;
use super::input::{InPath, NamespacePath};
use super::problem::{Problems, Result};
use crate::auth::Scope;
use crate::shared::Table;
use crate::state::App;

/// Lists the queues of a namespace
///
/// Those that were published to through a server, and that the token may consume, by name.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues", operation_id = "listQueues", tag = "queues",
    params(NamespacePath),
    responses((status = 200, description = "The names of the queues", body = [String]), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
) -> Result<Response> {
    let (pool, grant) = granted_namespace(&app, &headers, &namespace).await?;
    let prefix = format!("{}/{namespace}/", pool.name());
    let known = app.shared.list(Table::Queues, &prefix).await?;
    let queues = known
        .iter()
        .filter_map(|(key, _)| key.strip_prefix(&prefix))
        .filter(|queue| grant.allows(Scope::Consume, queue).is_ok());
    Ok(Json(queues.collect::<Vec<_>>()).into_response())
}
