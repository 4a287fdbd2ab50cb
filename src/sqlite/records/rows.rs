//! Records as rows, each with a checksum of all its columns but the part.

use std::borrow::Cow;
use std::sync::LazyLock;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Row};

use crate::event::{EventId, Payload, QueueName, TraceId};
use crate::record::{NodeId, Record, Stages};
use crate::sqlite::Sum;
use crate::sqlite::records::queue_names::{Names, name_of};
use crate::sqlite::records::words;
use crate::time::Timestamp;

/// The columns of a record that a query reads, the costly ones last.
pub const COLUMNS: &str = "finished, number, event, queue, outcome, cause, attempt, node, \
     due, moved, fetched, started, sum, key, trace, by, error, payload";

/// Places in [`COLUMNS`].
pub(super) mod at {
    pub(in crate::sqlite::records) const FINISHED: usize = 0;
    pub(in crate::sqlite::records) const NUMBER: usize = 1;
    pub(in crate::sqlite::records) const EVENT: usize = 2;
    pub(in crate::sqlite::records) const QUEUE: usize = 3;
    pub(in crate::sqlite::records) const OUTCOME: usize = 4;
    pub(in crate::sqlite::records) const CAUSE: usize = 5;
    pub(in crate::sqlite::records) const ATTEMPT: usize = 6;
    pub(in crate::sqlite::records) const NODE: usize = 7;
    pub(in crate::sqlite::records) const DUE: usize = 8;
    pub(in crate::sqlite::records) const MOVED: usize = 9;
    pub(in crate::sqlite::records) const FETCHED: usize = 10;
    pub(in crate::sqlite::records) const STARTED: usize = 11;
    pub(in crate::sqlite::records) const SUM: usize = 12;
    pub(in crate::sqlite::records) const KEY: usize = 13;
    pub(in crate::sqlite::records) const TRACE: usize = 14;
    pub(in crate::sqlite::records) const BY: usize = 15;
    pub(in crate::sqlite::records) const ERROR: usize = 16;
    pub(in crate::sqlite::records) const PAYLOAD: usize = 17;
}

/// How many rows one statement writes where there are many: to begin and end a statement takes a
/// third of the time of a row.
pub(super) const AT_ONCE: usize = 16;

/// How many values of a row are its own.
const VALUES: usize = 18;

/// The statement that [`insert`] runs for so many rows, which is 1 or [`AT_ONCE`]: a record that is
/// there already stays as it is.
pub(super) fn insert_sql(rows: usize) -> &'static str {
    static ONE: LazyLock<String> = LazyLock::new(|| written(1));
    static MANY: LazyLock<String> = LazyLock::new(|| written(AT_ONCE));
    if rows == 1 { &ONE } else { &MANY }
}

fn written(rows: usize) -> String {
    let row = format!("(?1{})", ", ?".repeat(VALUES));
    let rows = vec![row; rows].join(", ");
    // In this form SQLite keeps no copy of the pages that the statement changes.
    format!("INSERT OR IGNORE INTO records (part, {COLUMNS}) VALUES {rows}")
}

/// The table itself, which is kept in the order of its key.
pub(super) const TABLE: &str = "sqlite_autoindex_records_1";

/// The place of a row.
pub(super) type Place = (i64, i64, [u8; 16]);

/// A record that is to be written.
#[derive(Debug)]
pub(super) struct NewRow<'r> {
    /// Where it goes.
    pub(super) place: Place,
    pub(super) record: Cow<'r, Record>,
    pub(super) queue: i64,
}

impl<'r> NewRow<'r> {
    pub(super) fn new(number: u64, record: Cow<'r, Record>, queue: i64) -> Self {
        let finished = comparable(record.stages.finished_us);
        Self {
            place: (finished, comparable(number), record.id.to_bytes()),
            record,
            queue,
        }
    }
}

/// What puts records in order has to be compared, so it stops at the largest number with a sign;
/// some 300,000 years after the epoch, as a time.
pub(super) fn comparable(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Writes rows by a statement for as many; returns how many were not there before.
pub(super) fn insert(
    statement: &mut CachedStatement<'_>,
    rows: &[NewRow<'_>],
    part: i64,
) -> rusqlite::Result<usize> {
    statement.raw_bind_parameter(1, part)?;
    for (at, row) in rows.iter().enumerate() {
        bind(statement, 2 + at * VALUES, row)?;
    }
    statement.raw_execute()
}

/// Binds the values of a row in the order of [`COLUMNS`], `from` a parameter on.
fn bind(
    statement: &mut CachedStatement<'_>,
    from: usize,
    row: &NewRow<'_>,
) -> rusqlite::Result<()> {
    let NewRow {
        place: (finished, number, event),
        record,
        queue,
    } = row;
    let stages = record.stages;
    let numbers = [
        (at::FINISHED, *finished),
        (at::NUMBER, *number),
        (at::QUEUE, *queue),
        (at::OUTCOME, words::of_outcome(record.outcome)),
        (at::ATTEMPT, record.attempt.into()),
        (at::NODE, record.node.0.cast_signed()),
        (at::DUE, record.due.as_millis().cast_signed()),
        (at::MOVED, stages.moved_us.cast_signed()),
        (at::FETCHED, stages.fetched_us.cast_signed()),
        (at::STARTED, stages.started_us.cast_signed()),
        (at::SUM, sum(*number, record)),
    ];
    for (at, number) in numbers {
        statement.raw_bind_parameter(from + at, number)?;
    }
    let payload = record.payload.as_ref().map(payload);
    statement.raw_bind_parameter(from + at::EVENT, event)?;
    statement.raw_bind_parameter(from + at::CAUSE, record.cause.map(words::of_cause))?;
    statement.raw_bind_parameter(from + at::KEY, &record.key)?;
    statement.raw_bind_parameter(from + at::TRACE, record.trace.map(TraceId::to_bytes))?;
    statement.raw_bind_parameter(from + at::BY, &record.by)?;
    statement.raw_bind_parameter(from + at::ERROR, &record.error)?;
    statement.raw_bind_parameter(from + at::PAYLOAD, payload)
}

/// As a text where it is one, so that other tools can read it; else as bytes.
fn payload(payload: &Payload) -> ToSqlOutput<'_> {
    let bytes = payload.as_bytes();
    ToSqlOutput::Borrowed(match std::str::from_utf8(bytes) {
        Ok(_) => ValueRef::Text(bytes),
        Err(_) => ValueRef::Blob(bytes),
    })
}

/// Reads a record but for its queue, whose name is elsewhere; `None` when it is none, or its
/// checksum does not hold.
pub(super) fn read(row: &Row<'_>, queue: QueueName) -> Option<(u64, Record)> {
    let (number, record) = fields(row, queue)?;
    // The next record has a higher number, which is one, too.
    let is_whole = number >= 0 && row.get(at::SUM) == Ok(sum(number, &record));
    is_whole.then(|| (number.cast_unsigned(), record))
}

/// What the columns say, whatever the checksum.
fn fields(row: &Row<'_>, queue: QueueName) -> Option<(i64, Record)> {
    let number = |at: usize| row.get::<_, i64>(at).ok().map(i64::cast_unsigned);
    let text = |at: usize| row.get::<_, Option<String>>(at).ok();
    let cause: Option<i64> = row.get(at::CAUSE).ok()?;
    let trace: Option<[u8; 16]> = row.get(at::TRACE).ok()?;
    let record = Record {
        id: EventId::from_bytes(row.get(at::EVENT).ok()?),
        queue,
        key: text(at::KEY)?,
        attempt: row.get(at::ATTEMPT).ok()?,
        outcome: words::outcome(row.get(at::OUTCOME).ok()?)?,
        cause: match cause {
            Some(cause) => Some(words::cause(cause)?),
            None => None,
        },
        due: Timestamp::from_millis(number(at::DUE)?),
        stages: Stages {
            moved_us: number(at::MOVED)?,
            fetched_us: number(at::FETCHED)?,
            started_us: number(at::STARTED)?,
            finished_us: number(at::FINISHED)?,
        },
        node: NodeId(number(at::NODE)?),
        error: text(at::ERROR)?,
        trace: trace.and_then(TraceId::from_bytes),
        payload: match row.get_ref(at::PAYLOAD).ok()? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(Payload::from(bytes)),
            _ => None,
        },
        by: text(at::BY)?,
    };
    Some((row.get(at::NUMBER).ok()?, record))
}

/// The checksum of a record with this number.
pub(super) fn sum(number: i64, record: &Record) -> i64 {
    let mut sum = Sum::default();
    let stages = record.stages;
    sum.number(number)
        .number(comparable(stages.finished_us))
        .bytes(&record.id.to_bytes())
        .bytes(record.queue.as_bytes())
        .number(words::of_outcome(record.outcome))
        .number(record.cause.map_or(-1, words::of_cause))
        .number(record.attempt.into());
    for number in [
        record.node.0,
        record.due.as_millis(),
        stages.moved_us,
        stages.fetched_us,
        stages.started_us,
    ] {
        sum.number(number.cast_signed());
    }
    sum.text(record.key.as_deref())
        .optional(
            record
                .trace
                .map(TraceId::to_bytes)
                .as_ref()
                .map(<[u8; 16]>::as_slice),
        )
        .text(record.by.as_deref())
        .text(record.error.as_deref())
        .optional(record.payload.as_ref().map(Payload::as_bytes))
        .digest()
}

/// The checksum that is right for a row with these values of [`COLUMNS`], which need not be there.
pub fn sum_of_row(
    connection: &rusqlite::Connection,
    values: &[impl rusqlite::ToSql],
) -> Option<i64> {
    let marks = vec!["?"; values.len()].join(",");
    let mut select = connection.prepare_cached(&format!("SELECT {marks}")).ok()?;
    let sum = select.query_row(rusqlite::params_from_iter(values), |row| {
        let queue = row.get(at::QUEUE)?;
        let name = name_of(connection, &mut Names::new(), queue)?;
        let record = name.and_then(|name| fields(row, name));
        Ok(record.map(|(number, record)| sum(number, &record)))
    });
    sum.ok().flatten()
}
