//! Many events at once: changed, or erased, a bounded part with each request.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use duly::admin::{ErasureCursor, EventAction, EventCursor};
use duly::time::{Timestamp, When};
use serde::Deserialize;
use utoipa::ToSchema;

use super::access::{self, granted_namespace_json};
use super::event::{SPAN_MS_MAX, text};
use super::event_list::{EventQuery, QUEUES_MAX, events};
use super::input::{self, InPath, NamespacePath};
use super::problem::{Problem, Problems, Result};
use super::queue_list::check_name;
use super::records::check_time;
use crate::api::{ChangedEvents, ErasedEvents};
use crate::auth::{Grant, Scope};
use crate::bus::Pool;
use crate::lmstfy::names::is_name;
use crate::state::App;

/// The most events that one request changes.
const LIMIT_MAX: usize = 1_000;

/// What is done to the events that match and wait.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BulkAction {
    /// Nothing: they are counted.
    Count,
    /// They are cancelled.
    Cancel,
    /// They are due after `delay_ms`, or at `due_ms`.
    Reschedule,
    /// They are due now.
    RunNow,
}

/// Which events, and what is done to those that wait; all filters must match, and there is one at
/// least, or a queue.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventBulk {
    /// What is done.
    action: BulkAction,
    /// Those of this queue. Default: all queues that the token administers.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "close"
    )]
    queue: Option<String>,
    /// Those with this key. Excludes `unique`.
    #[schema(min_length = 1, max_length = 256, example = "customer:8")]
    key: Option<String>,
    /// The one that holds this unique key.
    #[schema(min_length = 1, max_length = 256)]
    unique: Option<String>,
    /// Those with this text in their key, unique key, headers or payload, case-sensitively.
    #[schema(min_length = 1, max_length = 256)]
    contains: Option<String>,
    /// Those in this state.
    #[schema(value_type = Option<String>, pattern = "^(scheduled|ready|leased|dead)$",
        example = "scheduled")]
    state: Option<String>,
    /// Those that are due at this time or later, in milliseconds since the epoch.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4102444800000u64)]
    since_ms: Option<u64>,
    /// Those that are due before this time, in milliseconds since the epoch.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4102444800000u64)]
    until_ms: Option<u64>,
    /// Those that were pushed until then, in milliseconds since the epoch, so that a sweep ends.
    /// Default: now; the answer says it for the next request.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4102444800000u64)]
    pushed_until_ms: Option<u64>,
    /// For `reschedule`: due so long after the first request of the sweep, in milliseconds; `after`
    /// keeps that time. Excludes `due_ms`.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4294967295000u64, example = 60000)]
    delay_ms: Option<u64>,
    /// For `reschedule`: due then, in milliseconds since the epoch.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4102444800000u64)]
    due_ms: Option<u64>,
    /// The `next` of the answer before.
    #[schema(min_length = 1, max_length = 1200)]
    after: Option<String>,
    /// About how many events are changed, 1 to 1,000: to keep a rate. Default: 1,000.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 1, maximum = 1000, example = 100)]
    limit: Option<usize>,
}

impl EventBulk {
    fn selects_nothing(&self) -> bool {
        let texts = [
            &self.queue,
            &self.key,
            &self.unique,
            &self.contains,
            &self.state,
        ];
        let times = [self.since_ms, self.until_ms];
        texts.iter().all(|it| it.is_none()) && times.iter().all(Option::is_none)
    }

    fn action(&self) -> Result<Option<EventAction>> {
        let when = match (self.delay_ms, self.due_ms) {
            (None, None) => None,
            (Some(delay), None) if delay <= SPAN_MS_MAX => {
                Some(When::After(Duration::from_millis(delay)))
            }
            (Some(delay), None) => {
                return Err(Problem::invalid(format!(
                    "delay_ms is {delay}; it must be at most {SPAN_MS_MAX}"
                )));
            }
            (None, due) => {
                check_time("due_ms", due)?;
                due.map(|due| When::At(Timestamp::from_millis(due)))
            }
            (Some(_), Some(_)) => {
                return Err(Problem::invalid("delay_ms and due_ms were given; give one"));
            }
        };
        match (self.action, when) {
            (BulkAction::Reschedule, Some(when)) => Ok(Some(EventAction::Reschedule(when))),
            (BulkAction::Reschedule, None) => Err(Problem::invalid(
                "action is reschedule; give delay_ms or due_ms",
            )),
            (_, Some(_)) => Err(Problem::invalid(
                "delay_ms and due_ms are of the action reschedule; leave them out",
            )),
            (BulkAction::Count, None) => Ok(None),
            (BulkAction::Cancel, None) => Ok(Some(EventAction::Cancel)),
            (BulkAction::RunNow, None) => Ok(Some(EventAction::Reschedule(When::Now))),
        }
    }

    /// What was done, and to what, for the audit.
    fn said(&self) -> Option<(&'static str, String)> {
        let action = match self.action {
            BulkAction::Count => return None,
            BulkAction::Cancel => "events cancelled",
            BulkAction::Reschedule | BulkAction::RunNow => "events rescheduled",
        };
        let mut words = vec![self.queue.clone().unwrap_or_else(|| "*".to_owned())];
        let texts = [
            ("key", &self.key),
            ("unique key", &self.unique),
            ("containing", &self.contains),
            ("state", &self.state),
        ];
        let texts = texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, text.as_ref()?)));
        words.extend(texts.map(|(name, text)| format!("{name} {text}")));
        let times = [("due from", self.since_ms), ("due before", self.until_ms)];
        let times = times.into_iter().filter_map(|(name, at)| Some((name, at?)));
        words.extend(times.map(|(name, at)| format!("{name} {}", Timestamp::from_millis(at))));
        Some((action, words.join(", ")))
    }
}

/// Returns the queues of a namespace that a request is about and that its token administers.
async fn queues(
    pool: &Pool,
    grant: &Grant,
    namespace: &str,
    queue: Option<&str>,
) -> Result<Vec<String>> {
    if let Some(queue) = queue {
        return Ok(vec![pool.queue(namespace, queue)?.name().to_string()]);
    }
    let prefix = format!("{namespace}.");
    let known = pool.bus().queues().await?;
    let is_seen = |name: &str| {
        let name = name.strip_prefix(&prefix);
        // Others are the bus's own.
        name.is_some_and(|name| is_name(name) && grant.allows(Scope::Admin, name).is_ok())
    };
    let queues = known.iter().filter(|queue| is_seen(queue.as_str()));
    let queues: Vec<String> = queues.map(ToString::to_string).collect();
    if queues.len() > QUEUES_MAX {
        return Err(Problem::invalid(format!(
            "the namespace has {} queues, and one request looks through {QUEUES_MAX}; give `queue`",
            queues.len()
        )));
    }
    Ok(queues)
}

/// Changes events that wait, about a thousand with each request: cancels, reschedules or runs them
#[utoipa::path(
    post, path = "/v1/{namespace}/events/change", operation_id = "changeEvents", tag = "events",
    params(NamespacePath), request_body = EventBulk,
    responses((status = 200, description = "A part of them is changed", body = ChangedEvents), Problems)
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let granted = granted_namespace_json(&app, &headers, &namespace, Scope::Admin, body);
    let (pool, (grant, _), bulk): (_, _, EventBulk) = granted.await?;
    let limit = bulk.limit.unwrap_or(LIMIT_MAX);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {LIMIT_MAX}"
        )));
    }
    if bulk.selects_nothing() {
        return Err(Problem::invalid(
            "nothing selects the events; give a queue, a key, a text, a state or a time",
        ));
    }
    let action = bulk.action()?;
    check_time("pushed_until_ms", bulk.pushed_until_ms)?;
    let pushed_until = match bulk.pushed_until_ms {
        Some(until) => Timestamp::from_millis(until),
        None => pool.bus().store_time(),
    };
    let after = bulk.after.as_deref().map(str::parse::<EventCursor>);
    let after = after.transpose()?;
    let said = bulk.said();
    let wanted = bulk.queue;
    let grant = match &wanted {
        Some(queue) => {
            check_name(queue)?;
            grant.to_queues([queue])
        }
        None => grant,
    };
    let query = EventQuery {
        key: bulk.key,
        unique: bulk.unique,
        contains: bulk.contains,
        state: bulk.state,
        since_ms: bulk.since_ms,
        until_ms: bulk.until_ms,
        ..EventQuery::default()
    };
    let mut events = events(pool, query)?.limit(limit).pushed_until(pushed_until);
    let work = access::work_of(action.is_none());
    let change = async {
        let allowed = grant.check(&app.tokens).await?;
        let queues = queues(pool, &allowed, &namespace, wanted.as_deref()).await?;
        if let Some((action, target)) = said {
            let place = (pool, namespace.as_str(), target.as_str());
            access::audit_bulk(&app, &headers, action, place, (after.is_some(), false)).await;
        }
        if queues.is_empty() {
            return Ok(None);
        }
        for queue in &queues {
            events = events.queue(queue);
        }
        Ok(Some(events.after(after).change_page(action).await?))
    };
    let (page, _) = access::step(&app, work, &grant, change).await?;
    let mut result = ChangedEvents {
        pushed_until_ms: pushed_until.as_millis(),
        ..ChangedEvents::default()
    };
    if let Some(page) = page {
        result.matched = page.matched;
        result.changed = page.changed;
        result.next = page.next.map(|next| next.to_string());
    }
    Ok(Json(result).into_response())
}

/// Whose events are erased.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EraseRequest {
    /// The key of the events.
    #[schema(min_length = 1, max_length = 256, example = "customer:8")]
    key: String,
    /// Those of this queue. Default: all queues of the namespace, which needs a token for all of them.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "close"
    )]
    queue: Option<String>,
    /// Whether events that wait are cancelled; else the request is refused while there are some.
    #[serde(default)]
    cancel: bool,
    /// Whether nothing is changed, only counted.
    #[serde(default)]
    dry_run: bool,
    /// The `next` of the answer before.
    #[schema(min_length = 1, max_length = 1200)]
    after: Option<String>,
}

/// Erases payloads, headers, replies and error texts of the events of a key, a part with each request;
/// that the events were, and how they ended, stays
#[utoipa::path(
    post, path = "/v1/{namespace}/events/erase", operation_id = "eraseEvents", tag = "events",
    params(NamespacePath), request_body = EraseRequest,
    responses((status = 200, description = "A part of it is erased", body = ErasedEvents), Problems)
)]
pub(super) async fn erase(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let granted = granted_namespace_json(&app, &headers, &namespace, Scope::Admin, body);
    let (pool, (lasting, grant), request): (_, _, EraseRequest) = granted.await?;
    let key = text("key", request.key, 1)?;
    let mut erasure = pool.bus().erase(&key);
    let target = match &request.queue {
        Some(queue) => {
            check_name(queue)?;
            grant.allows(Scope::Admin, queue)?;
            erasure = erasure.queue(pool.queue(&namespace, queue)?.name());
            queue.as_str()
        }
        None => {
            grant.allows_all(Scope::Admin)?;
            erasure = erasure.namespace(&namespace);
            "*"
        }
    };
    let actor = access::actor(&app, &headers, pool, &namespace);
    erasure = erasure.by(&actor);
    if request.cancel {
        erasure = erasure.cancel();
    }
    if request.dry_run {
        erasure = erasure.dry_run();
    }
    let after = request.after.as_deref().map(str::parse::<ErasureCursor>);
    let after = after.transpose()?;
    let goes_on = after.is_some();
    // Of all queues, as no queue is called so.
    let lasting = lasting.to_queues([target]);
    let mut has_begun = false;
    let erase = async {
        has_begun = true;
        Ok(erasure.step(after).await?)
    };
    let work = access::work_of(request.dry_run);
    let step = access::step(&app, work, &lasting, erase).await;
    // One whose token has ended meanwhile has a line as well.
    let is_done = step.is_ok() || step.as_ref().is_err_and(Problem::is_refusal);
    if !request.dry_run && has_begun && is_done {
        let target = format!("{target}, key {key}");
        let place = (pool, namespace.as_str(), target.as_str());
        let action = "events of a key erased";
        access::audit_bulk(&app, &headers, action, place, (goes_on, true)).await;
    }
    Ok(Json(ErasedEvents::from(&step?.0)).into_response())
}
