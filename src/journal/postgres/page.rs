//! Pages of records.
//!
//! Each page scans one index and examines a bounded number of records there; other filters are
//! compared row by row. No index has the number and the event: records of one microsecond are
//! sorted as they are read.

use std::fmt::Write as _;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Transaction};

use super::copy::{COLUMNS, ordered, storable};
use super::fault::{ErrorContext, PgError};
use super::row::Columns;
use super::scope::Scope;
use crate::error::Result;
use crate::panics;
use crate::record::FoundRecords;
use crate::record::{Cursor, Order, Outcome, Query};

/// The limit of records that a page examines where each may be on a disk page of its own; those in
/// time order are adjacent.
const SCATTERED_MAX: usize = 1_000;
const TOGETHER_MAX: usize = 4_000;

/// Reads a page.
pub(super) async fn page(
    client: &mut Client,
    scope: &Scope,
    query: &Query,
    spot: ErrorContext<'_>,
) -> Result<FoundRecords> {
    let statement = PageSql::of(query);
    let mut found = FoundRecords::default();
    let rows = statement.rows(client, scope, spot).await?;
    let (mut last, mut unread) = (None, None);
    for row in &rows {
        if found.records.len() == query.page_len() {
            found.next = found.records.last().map(Cursor::of);
            break;
        }
        let mut columns = Columns::of(row, spot);
        let (is_found, looked_at) = (columns.take::<bool>()?, columns.take::<i64>()?);
        let place = columns.place()?;
        last = Some(place);
        if is_found {
            match columns.record_at(place) {
                Ok(record) => found.records.push(record),
                Err(error) => {
                    found.skipped += 1;
                    unread = Some((place, error));
                }
            }
        }
        // The last record examined: later ones have not been seen.
        found.next = (looked_at == statement.looked_at_max as i64).then_some(place);
    }
    if let Some((place, error)) = unread {
        if rows.len() > query.page_len() {
            found.next = found.next.or(last); // there may be more
        }
        let skipped = found.skipped;
        panics::reported(|| {
            tracing::error!(skipped, %place, %error, "skipped journal rows that are not records");
        });
    }
    Ok(found)
}

/// Returns the server's plan of a page.
pub(super) async fn plan(
    client: &mut Client,
    scope: &Scope,
    query: &Query,
    spot: ErrorContext<'_>,
) -> Result<Vec<String>> {
    let mut statement = PageSql::of(query);
    statement.sql.insert_str(0, "EXPLAIN ");
    let rows = statement.rows(client, scope, spot).await?;
    let lines = rows.iter().map(|row| Columns::of(row, spot).take());
    lines.collect()
}

/// A query as SQL.
struct PageSql {
    sql: String,
    /// The parameters `$1`, `$2` and so on. Numbers are inlined, so that the planner sees them.
    texts: Vec<String>,
    /// A page ends after this many records, if filters are compared row by row.
    looked_at_max: usize,
}

impl PageSql {
    fn of(query: &Query) -> Self {
        let mut texts = Vec::new();
        let mut param = |text: &str| {
            texts.push(storable(text));
            format!("${}", texts.len())
        };
        let way = IndexChoice::of(query, &mut param);
        let mut rest = Vec::new();
        way.left_over(query, &mut param, &mut rest);
        let (limit, walk) = (query.page_len() + 1, way.walk(query));
        let looked_at_max = match way {
            IndexChoice::Value(..) => SCATTERED_MAX,
            IndexChoice::Partial(_) | IndexChoice::Time => TOGETHER_MAX,
        };
        let order = order("", query.order);
        let sql = if rest.is_empty() {
            format!(
                "SELECT true, 0::bigint, {COLUMNS} FROM records WHERE {} ORDER BY {} LIMIT {limit}",
                walk.bounds, walk.order
            )
        } else {
            format!(
                "SELECT ({rest}) IS TRUE, looked_at, {COLUMNS} FROM (SELECT *, row_number() OVER \
             (ORDER BY {walk_order}) AS looked_at FROM records WHERE {bounds} \
             ORDER BY {walk_order} LIMIT {looked_at_max}) AS walked \
             WHERE ({rest}) IS TRUE OR looked_at = {looked_at_max} \
             ORDER BY {order} LIMIT {limit}",
                rest = rest.join(" AND "),
                walk_order = walk.order,
                bounds = walk.bounds,
            )
        };
        Self {
            sql,
            texts,
            looked_at_max,
        }
    }

    async fn rows(
        &self,
        client: &mut Client,
        scope: &Scope,
        spot: ErrorContext<'_>,
    ) -> Result<Vec<Row>> {
        let rows = async {
            let step = scope.begin_reading(client).await?;
            let rows = self.rows_of(&step).await?;
            step.commit().await?;
            Ok(rows)
        };
        rows.await.map_err(|fault| spot.error(fault))
    }

    async fn rows_of(&self, step: &Transaction<'_>) -> Result<Vec<Row>, PgError> {
        let texts = self.texts.iter();
        let params: Vec<(&(dyn ToSql + Sync), Type)> = texts
            .map(|text| (text as &(dyn ToSql + Sync), Type::TEXT))
            .collect();
        step.query_typed(&self.sql, &params).await
    }
}

/// The index that a query scans: the most selective one.
enum IndexChoice {
    /// By one value of the index's leading column.
    Value(&'static str, String),
    /// By time, over the records of a partial index with this condition.
    Partial(&'static str),
    Time,
}

/// The bounds and the direction of a scan.
struct IndexScan {
    bounds: String,
    order: String,
}

impl IndexChoice {
    fn of(query: &Query, param: &mut impl FnMut(&str) -> String) -> Self {
        if let Some(id) = query.id {
            return Self::Value("event", uuid(id.to_bytes()));
        }
        if let Some(trace) = query.trace {
            return Self::Value("trace", uuid(trace.to_bytes()));
        }
        if let Some(key) = &query.key {
            return Self::Value("key", param(key));
        }
        if !query.outcomes.is_empty() && !query.outcomes.contains(&Outcome::Acked) {
            return Self::Partial("outcome <> 'acked'");
        }
        if query.error.is_some() {
            return Self::Partial("error IS NOT NULL");
        }
        if let Some(node) = query.node {
            return Self::Value("node", number(node.0 as i64));
        }
        match &query.queue {
            Some(queue) => Self::Value("queue", param(queue)),
            None => Self::Time,
        }
    }

    fn is_by(&self, column: &str) -> bool {
        matches!(self, Self::Value(by, _) if *by == column)
    }

    /// Returns the conditions that the index does not cover.
    fn left_over(
        &self,
        query: &Query,
        param: &mut impl FnMut(&str) -> String,
        rest: &mut Vec<String>,
    ) {
        let mut and = |condition: String| rest.push(condition);
        if let Some(trace) = query.trace.filter(|_| !self.is_by("trace")) {
            and(format!("trace = {}", uuid(trace.to_bytes())));
        }
        if let Some(key) = query.key.as_ref().filter(|_| !self.is_by("key")) {
            and(format!("key = {}", param(key)));
        }
        if let Some(node) = query.node.filter(|_| !self.is_by("node")) {
            and(format!("node = {}", number(node.0 as i64)));
        }
        if let Some(queue) = query.queue.as_ref().filter(|_| !self.is_by("queue")) {
            and(format!("queue = {}", param(queue)));
        }
        if !query.outcomes.is_empty() {
            let names = query.outcomes.iter().map(|it| format!("'{it}'"));
            let names: Vec<_> = names.collect();
            and(format!("outcome IN ({})", names.join(", ")));
        }
        if let Some(cause) = query.cause {
            and(format!("cause = '{cause}'"));
        }
        if let Some(text) = &query.error {
            and(format!("strpos(error, {}) > 0", param(text)));
        }
    }

    /// Both the bounds and the order begin with the value: only the index that leads with that
    /// column can provide it without sorting, so the planner has no other choice.
    fn walk(&self, query: &Query) -> IndexScan {
        let mut bounds = String::new();
        let mut and = |condition: String| {
            let gap = if bounds.is_empty() { "" } else { " AND " };
            let _ = write!(bounds, "{gap}{condition}"); // writing to a String cannot fail
        };
        let (column, value) = match self {
            Self::Value(column, value) => (format!("{column}, "), format!("{value}, ")),
            Self::Partial(_) | Self::Time => Default::default(),
        };
        match self {
            Self::Value("key", _) => and("key IS NOT NULL".to_owned()),
            Self::Value("trace", _) => and("trace IS NOT NULL".to_owned()),
            Self::Partial(condition) => and((*condition).to_owned()),
            Self::Value(..) | Self::Time => {}
        }
        let since = query.since.map_or(0, |since| ordered(since.as_micros()));
        let until = query.until.map(|until| ordered(until.as_micros()));
        let after = |order| query.after.filter(|_| query.order == order);
        let row = |place: Cursor| {
            let event = uuid(place.id.to_bytes());
            let (time, at) = (ordered(place.finished_us), ordered(place.number));
            format!("{value}{}, {}, {event}", number(time), number(at))
        };
        // The higher of two lower bounds, and the lower of two upper ones.
        let from = after(Order::Oldest).filter(|it| ordered(it.finished_us) >= since);
        match from {
            Some(place) => {
                and(format!(
                    "({column}finished, number, event) > ({})",
                    row(place)
                ));
                and(format!(
                    "finished >= {}",
                    number(ordered(place.finished_us))
                ));
            }
            None => {
                and(format!("({column}finished) >= ({value}{})", number(since)));
                and(format!("finished >= {}", number(since)));
            }
        }
        let upto = after(Order::Newest);
        match upto.filter(|it| until.is_none_or(|until| ordered(it.finished_us) < until)) {
            Some(place) => {
                and(format!(
                    "({column}finished, number, event) < ({})",
                    row(place)
                ));
                and(format!(
                    "finished <= {}",
                    number(ordered(place.finished_us))
                ));
            }
            None if until.is_none() => {
                and(format!(
                    "({column}finished) <= ({value}{})",
                    number(i64::MAX)
                ));
            }
            None => {
                let until = number(until.unwrap_or(i64::MAX));
                and(format!("({column}finished) < ({value}{until})"));
                and(format!("finished < {until}"));
            }
        }
        IndexScan {
            bounds,
            order: order(column.trim_end_matches(", "), query.order),
        }
    }
}

fn order(first: &str, order: Order) -> String {
    let columns = [first, "finished", "number", "event"];
    let columns = columns.iter().filter(|column| !column.is_empty());
    let columns = columns.map(|column| match order {
        Order::Oldest => (*column).to_owned(),
        Order::Newest => format!("{column} DESC"),
    });
    columns.collect::<Vec<_>>().join(", ")
}

fn number(number: i64) -> String {
    format!("'{number}'::bigint")
}

fn uuid(bytes: [u8; 16]) -> String {
    let id = u128::from_be_bytes(bytes);
    format!("'{id:032x}'::uuid")
}
