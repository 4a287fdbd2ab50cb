//! The queues of a namespace: their names, and all of them with their counts.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use duly::QueueName;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::access::{self, granted_namespace_lasting};
use super::input::{InPath, NamespacePath};
use super::problem::{Problem, Problems, Result};
use crate::admission::Work;
use crate::api::{NamedQueue, Overview};
use crate::auth::{Grant, Scope};
use crate::lmstfy::names::{NAME_BYTES_MAX, is_name};
use crate::overview;
use crate::state::App;

/// The most queues of a page.
const LIMIT_MAX: usize = overview::PAGE_MAX;

/// Which page of the queues.
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

/// The queues of a namespace that a token may consume.
pub(super) struct SeenQueues {
    prefix: String,
    grant: Arc<Grant>,
}

impl SeenQueues {
    pub(super) fn new(namespace: &str, grant: Arc<Grant>) -> Self {
        let prefix = format!("{namespace}.");
        Self { prefix, grant }
    }

    /// Returns the name of a queue within the namespace, if the token may see it.
    pub(super) fn name<'a>(&self, queue: &'a QueueName) -> Option<&'a str> {
        let name = queue.strip_prefix(&self.prefix)?;
        let is_seen = is_name(name) && self.grant.allows(Scope::Consume, name).is_ok();
        is_seen.then_some(name)
    }
}

/// Checks the name of a queue within its namespace.
pub(super) fn check_name(name: &str) -> Result<()> {
    if is_name(name) && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "a queue has 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"
    )))
}

/// Checks a page; returns where it begins, and its size.
fn checked(namespace: &str, query: QueuePageQuery) -> Result<(Option<QueueName>, usize)> {
    let QueuePageQuery { after, limit } = query;
    let limit = limit.unwrap_or(LIMIT_MAX);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {LIMIT_MAX}"
        )));
    }
    let Some(after) = after else {
        return Ok((None, limit));
    };
    if !is_name(&after) || after.len() > NAME_BYTES_MAX {
        let why = "after is no name of a queue; it must be the `next` of the page before";
        return Err(Problem::invalid(why));
    }
    let after = QueueName::new(&format!("{namespace}.{after}"))?;
    Ok((Some(after), limit))
}

/// Lists the queues of a namespace, page by page
///
/// Those that were ever pushed to or consumed, and that the token may consume, by name.
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
    let scope = Scope::Consume;
    let (pool, grant) = granted_namespace_lasting(&app, &headers, &namespace, scope).await?;
    let Query(page) = page?;
    let (after, limit) = checked(&namespace, page)?;
    let read = async { Ok(pool.bus().queues().await?) };
    let (known, grant) = access::step(&app, Work::Read, &grant, read).await?;
    let seen = SeenQueues::new(&namespace, grant);
    let known = known.iter();
    let known = known.filter(|queue| after.as_ref().is_none_or(|after| *queue > after));
    let mut queues = known
        .filter_map(|queue| seen.name(queue))
        .map(str::to_owned);
    let items: Vec<_> = queues.by_ref().take(limit).collect();
    let next = queues.next().and_then(|_| items.last().cloned());
    Ok(Json(QueuePage { items, next }).into_response())
}

/// Counts the events of all queues of a namespace, page by page
///
/// The same queues as in the list, each with its settings and what ended in the last minute. One that
/// cannot be counted says so, and keeps no other from being counted.
#[utoipa::path(
    get, path = "/v1/{namespace}/overview", operation_id = "getOverview", tag = "queues",
    params(NamespacePath, QueuePageQuery),
    responses((status = 200, description = "A page of queues", body = Overview), Problems)
)]
pub(super) async fn overview(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
    page: std::result::Result<Query<QueuePageQuery>, QueryRejection>,
) -> Result<Response> {
    let scope = Scope::Consume;
    let (pool, grant) = granted_namespace_lasting(&app, &headers, &namespace, scope).await?;
    let Query(page) = page?;
    let (after, limit) = checked(&namespace, page)?;
    let read = async {
        let allowed = grant.check(&app.tokens).await?;
        let seen = SeenQueues::new(&namespace, allowed);
        let is_seen = |queue: &QueueName| seen.name(queue).is_some();
        let counted = overview::page(pool.bus(), pool.ended(), is_seen, after.as_ref(), limit);
        Ok((counted.await?, pool.bus().nodes().await?))
    };
    let ((counted, nodes), grant) = access::step(&app, Work::Read, &grant, read).await?;
    let seen = SeenQueues::new(&namespace, grant);
    let is_seen = |queue: &QueueName| seen.name(queue).is_some();
    let items = counted.items.iter().filter_map(|it| {
        let name = seen.name(&it.queue)?.to_owned();
        Some(NamedQueue::new(name, it))
    });
    let next = counted.next.as_deref();
    let next = next.and_then(|next| next.strip_prefix(&seen.prefix));
    Ok(Json(Overview {
        items: items.collect(),
        next: next.map(str::to_owned),
        nodes: nodes
            .iter()
            .filter(|node| node.queues.iter().any(is_seen))
            .count(),
        now_ms: pool.bus().store_time().as_millis(),
    })
    .into_response())
}
