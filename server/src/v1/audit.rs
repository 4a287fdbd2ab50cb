//! The audit of a namespace: who did what to its queues.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duly::admin::{AuditCursor, AuditFilter, AuditLine};
use duly::time::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::{self, granted_namespace_lasting};
use super::event::text;
use super::input::{InPath, NamespacePath};
use super::problem::{Problem, Problems, Result};
use super::records::check_time;
use crate::admission::Work;
use crate::api::{AuditPage, AuditView};
use crate::auth::{Grant, Scope};
use crate::state::App;

/// The longest target of a line, in bytes.
const TARGET_BYTES_MAX: usize = 1_024;
/// The most lines of a page.
const LIMIT_MAX: usize = 1_000;

/// Which lines, and which page of them; all filters must match.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    /// Those about this queue, its events included, or this schedule, as `target` has it. A token for
    /// some queues must name one of them.
    #[param(min_length = 1, max_length = 1024, example = "shop.close")]
    target: Option<String>,
    /// Those whose actor contains this text.
    #[param(min_length = 1, max_length = 256, example = "ann")]
    actor: Option<String>,
    /// Those whose action contains this text.
    #[param(min_length = 1, max_length = 256, example = "paused")]
    action: Option<String>,
    /// Those of this time or later, in milliseconds since the epoch.
    #[param(minimum = 0, maximum = 4102444800000u64, example = 1767225600000u64)]
    since_ms: Option<u64>,
    /// Those before this time, in milliseconds since the epoch.
    #[param(minimum = 0, maximum = 4102444800000u64, example = 1767312000000u64)]
    until_ms: Option<u64>,
    /// The `next` of the page before.
    #[param(
        min_length = 28,
        max_length = 47,
        pattern = "^(0|[1-9][0-9]{0,18})-[0-7][0-9A-TV-Za-tv-z]{25}$",
        example = "1767225600000-01KBKSY8Q3X4H1W9V0T5RZ7M2C"
    )]
    before: Option<String>,
    /// The most lines that are read for the page, 1 to 1,000. Default: 100.
    #[param(minimum = 1, maximum = 1000, example = 100)]
    limit: Option<usize>,
}

impl AuditQuery {
    fn filter(self, namespace: &str) -> Result<AuditFilter> {
        for (name, time) in [("since_ms", self.since_ms), ("until_ms", self.until_ms)] {
            check_time(name, time)?;
        }
        if let Some(target) = &self.target
            && !(1..=TARGET_BYTES_MAX).contains(&target.len())
        {
            return Err(Problem::invalid(format!(
                "target has {} bytes; it must have 1 to {TARGET_BYTES_MAX}",
                target.len()
            )));
        }
        let checked = |name, value: Option<String>| value.map(|it| text(name, it, 1)).transpose();
        Ok(AuditFilter {
            namespace: Some(namespace.to_owned()),
            target: self.target,
            only_target: false,
            actor: checked("actor", self.actor)?,
            action: checked("action", self.action)?,
            since: self.since_ms.map(Timestamp::from_millis),
            until: self.until_ms.map(Timestamp::from_millis),
        })
    }
}

/// Checks that the token may ask for lines about a target. That of some queues names one of them: how
/// many lines others have would be seen by what `next` says.
fn may_ask(grant: &Grant, prefix: &str, target: Option<&str>) -> Result<()> {
    grant.allows_anywhere(Scope::Admin)?;
    if grant.allows_all(Scope::Admin).is_ok() {
        return Ok(());
    }
    let queue = target.and_then(|target| target.strip_prefix(prefix));
    let queue = queue.map(|queue| queue.split('/').next().unwrap_or_default());
    match queue {
        Some(queue) => Ok(grant.allows(Scope::Admin, queue)?),
        None => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            format!(
                "the token is for some queues of the namespace: `target` must name one of them, such \
                 as {prefix}close"
            ),
        )),
    }
}

/// Whether a line is about queues of the namespace that the token administers, or about a schedule,
/// if it administers all queues: a line does not say whose a schedule was.
fn is_seen(grant: &Grant, prefix: &str, line: &AuditLine) -> bool {
    if let Some(schedule) = line.target.strip_prefix("schedules/") {
        return schedule.starts_with(prefix) && grant.allows_all(Scope::Admin).is_ok();
    }
    let names = line.target.split(',').next().unwrap_or_default();
    names.split(' ').all(|name| {
        let queue = name.strip_prefix(prefix);
        let queue = queue.map(|queue| queue.split('/').next().unwrap_or_default());
        queue.is_some_and(|queue| grant.allows(Scope::Admin, queue).is_ok())
    })
}

/// Returns who did what to the queues and schedules of a namespace, page by page
#[utoipa::path(
    get, path = "/v1/{namespace}/audit", operation_id = "listAudit", tag = "queues",
    params(NamespacePath, AuditQuery),
    responses((status = 200, description = "A page of the audit", body = AuditPage), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
    query: std::result::Result<Query<AuditQuery>, QueryRejection>,
) -> Result<Response> {
    let scope = Scope::Admin;
    let (pool, lasting) = granted_namespace_lasting(&app, &headers, &namespace, scope).await?;
    let grant = lasting.check(&app.tokens).await?;
    grant.allows_anywhere(scope)?;
    let Query(query) = query?;
    let limit = query.limit.unwrap_or(100);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {LIMIT_MAX}"
        )));
    }
    let before = query.before.as_deref().map(str::parse::<AuditCursor>);
    let (before, mut filter) = (before.transpose()?, query.filter(&namespace)?);
    // A page has no line that is hidden: `next` would tell of it.
    filter.only_target = grant.allows_all(scope).is_err();
    let (prefix, target) = (format!("{namespace}."), filter.target.as_deref());
    may_ask(&grant, &prefix, target)?;
    let read = async { Ok(pool.bus().audit_matching(&filter, before, limit).await?) };
    let (page, grant) = access::step(&app, Work::Read, &lasting, read).await?;
    may_ask(&grant, &prefix, target)?;
    let items = page.items.iter();
    let items = items.filter(|line| is_seen(&grant, &prefix, line));
    Ok(Json(AuditPage {
        items: items.map(AuditView::from).collect(),
        next: page.next.map(|next| next.to_string()),
    })
    .into_response())
}
