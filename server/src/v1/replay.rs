//! Replay: events of records are pushed once more, about a thousand with each request.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use duly::records::{Cause, Outcome};
use serde::Deserialize;
use utoipa::ToSchema;

use super::access::{self, granted_lasting};
use super::event::text;
use super::input::{self, InPath, QueuePath};
use super::problem::{Problem, Problems, Result};
use super::records::{self, LIMIT_MAX, RecordFilter, check_time};
use crate::api::ReplayedRecords;
use crate::auth::Scope;
use crate::state::App;

/// The longest name of a replay, in bytes.
const NAME_MAX: usize = 128;

/// Which records are replayed; all filters must match.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordReplay {
    /// The name of the replay: a request that is repeated under the same name pushes nothing again, for a
    /// minute at least and a day at most: on Redis while its events are among the last 10,000 that ended in
    /// their bucket.
    #[schema(
        min_length = 1,
        max_length = 128,
        example = "bank was down, 26 November"
    )]
    name: String,
    /// Those with this outcome. Default: all that an event ends with.
    #[schema(value_type = Option<String>, example = "expired",
        pattern = "^(acked|discarded|cancelled|expired|dropped)$")]
    outcome: Option<Outcome>,
    /// Those that failed for this cause.
    #[schema(value_type = Option<String>, example = "too_late",
        pattern = "^(failed|timed_out|panicked|undecodable|interrupted|lease_lost|too_late|undecryptable)$")]
    cause: Option<Cause>,
    /// Those with an error that contains this text, case-sensitively.
    #[schema(min_length = 1, max_length = 256, example = "the bank")]
    error: Option<String>,
    /// Those of events with this key.
    #[schema(min_length = 1, max_length = 256, example = "customer:8")]
    key: Option<String>,
    /// Those that ended at this time or later, in milliseconds since the epoch.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4102444800000u64)]
    since_ms: Option<u64>,
    /// Those that ended before this time, in milliseconds since the epoch. Default, and at most: now,
    /// so that what is replayed is not replayed again; the answer says it for the next request.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4102444800000u64)]
    until_ms: Option<u64>,
    /// The version of the payloads that name none, as they do not unless they were replaced; to be given
    /// wherever events were pushed with one. Default: 0, as of all that is pushed over HTTP without a version.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4294967295u64)]
    version: Option<u32>,
    /// Whether nothing is pushed, only counted.
    #[serde(default)]
    dry_run: bool,
    /// The `next` of the answer before.
    #[schema(
        min_length = 30,
        max_length = 80,
        pattern = "^[0-9]{1,19}-[0-9]{1,19}-[0-7][0-9A-TV-Za-tv-z]{25}$"
    )]
    after: Option<String>,
    /// About how many records are read, 1 to 1,000: to keep a rate. Default: 1,000.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 1, maximum = 1000, example = 100)]
    limit: Option<u32>,
}

/// Pushes the events of records once more, about a thousand with each request, each as an event of its
/// own that is due now
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/records/replay", operation_id = "replayRecords",
    tag = "records", params(QueuePath), request_body = RecordReplay,
    responses((status = 200, description = "A part of them is replayed", body = ReplayedRecords), Problems)
)]
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let (pool, grant) = granted_lasting(&app, &headers, &namespace, &queue, Scope::Admin).await?;
    let request: RecordReplay = input::json(&app, &grant, &headers, body).await?;
    let name = text("name", request.name, 1)?;
    if name.len() > NAME_MAX {
        return Err(Problem::invalid(format!(
            "name has {} bytes; it must have 1 to {NAME_MAX}",
            name.len()
        )));
    }
    if let Some(outcome) = request.outcome
        && !outcome.is_final()
    {
        return Err(Problem::invalid(format!(
            "outcome is {}; an event that is replayed has ended: acked, discarded, cancelled, expired or \
             dropped. Dead letters are revived",
            outcome.as_str()
        )));
    }
    check_time("until_ms", request.until_ms)?;
    let now_ms = pool.bus().store_time().as_millis();
    let until_ms = request.until_ms.map_or(now_ms, |until| until.min(now_ms));
    let goes_on = request.after.is_some();
    let filter = RecordFilter {
        outcome: request.outcome,
        cause: request.cause,
        error: request.error,
        key: request.key,
        since_ms: request.since_ms,
        until_ms: Some(until_ms),
        after: request.after,
        limit: Some(request.limit.unwrap_or(LIMIT_MAX)),
        ..RecordFilter::default()
    };
    let handle = pool.queue(&namespace, &queue)?;
    let mut replay = pool.bus().replay(&name);
    if let Some(version) = request.version {
        replay = replay.version(version);
    }
    if request.dry_run {
        replay = replay.dry_run();
    }
    let push = async {
        let page = records::read_page(pool, handle.name(), filter).await?;
        grant.check(&app.tokens).await?;
        if !request.dry_run {
            let target = format!("{queue}, replay {name}");
            let place = (pool, namespace.as_str(), target.as_str());
            access::audit_bulk(&app, &headers, "records replayed", place, (goes_on, false)).await;
        }
        Ok((replay.push(&page.items).await?, page.next))
    };
    let ((report, next), _) =
        access::step(&app, access::work_of(request.dry_run), &grant, push).await?;
    let next = next.map(|next| next.to_string());
    Ok(Json(ReplayedRecords::new(report, until_ms, next)).into_response())
}
