//! Records: how attempts and events ended.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use duly::records::{Cause, Cursor, NodeId, Outcome, Page, Record, Records};
use duly::time::Timestamp;
use duly::{ErrorKind, EventId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::{self, granted_lasting};
use super::event::text;
use super::input::{InPath, QueuePath};
use super::problem::{Problem, Problems, Result};
use crate::admission::Work;
use crate::api::{RecordPage, RecordView, node_id};
use crate::auth::Scope;
use crate::bus::Pool;
use crate::state::App;

/// The filters of records; all must match.
#[derive(Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordFilter {
    /// Records of this event: its whole history.
    #[param(value_type = Option<String>, min_length = 26, max_length = 26,
        pattern = "^[0-7][0-9A-TV-Za-tv-z]{25}$", example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub(super) id: Option<EventId>,
    /// Records with this outcome.
    #[param(value_type = Option<String>, example = "buried",
        pattern = "^(acked|retried|snoozed|buried|discarded|cancelled|expired|lease_lost|revived|edited|dropped)$")]
    pub(super) outcome: Option<Outcome>,
    /// Records of attempts that failed for this cause.
    #[param(value_type = Option<String>, example = "failed",
        pattern = "^(failed|timed_out|panicked|undecodable|interrupted|lease_lost|too_late|undecryptable)$")]
    pub(super) cause: Option<Cause>,
    /// Records with an error that contains this text, case-sensitively.
    #[param(min_length = 1, max_length = 256, example = "the bank")]
    pub(super) error: Option<String>,
    /// Records of events with this key.
    #[param(min_length = 1, max_length = 256, example = "customer:8")]
    pub(super) key: Option<String>,
    /// Records of attempts on this node.
    #[param(pattern = "^[0-9a-fA-F]{16}$", example = "9f3c51d20b7e4a68")]
    pub(super) node: Option<String>,
    /// What ended at this time or later, in milliseconds since the epoch.
    #[param(minimum = 0, maximum = 4102444800000u64, example = 1767225600000u64)]
    pub(super) since_ms: Option<u64>,
    /// What ended before this time, in milliseconds since the epoch.
    #[param(minimum = 0, maximum = 4102444800000u64, example = 1767312000000u64)]
    pub(super) until_ms: Option<u64>,
    /// Whether the newest come first. Default: the oldest.
    #[param(example = true)]
    pub(super) newest_first: Option<bool>,
    /// The `next` of the page before.
    #[param(
        min_length = 30,
        max_length = 80,
        example = "1767225600000000-7-01KBKSY8Q3X4H1W9V0T5RZ7M2C",
        pattern = "^[0-9]{1,19}-[0-9]{1,19}-[0-7][0-9A-TV-Za-tv-z]{25}$"
    )]
    pub(super) after: Option<String>,
    /// The most records of the page, 1 to 1,000. Default: 100.
    #[param(minimum = 1, maximum = 1000, example = 100)]
    pub(super) limit: Option<u32>,
}

/// The most records of a page.
pub(super) const LIMIT_MAX: u32 = 1_000;
/// The latest time of a filter, in milliseconds since the epoch.
const TIME_MS_MAX: u64 = 4_102_444_800_000;

/// Reads a node of a filter.
pub(super) fn node(text: &str) -> Result<NodeId> {
    node_id(text).ok_or_else(|| Problem::invalid("node must be 16 hexadecimal digits"))
}

/// Checks a time of a filter.
pub(super) fn check_time(name: &str, time: Option<u64>) -> Result<()> {
    match time.filter(|time| *time > TIME_MS_MAX) {
        None => Ok(()),
        Some(time) => Err(Problem::invalid(format!(
            "{name} is {time}; it must be at most {TIME_MS_MAX}"
        ))),
    }
}

/// The most pages that are read for one.
const PAGES_MAX: u32 = 64;

/// The filters that are compared here, record by record: an index by one of these would lead to the
/// records of all queues, and how far it reaches would tell of those of others.
#[derive(Default)]
struct Matching {
    outcome: Option<Outcome>,
    cause: Option<Cause>,
    error: Option<String>,
    key: Option<String>,
    node: Option<NodeId>,
}

impl Matching {
    fn is_all(&self) -> bool {
        let Self {
            outcome,
            cause,
            error,
            key,
            node,
        } = self;
        let has_text = error.is_some() || key.is_some();
        outcome.is_none() && cause.is_none() && !has_text && node.is_none()
    }

    fn has(&self, record: &Record) -> bool {
        let error = record.error.as_deref().unwrap_or_default();
        self.outcome.is_none_or(|it| record.outcome == it)
            && self.cause.is_none_or(|it| record.cause == Some(it))
            && self.error.as_ref().is_none_or(|it| error.contains(it))
            && (self.key.is_none() || record.key == self.key)
            && self.node.is_none_or(|it| record.node == it)
    }
}

/// Reads on until a page is full, within a bound; its `next` is where it stopped.
async fn matching_page(
    records: Records,
    matching: &Matching,
    limit: usize,
    newest_first: bool,
) -> Result<Page<Record>> {
    let (mut items, mut place, mut end) = (Vec::new(), None, None);
    for _ in 0..PAGES_MAX {
        let some = records.clone().limit(LIMIT_MAX);
        let mut page = page_of(some, place, newest_first).await?;
        let mut matches = (0..).zip(&page.items).filter(|(_, it)| matching.has(it));
        if let Some((last, _)) = matches.nth(limit - items.len() - 1) {
            // Up to it, so that the page ends there.
            let some = records.clone().limit(last + 1);
            page = page_of(some, place, newest_first).await?;
        }
        end = page.end.or(end);
        items.extend(page.items.into_iter().filter(|it| matching.has(it)));
        place = page.next;
        if place.is_none() || items.len() >= limit {
            break;
        }
    }
    let mut page = Page::new(items, place);
    page.end = end;
    Ok(page)
}

async fn page_of(
    records: Records,
    after: Option<Cursor>,
    newest_first: bool,
) -> Result<Page<Record>> {
    let records = match after {
        Some(after) => records.after(Some(after)),
        None => records,
    };
    let mut page = match records.page().await {
        // A new queue whose name is nearly that of another.
        Err(error) if error.kind() == ErrorKind::NotFound => Page::new(Vec::new(), None),
        page => page?,
    };
    let items = &page.items;
    let own = |cursor: Cursor| nameless(cursor, items, newest_first);
    (page.next, page.end) = (page.next.map(own), page.end.map(own));
    Ok(page)
}

/// Returns a cursor that names no event of another queue: at the same time it stands before all. One
/// that names no event stays, or what it stands behind would come again.
fn nameless(cursor: Cursor, items: &[Record], newest_first: bool) -> Cursor {
    let is_own = items.iter().any(|record| record.id == cursor.id);
    let names_none = [[0; 16], [0xFF; 16]].contains(&cursor.id.to_bytes());
    let edge = if newest_first { [0xFF; 16] } else { [0; 16] };
    if is_own || names_none {
        cursor
    } else {
        Cursor {
            id: EventId::from_bytes(edge),
            ..cursor
        }
    }
}

/// Reads a page of the records of a queue, by its whole name.
pub(super) async fn read_page(
    pool: &Pool,
    name: &str,
    filter: RecordFilter,
) -> Result<Page<Record>> {
    let mut records = pool.bus().records().queue(name);
    if let Some(id) = filter.id {
        records = records.id(id);
    }
    let checked = |name, value: Option<String>| value.map(|it| text(name, it, 1)).transpose();
    let matching = Matching {
        outcome: filter.outcome,
        cause: filter.cause,
        error: checked("error", filter.error)?,
        key: checked("key", filter.key)?,
        node: filter.node.as_deref().map(node).transpose()?,
    };
    for (name, time) in [("since_ms", filter.since_ms), ("until_ms", filter.until_ms)] {
        check_time(name, time)?;
    }
    if let Some(since) = filter.since_ms {
        records = records.since(Timestamp::from_millis(since));
    }
    if let Some(until) = filter.until_ms {
        records = records.until(Timestamp::from_millis(until));
    }
    let newest_first = filter.newest_first == Some(true);
    if newest_first {
        records = records.newest_first();
    }
    let after = filter.after.map(|after| after.parse::<Cursor>());
    let after = after.transpose()?;
    let records = records.after(after);
    let limit = filter.limit.unwrap_or(100);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::invalid(format!(
            "limit is {limit}; it must be 1 to {LIMIT_MAX}"
        )));
    }
    // When all parameters are checked: an empty span has no records.
    if let (Some(since), Some(until)) = (filter.since_ms, filter.until_ms)
        && since >= until
    {
        return Ok(Page::new(Vec::new(), None));
    }
    let mut page = if filter.id.is_none() && matching.is_all() {
        page_of(records.limit(limit), None, newest_first).await?
    } else {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        matching_page(records, &matching, limit, newest_first).await?
    };
    if page.items.is_empty() && page.next.is_none() {
        page.end = after; // not where a record of another queue is
    }
    Ok(page)
}

/// Returns records of a queue, page by page
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/records", operation_id = "listRecords",
    tag = "records", params(QueuePath, RecordFilter),
    responses((status = 200, description = "A page of records", body = RecordPage), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    filter: std::result::Result<Query<RecordFilter>, QueryRejection>,
) -> Result<Response> {
    let (pool, grant) = granted_lasting(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let Query(filter) = filter?;
    let handle = pool.queue(&namespace, &queue)?;
    let read = read_page(pool, handle.name(), filter);
    let (page, _) = access::step(&app, Work::Read, &grant, read).await?;
    let page = RecordPage {
        items: page.items.into_iter().map(RecordView::from).collect(),
        next: page.next.map(|next| next.to_string()),
        end: page.end.map(|end| end.to_string()),
    };
    access::large(&app, &headers, (pool, &namespace), &page).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_no_event_of_another_queue() {
        let text = "1767225600000000-7-01KBKSY8Q3X4H1W9V0T5RZ7M2C";
        let cursor: Cursor = text.parse().unwrap();
        for newest_first in [false, true] {
            let nameless = nameless(cursor, &[], newest_first);
            assert_ne!(nameless.id, cursor.id);
            // The record there is looked at again, and none is skipped.
            assert_eq!(nameless > cursor, newest_first);
            let read: Cursor = nameless.to_string().parse().unwrap();
            assert_eq!(read, nameless);
        }
        // The end of what was looked at stands behind a record that this page has.
        for id in [[0; 16], [0xFF; 16]].map(EventId::from_bytes) {
            let edge = Cursor { id, ..cursor };
            for newest_first in [false, true] {
                assert_eq!(super::nameless(edge, &[], newest_first), edge);
            }
        }
    }
}
