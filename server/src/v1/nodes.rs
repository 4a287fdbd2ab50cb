//! The nodes that have handlers for queues of a namespace.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use super::access::{self, granted_namespace_lasting};
use super::input::{InPath, NamespacePath};
use super::problem::{Problems, Result};
use crate::admission::Work;
use crate::api::{NodeList, NodeView};
use crate::auth::Scope;
use crate::state::App;

/// The most nodes of a list: a store with more is none that was tried.
const NODES_MAX: usize = 1_000;

/// Returns the processes that have handlers for queues of a namespace
#[utoipa::path(
    get, path = "/v1/{namespace}/nodes", operation_id = "listNodes", tag = "queues",
    params(NamespacePath),
    responses((status = 200, description = "The nodes", body = NodeList), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
) -> Result<Response> {
    // Which machines there are is for who administers queues.
    let scope = Scope::Admin;
    let (pool, lasting) = granted_namespace_lasting(&app, &headers, &namespace, scope).await?;
    lasting.check(&app.tokens).await?.allows_anywhere(scope)?;
    let read = async { Ok(pool.bus().nodes().await?) };
    let (nodes, grant) = access::step(&app, Work::Read, &lasting, read).await?;
    grant.allows_anywhere(scope)?;
    let prefix = format!("{namespace}.");
    let seen = |queue: &str| {
        let name = queue.strip_prefix(&prefix)?;
        let is_seen = grant.allows(Scope::Admin, name).is_ok();
        is_seen.then(|| name.to_owned())
    };
    let items = nodes.iter().filter_map(|node| NodeView::new(node, seen));
    let items = items.take(NODES_MAX).collect();
    Ok(Json(NodeList { items }).into_response())
}
