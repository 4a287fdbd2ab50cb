//! Records as rows, and pages of them.

use std::str::FromStr;

use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, Row, params, params_from_iter};

use crate::event::{EventId, QueueName};
use crate::record::{NodeId, Page, Query, Record, Stages};
use crate::store::embedded::ledger::NUMBERS;
use crate::store::embedded::sums;
use crate::time::Timestamp;

/// How many rows one page may look at: a filter that matches next to nothing goes on from there.
const SCAN_MAX: i64 = 100_000;

/// The statement that [`insert`] runs. Only a damaged record can have the number already.
pub(super) const INSERT: &str = "INSERT OR REPLACE INTO records VALUES \
     (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

/// Writes `record` under `number`.
pub(super) fn insert(
    statement: &mut CachedStatement<'_>,
    number: i64,
    record: &Record,
) -> rusqlite::Result<()> {
    let stages = record.stages;
    statement.execute(params![
        number,
        record.id.to_bytes(),
        record.queue.as_str(),
        record.key,
        record.attempt,
        record.outcome.as_str(),
        record.cause.map(|cause| cause.as_str()),
        record.due.as_millis().cast_signed(),
        stages.moved_us.cast_signed(),
        stages.fetched_us.cast_signed(),
        stages.started_us.cast_signed(),
        stages.finished_us.cast_signed(),
        record.node.0.cast_signed(),
        record.error,
        sums::of_record(number, record),
    ])?;
    Ok(())
}

/// Reads one row; `None` when its checksum does not hold.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<(i64, Option<Record>)> {
    let number = row.get(0)?;
    let record = fields(row).filter(|record| {
        let sum: rusqlite::Result<i64> = row.get(14);
        let is_whole = sum.is_ok_and(|sum| sum == sums::of_record(number, record));
        is_whole && NUMBERS.contains(&number)
    });
    Ok((number, record))
}

/// The number of the last record. That of a damaged one says nothing: counting on from there would
/// take all others for old ones.
pub(super) fn last(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare("SELECT * FROM records ORDER BY number DESC")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let (number, Some(_)) = read(row)? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The checksum that is right for a row that was never written.
#[cfg(feature = "testing")]
pub(super) fn sum(row: &Row<'_>) -> Option<i64> {
    Some(sums::of_record(row.get(0).ok()?, &fields(row)?))
}

/// What is no record at all, by its types or its words, is `None` too.
fn fields(row: &Row<'_>) -> Option<Record> {
    let time = |at: usize| row.get::<_, i64>(at).ok().map(i64::cast_unsigned);
    Some(Record {
        id: EventId::from_bytes(row.get(1).ok()?),
        queue: QueueName::new(row.get_ref(2).ok()?.as_str().ok()?).ok()?,
        key: row.get(3).ok()?,
        attempt: row.get(4).ok()?,
        outcome: word(row.get_ref(5).ok()?.as_str().ok()?)?,
        cause: match row.get_ref(6).ok()?.as_str_or_null().ok()? {
            Some(cause) => Some(word(cause)?),
            None => None,
        },
        due: Timestamp::from_millis(time(7)?),
        stages: Stages {
            moved_us: time(8)?,
            fetched_us: time(9)?,
            started_us: time(10)?,
            finished_us: time(11)?,
        },
        node: NodeId(time(12)?),
        error: row.get(13).ok()?,
    })
}

fn word<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Reads a page, and how many damaged records it passed over.
pub(super) fn page(
    connection: &Connection,
    query: &Query,
) -> rusqlite::Result<(Page<Record>, u64)> {
    let after = i64::try_from(query.after.unwrap_or(0)).unwrap_or(i64::MAX);
    let last: i64 = connection
        .prepare_cached("SELECT coalesce(max(number), 0) FROM records")?
        .query_row([], |row| row.get(0))?;
    let first: i64 = connection
        .prepare_cached("SELECT coalesce(min(number), 1) FROM records")?
        .query_row([], |row| row.get(0))?;
    let from = after.max(first.saturating_sub(1));
    let until = last.min(from.saturating_add(SCAN_MAX));
    let mut sql = String::from("SELECT * FROM records WHERE number > ? AND number <= ?");
    let mut values = vec![Value::from(from), Value::from(until)];
    if let Some(id) = query.id {
        sql.push_str(" AND event = ?");
        values.push(Value::from(id.to_bytes().to_vec()));
    }
    if let Some(queue) = &query.queue {
        sql.push_str(" AND queue = ?");
        values.push(Value::from(queue.as_str().to_owned()));
    }
    if let Some(outcome) = query.outcome {
        sql.push_str(" AND outcome = ?");
        values.push(Value::from(outcome.as_str().to_owned()));
    }
    sql.push_str(" ORDER BY number LIMIT ?");
    let len = query.page_len();
    values.push(Value::from(i64::try_from(len).unwrap_or(i64::MAX)));

    let (mut items, mut seen, mut cursor, mut damaged) = (Vec::new(), 0, from, 0);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let (number, record) = read(row)?;
        (seen, cursor) = (seen + 1, number);
        match record {
            Some(record) => items.push(record),
            None => damaged += 1,
        }
    }
    if seen < len {
        cursor = until;
    }
    let next = (cursor < last).then_some(cursor.cast_unsigned());
    Ok((Page { items, next }, damaged))
}
