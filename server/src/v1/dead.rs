//! Dead letters: list, revive, drop.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use duly::dead_letters::{BulkResult, DeadLetterCursor, DeadLetters};
use duly::records::Cause;
use duly::time::Timestamp;
use duly::{ErrorKind, EventId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::access::{self, granted_lasting};
use super::event::text;
use super::input::{self, InPath, QueuePath};
use super::problem::{Problem, Problems, Result};
use super::records::{check_time, node};
use crate::admission::Work;
use crate::api::{DeadPage, DeadView, Done};
use crate::auth::{LastingGrant, Scope};
use crate::bus::Pool;
use crate::state::App;

/// The most ids of a request.
const IDS_MAX: usize = 1_000;
/// What is done to many dead letters takes many requests, in which no one says which is the first.
const MAY_GO_ON: bool = true;

/// A page of dead letters.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// Those that died at this time or later, in milliseconds since the epoch.
    #[param(minimum = 0, maximum = 4102444800000u64, example = 1767225600000u64)]
    since_ms: Option<u64>,
    /// Those that died before this time, in milliseconds since the epoch.
    #[param(minimum = 0, maximum = 4102444800000u64, example = 1767312000000u64)]
    until_ms: Option<u64>,
    /// Those whose last attempt failed for this cause.
    #[param(value_type = Option<String>, example = "failed",
        pattern = "^(failed|timed_out|panicked|undecodable|interrupted|lease_lost|too_late|undecryptable)$")]
    cause: Option<Cause>,
    /// Those whose last error contains this text, case-sensitively.
    #[param(min_length = 1, max_length = 256, example = "no such order")]
    error: Option<String>,
    /// Those whose last attempt was on this node.
    #[param(pattern = "^[0-9a-fA-F]{16}$", example = "9f3c51d20b7e4a68")]
    node: Option<String>,
    /// Those with this key.
    #[param(min_length = 1, max_length = 256, example = "customer:8")]
    key: Option<String>,
    /// The `next` of the page before: the last id of it, with its bucket where the id does not name
    /// that.
    #[param(
        min_length = 26,
        max_length = 32,
        pattern = "^[0-7][0-9A-TV-Za-tv-z]{25}(/[0-9]{1,5})?$",
        example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C"
    )]
    after: Option<String>,
    /// The size of the page, 1 to 1,000. Default: 100.
    #[param(minimum = 1, maximum = 1000, example = 100)]
    limit: Option<usize>,
}

impl PageQuery {
    fn filter(self, mut letters: DeadLetters) -> Result<DeadLetters> {
        for (name, time) in [("since_ms", self.since_ms), ("until_ms", self.until_ms)] {
            check_time(name, time)?;
        }
        if let Some(since) = self.since_ms {
            letters = letters.since(Timestamp::from_millis(since));
        }
        if let Some(until) = self.until_ms {
            letters = letters.until(Timestamp::from_millis(until));
        }
        if let Some(cause) = self.cause {
            letters = letters.cause(cause);
        }
        if let Some(error) = self.error {
            letters = letters.error(text("error", error, 1)?);
        }
        if let Some(text) = self.node {
            letters = letters.node(node(&text)?);
        }
        if let Some(key) = self.key {
            letters = letters.key(text("key", key, 1)?);
        }
        Ok(letters)
    }
}

fn letters(pool: &Pool, namespace: &str, queue: &str) -> Result<DeadLetters> {
    let name = pool.queue(namespace, queue)?.name().clone();
    Ok(pool.bus().dead_letters().queue(&name))
}

/// Returns dead letters, by id, page by page
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/dead-letters", operation_id = "listDeadLetters",
    tag = "dead letters", params(QueuePath, PageQuery),
    responses((status = 200, description = "A page of dead letters", body = DeadPage), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    page: std::result::Result<Query<PageQuery>, QueryRejection>,
) -> Result<Response> {
    let (pool, grant) = granted_lasting(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let Query(query) = page?;
    let limit = query.limit.unwrap_or(100);
    if !(1..=IDS_MAX).contains(&limit) {
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {IDS_MAX}"
        )));
    }
    let name = pool.queue(&namespace, &queue)?.name().clone();
    let after = query.after.clone();
    let cursor = |after: String| format!("{name}/{after}").parse::<DeadLetterCursor>();
    let after = after.map(cursor).transpose()?;
    let letters = query.filter(letters(pool, &namespace, &queue)?.limit(limit))?;
    let read = async {
        match letters.after(after).page().await {
            Ok(page) => Ok((page.items, page.next)),
            // A new queue whose name is nearly that of another.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((Vec::new(), None)),
            Err(error) => Err(error.into()),
        }
    };
    let ((items, next), _) = access::step(&app, Work::Read, &grant, read).await?;
    let views = items.iter().map(|letter| DeadView::new(pool.bus(), letter));
    let page = DeadPage {
        items: views.collect(),
        next: next.map(|cursor| match cursor.to_string().split_once('/') {
            Some((_, place)) => place.to_owned(),
            None => cursor.id.to_string(),
        }),
    };
    access::large(&app, &headers, (pool, &namespace), &page).await
}

/// Dead letters by their ids.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ids {
    /// The ids, 1 to 1,000.
    #[schema(value_type = Vec<EventIdText>, min_items = 1, max_items = 1000)]
    ids: Vec<EventId>,
}

/// The id of an event: 26 characters of a ULID.
#[derive(ToSchema)]
#[schema(value_type = String, min_length = 26, max_length = 26,
    pattern = "^[0-7][0-9A-TV-Za-tv-z]{25}$", example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
#[allow(dead_code)] // for the description
pub(super) struct EventIdText(String);

/// Changes dead letters, which is in the audit before it begins, as it may end half-way.
async fn change(
    app: &App,
    headers: &HeaderMap,
    (pool, grant): (&Pool, &LastingGrant),
    (action, target): (&str, (&str, &str)),
    changed: impl Future<Output = duly::Result<BulkResult>>,
) -> Result<Response> {
    let change = async {
        let target = (pool, target.0, target.1);
        access::audit_bulk(app, headers, action, target, (MAY_GO_ON, false)).await;
        match changed.await.and_then(BulkResult::finished) {
            Ok(finished) => Ok(finished.done),
            // A new queue whose name is nearly that of another.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error.into()),
        }
    };
    let (done, _) = access::step(app, Work::Change, grant, change).await?;
    Ok(Json(Done { done }).into_response())
}

/// Checks the token for a change of dead letters; returns the pool, the right, and their ids.
async fn ids<'a>(
    app: &'a App,
    headers: &HeaderMap,
    (namespace, queue): (&str, &str),
    body: HttpBody,
) -> Result<(&'a Pool, LastingGrant, Vec<EventId>)> {
    let (pool, grant) = granted_lasting(app, headers, namespace, queue, Scope::Admin).await?;
    let Ids { ids } = input::json(app, &grant, headers, body).await?;
    match ids.len() {
        1..=IDS_MAX => Ok((pool, grant, ids)),
        len => Err(Problem::invalid(format!(
            "{len} ids; a request has 1 to {IDS_MAX}"
        ))),
    }
}

/// Makes dead letters ready again, with all their attempts
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/dead-letters/revive",
    operation_id = "reviveDeadLetters", tag = "dead letters", params(QueuePath),
    request_body = Ids,
    responses((status = 200, description = "They are ready", body = Done), Problems)
)]
pub(super) async fn revive(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let place = (namespace.as_str(), queue.as_str());
    let (pool, grant, ids) = ids(&app, &headers, place, body).await?;
    let revived = letters(pool, &namespace, &queue)?.revive(ids);
    let what = ("dead letters revived", place);
    change(&app, &headers, (pool, &grant), what, revived).await
}

/// Removes dead letters for good
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/dead-letters/drop",
    operation_id = "dropDeadLetters", tag = "dead letters", params(QueuePath),
    request_body = Ids,
    responses((status = 200, description = "They are gone", body = Done), Problems)
)]
pub(super) async fn drop_letters(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let place = (namespace.as_str(), queue.as_str());
    let (pool, grant, ids) = ids(&app, &headers, place, body).await?;
    let dropped = letters(pool, &namespace, &queue)?.drop(ids);
    let what = ("dead letters dropped", place);
    change(&app, &headers, (pool, &grant), what, dropped).await
}
