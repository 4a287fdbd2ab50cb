//! The conditions of a query on a row that was found through an index.

use std::collections::BTreeSet;

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::event::{EventId, TraceId};
use crate::record::{Cursor, Order, Query};
use crate::sqlite::records::rows::{at, comparable};
use crate::sqlite::records::words;

/// A query in terms of columns.
#[derive(Debug)]
pub(super) struct Conditions<'a> {
    pub(super) event: Option<[u8; 16]>,
    pub(super) queue: Option<i64>,
    pub(super) outcomes: BTreeSet<i64>,
    pub(super) cause: Option<i64>,
    pub(super) key: Option<&'a str>,
    pub(super) node: Option<i64>,
    pub(super) trace: Option<[u8; 16]>,
    pub(super) error: Option<&'a str>,
}

impl<'a> Conditions<'a> {
    /// `queue` is the number of the queue that is asked for.
    pub(super) fn of(query: &'a Query, queue: Option<i64>) -> Self {
        let outcomes = query.outcomes.iter();
        Self {
            event: query.id.map(EventId::to_bytes),
            queue,
            outcomes: outcomes.map(|it| words::of_outcome(*it)).collect(),
            cause: query.cause.map(words::of_cause),
            key: query.key.as_deref(),
            node: query.node.map(|node| node.0.cast_signed()),
            trace: query.trace.map(TraceId::to_bytes),
            error: query.error.as_deref(),
        }
    }

    /// Whether a row is asked for, whatever led to it; the times are not looked at.
    pub(super) fn matches(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let is_number = |wanted: Option<i64>, place: usize| -> rusqlite::Result<bool> {
            let Some(wanted) = wanted else {
                return Ok(true);
            };
            Ok(row.get_ref(place)? == ValueRef::Integer(wanted))
        };
        let are_bytes = |wanted: Option<&[u8]>, place: usize| -> rusqlite::Result<bool> {
            let Some(wanted) = wanted else {
                return Ok(true);
            };
            Ok(match row.get_ref(place)? {
                ValueRef::Text(found) | ValueRef::Blob(found) => found == wanted,
                _ => false,
            })
        };
        Ok(is_number(self.queue, at::QUEUE)?
            && (self.outcomes.is_empty() || self.outcomes.contains(&row.get(at::OUTCOME)?))
            && is_number(self.cause, at::CAUSE)?
            && is_number(self.node, at::NODE)?
            && are_bytes(self.event.as_ref().map(|it| &it[..]), at::EVENT)?
            && are_bytes(self.key.map(str::as_bytes), at::KEY)?
            && are_bytes(self.trace.as_ref().map(|it| &it[..]), at::TRACE)?
            && match self.error {
                None => true,
                Some(wanted) => {
                    let error = row.get_ref(at::ERROR)?;
                    let error = error.as_str_or_null().unwrap_or_default();
                    error.is_some_and(|error| error.contains(wanted))
                }
            })
    }
}

/// A place between rows, as the file compares it.
pub(super) type Bound = (i64, i64, Vec<u8>);

/// Behind every id there is.
fn behind_all_ids() -> Vec<u8> {
    vec![0xFF; 17]
}

/// The places between which records are asked for; `None` when there can be none.
pub(super) fn bounds(query: &Query) -> Option<(Bound, Bound)> {
    let mut from = (-1, 0, Vec::new());
    let mut to = (i64::MAX, i64::MAX, behind_all_ids());
    if let Some(since) = query.since {
        let since = i64::try_from(since.as_micros()).ok()?;
        // No record has a number below zero.
        from = (since, -1, Vec::new());
    }
    if let Some(until) = query.until
        && let Ok(until) = i64::try_from(until.as_micros())
    {
        to = (until, -1, Vec::new());
    }
    if let Some(after) = query.after {
        let place = of_cursor(after);
        match query.order {
            Order::Oldest => from = from.max(place),
            Order::Newest => to = to.min(place),
        }
    }
    (from < to).then_some((from, to))
}

/// A cursor beyond what can be compared is a place behind everything that can.
fn of_cursor(after: Cursor) -> Bound {
    let is_beyond = |number: u64| i64::try_from(number).is_err();
    let (finished, number) = (comparable(after.finished_us), comparable(after.number));
    if is_beyond(after.finished_us) {
        (finished, i64::MAX, behind_all_ids())
    } else if is_beyond(after.number) {
        (finished, number, behind_all_ids())
    } else {
        (finished, number, after.id.to_bytes().to_vec())
    }
}
