//! Records as rows, and pages of them.

use std::str::FromStr;

use rusqlite::{CachedStatement, Connection, Row, params};

use crate::event::{EventId, Payload, QueueName, TraceId};
use crate::record::{NodeId, Record, Stages};
use crate::store::embedded::ledger::NUMBERS;
use crate::store::embedded::sums;
use crate::store::embedded::waiting::{Span, number};
use crate::store::{OUTBOX_BATCH_MAX, OutboxPage};
use crate::time::Timestamp;

/// The statement that [`insert`] runs. Only a damaged record can have the number already.
pub(super) const INSERT: &str = "INSERT OR REPLACE INTO records VALUES \
     (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

/// A page ends when its records have so many bytes: their payloads may be long.
const PAGE_BYTES: usize = 4 << 20;

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
        record.trace.map(TraceId::to_bytes),
        record.payload.as_ref().map(Payload::as_bytes),
        record.by,
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

/// The numbers of the first and the last record; the last one is not below `trimmed`.
///
/// That of a damaged one says nothing by itself: counting on from there would take all others for
/// old ones. Where it follows on the last one it is right, and where it is no number its record was
/// before all others.
pub(super) fn ends(connection: &Connection, trimmed: i64) -> rusqlite::Result<(i64, i64)> {
    let last = last_whole(connection)?.map_or(trimmed, |last| last.max(trimmed));
    let mut after =
        connection.prepare("SELECT number FROM records WHERE number > ?1 ORDER BY 1")?;
    let mut last = last;
    let mut rows = after.query([last])?;
    while let Some(row) = rows.next()?
        && row.get(0) == Ok(last + 1)
    {
        last += 1;
    }
    let look = |sql: &str| -> rusqlite::Result<Option<i64>> {
        connection.query_row(sql, [NUMBERS.start], |row| row.get(0))
    };
    let first = look("SELECT min(number) FROM records WHERE number >= ?1")?;
    let strays = look("SELECT count(*) FROM records WHERE number < ?1")?.unwrap_or(0);
    let first = first.map_or(last + 1, |first| (first - strays).max(NUMBERS.start));
    Ok((first.min(last + 1), last))
}

fn last_whole(connection: &Connection) -> rusqlite::Result<Option<i64>> {
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
        trace: match row.get_ref(15).ok()?.as_blob_or_null().ok()? {
            Some(trace) => Some(TraceId::from_bytes(trace.try_into().ok()?)?),
            None => None,
        },
        payload: row
            .get_ref(16)
            .ok()?
            .as_blob_or_null()
            .ok()?
            .map(Payload::from),
        by: row.get(17).ok()?,
    })
}

fn word<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Reads the records of `span` with numbers greater than `after`, at most `limit`.
///
/// Within the span the numbers have no gaps but those that damage makes: rows go from the front, and
/// the first one that is there is looked up in the same look at the file.
pub(super) fn page(
    connection: &Connection,
    span: Span,
    after: u64,
    limit: usize,
) -> rusqlite::Result<OutboxPage> {
    let look = connection.unchecked_transaction()?;
    let next = span.next;
    let first: Option<i64> = look
        .prepare_cached("SELECT min(number) FROM records WHERE number >= ?1")?
        .query_row([span.first], |row| row.get(0))?;
    let first = first.unwrap_or(next).min(next);
    let mut page = OutboxPage {
        last: after,
        first: first.cast_unsigned(),
        next: next.cast_unsigned(),
        ..OutboxPage::default()
    };
    let before = number(after).max(first - 1);
    let limit = limit.min(OUTBOX_BATCH_MAX);
    if limit == 0 || before >= next - 1 {
        return Ok(page);
    }
    let mut statement = look.prepare_cached(
        "SELECT * FROM records WHERE number > ?1 AND number < ?2 ORDER BY number LIMIT ?3",
    )?;
    let mut rows = statement.query([before, next, number(limit as u64)])?;
    let (mut last, mut seen, mut bytes) = (before, 0, 0);
    while let Some(row) = rows.next()? {
        seen += 1;
        let (number, record) = read(row)?;
        if number <= last || number >= next {
            continue; // the tree itself is damaged
        }
        last = number;
        if let Some(record) = record {
            bytes += weight(&record);
            page.records.push((number.cast_unsigned(), record));
        }
        if bytes > PAGE_BYTES {
            break;
        }
    }
    if seen < limit && bytes <= PAGE_BYTES {
        last = next - 1; // there are no more
    }
    let looked_at = (last - before).cast_unsigned();
    page.damaged = looked_at.saturating_sub(page.records.len() as u64);
    page.last = last.cast_unsigned();
    Ok(page)
}

/// About how many bytes a record has beyond its fixed part.
fn weight(record: &Record) -> usize {
    let texts = [&record.key, &record.error, &record.by];
    let texts = texts.into_iter().flatten().map(String::len);
    texts.sum::<usize>() + record.payload.as_ref().map_or(0, Payload::len)
}
