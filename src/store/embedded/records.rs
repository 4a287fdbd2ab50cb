//! Records as rows, and pages of them.

use std::str::FromStr;

use rusqlite::{CachedStatement, Connection, Row, params};

use crate::event::{EventId, QueueName};
use crate::record::{NodeId, Record, Stages};
use crate::store::embedded::ledger::NUMBERS;
use crate::store::embedded::sums;
use crate::store::{OUTBOX_BATCH_MAX, OutboxPage};
use crate::time::Timestamp;

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
        trace: None,
        payload: None,
        by: None,
    })
}

fn word<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Reads the records with numbers greater than `after`, at most `limit`.
pub(super) fn page(
    connection: &Connection,
    after: u64,
    limit: usize,
) -> rusqlite::Result<OutboxPage> {
    let bound = |sql: &str| -> rusqlite::Result<Option<i64>> {
        connection
            .prepare_cached(sql)?
            .query_row([], |row| row.get(0))
    };
    let first = bound("SELECT min(number) FROM records")?.unwrap_or(1);
    let last = bound("SELECT max(number) FROM records")?.unwrap_or(0);
    let mut page = OutboxPage {
        first: first.max(1).cast_unsigned(),
        next: last.max(0).cast_unsigned() + 1,
        ..OutboxPage::default()
    };
    let mut statement = connection
        .prepare_cached("SELECT * FROM records WHERE number > ?1 ORDER BY number LIMIT ?2")?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit.min(OUTBOX_BATCH_MAX)).unwrap_or(i64::MAX);
    let mut rows = statement.query([after, limit])?;
    while let Some(row) = rows.next()? {
        match read(row)? {
            (number, Some(record)) => page.records.push((number.cast_unsigned(), record)),
            (_, None) => page.damaged += 1,
        }
    }
    Ok(page)
}
