//! The events of a namespace that are not over, in the order of their due times.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use duly::QueueName;
use duly::admin::{EventListCursor, Events};
use duly::event::State as EventState;
use duly::time::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::{self, granted_namespace_lasting};
use super::event::text;
use super::input::{InPath, NamespacePath};
use super::problem::{Problem, Problems, Result};
use super::queue_list::{SeenQueues, check_name};
use super::records::check_time;
use crate::admission::Work;
use crate::api::{EventPage, ListedEvent};
use crate::auth::Scope;
use crate::bus::Pool;
use crate::state::App;

/// The most events of a page.
const LIMIT_MAX: usize = 1_000;
/// The most queues that one request looks through.
pub(super) const QUEUES_MAX: usize = 1_000;

/// Which events; all filters must match.
#[derive(Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventQuery {
    /// Those of this queue. Default: all queues that the token may consume.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "close"
    )]
    pub(super) queue: Option<String>,
    /// Those with this key. Excludes `unique`.
    #[param(min_length = 1, max_length = 256, example = "customer:8")]
    pub(super) key: Option<String>,
    /// The one that holds this unique key.
    #[param(min_length = 1, max_length = 256, example = "close:7")]
    pub(super) unique: Option<String>,
    /// Those with this text in their key, unique key, headers or payload, case-sensitively. Nothing
    /// is found in an encrypted payload.
    #[param(min_length = 1, max_length = 256, example = "ann@example.org")]
    pub(super) contains: Option<String>,
    /// Those in this state.
    #[param(value_type = Option<String>, pattern = "^(scheduled|ready|leased|dead)$",
        example = "scheduled")]
    pub(super) state: Option<String>,
    /// Those that are due at this time or later, in milliseconds since the epoch.
    #[param(minimum = 0, maximum = 4102444800000u64, example = 1767225600000u64)]
    pub(super) since_ms: Option<u64>,
    /// Those that are due before this time, in milliseconds since the epoch.
    #[param(minimum = 0, maximum = 4102444800000u64, example = 1767312000000u64)]
    pub(super) until_ms: Option<u64>,
    /// The `next` of the page before.
    #[param(min_length = 1, max_length = 1200, example = "~")]
    pub(super) after: Option<String>,
    /// The most events of the page, 1 to 1,000. Default: 100.
    #[param(minimum = 1, maximum = 1000, example = 100)]
    pub(super) limit: Option<usize>,
}

/// Reads the state of a filter.
fn state(word: &str) -> Result<EventState> {
    let open = [
        EventState::Scheduled,
        EventState::Ready,
        EventState::Leased,
        EventState::Dead,
    ];
    let found = open.into_iter().find(|state| state.as_str() == word);
    found.ok_or_else(|| {
        Problem::invalid("state must be scheduled, ready, leased or dead".to_owned())
    })
}

/// Returns the query of the filters, without the queues.
pub(super) fn events(pool: &Pool, query: EventQuery) -> Result<Events> {
    let mut events = pool.bus().events();
    for (name, time) in [("since_ms", query.since_ms), ("until_ms", query.until_ms)] {
        check_time(name, time)?;
    }
    if let Some(since) = query.since_ms {
        events = events.since(Timestamp::from_millis(since));
    }
    if let Some(until) = query.until_ms {
        events = events.until(Timestamp::from_millis(until));
    }
    if let Some(word) = &query.state {
        events = events.state(state(word)?);
    }
    if let Some(contains) = query.contains {
        events = events.contains(text("contains", contains, 1)?);
    }
    match (query.key, query.unique) {
        (Some(_), Some(_)) => Err(Problem::invalid(
            "key and unique were given; give one of them",
        )),
        (Some(key), None) => Ok(events.key(text("key", key, 1)?)),
        (None, Some(unique)) => Ok(events.unique(text("unique", unique, 1)?)),
        (None, None) => Ok(events),
    }
}

/// Lists the events that are not over, in the order of their due times
#[utoipa::path(
    get, path = "/v1/{namespace}/events", operation_id = "listEvents", tag = "events",
    params(NamespacePath, EventQuery),
    responses((status = 200, description = "A page of events", body = EventPage), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
    query: std::result::Result<Query<EventQuery>, QueryRejection>,
) -> Result<Response> {
    let scope = Scope::Consume;
    let (pool, grant) = granted_namespace_lasting(&app, &headers, &namespace, scope).await?;
    let Query(query) = query?;
    let limit = query.limit.unwrap_or(100);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {LIMIT_MAX}"
        )));
    }
    let after = query.after.as_deref().map(str::parse::<EventListCursor>);
    let after = after.transpose()?;
    let wanted = query.queue.clone();
    let grant = match &wanted {
        Some(queue) => {
            check_name(queue)?;
            grant.to_queues([queue])
        }
        None => grant,
    };
    let mut events = events(pool, query)?.limit(limit);
    let list = async {
        let allowed = grant.check(&app.tokens).await?;
        let seen = SeenQueues::new(&namespace, allowed);
        let is_wanted = |queue: &&QueueName| {
            let name = seen.name(queue);
            name.is_some_and(|name| wanted.as_deref().is_none_or(|wanted| wanted == name))
        };
        let known = pool.bus().queues().await?;
        let queues: Vec<&QueueName> = known.iter().filter(is_wanted).collect();
        if queues.is_empty() {
            return Ok(None);
        }
        if queues.len() > QUEUES_MAX {
            return Err(Problem::invalid(format!(
                "the namespace has {} queues, and one request looks through {QUEUES_MAX}; give `queue`",
                queues.len()
            )));
        }
        for queue in queues {
            events = events.queue(queue);
        }
        Ok(Some(events.list(after).await?))
    };
    let (list, grant) = access::step(&app, Work::Read, &grant, list).await?;
    let Some(list) = list else {
        return Ok(Json(EventPage::default()).into_response());
    };
    let seen = SeenQueues::new(&namespace, grant);
    let items = list.items.iter().filter_map(|event| {
        let queue = seen.name(&event.queue)?;
        Some(ListedEvent::new(queue, event))
    });
    let page = EventPage {
        items: items.collect(),
        scanned: list.scanned,
        partial: list.is_partial,
        next: list.next.map(|next| next.to_string()),
    };
    access::large(&app, &headers, (pool, &namespace), &page).await
}
