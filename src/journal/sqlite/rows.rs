//! Records as rows.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Row, params};

use crate::event::{EventId, Payload, QueueName, TraceId};
use crate::journal::sqlite::words;
use crate::record::{NodeId, Record, Stages};
use crate::time::Timestamp;

/// The columns that [`read`] and [`Asked`](super::asked::Asked) read, the costly ones last.
pub(super) const COLUMNS: &str = "finished, number, event, queue, outcome, cause, attempt, node, \
     due, moved, fetched, started, key, trace, by, error, payload";

/// Places in [`COLUMNS`].
pub(super) mod at {
    pub(in crate::journal::sqlite) const FINISHED: usize = 0;
    pub(in crate::journal::sqlite) const NUMBER: usize = 1;
    pub(in crate::journal::sqlite) const EVENT: usize = 2;
    pub(in crate::journal::sqlite) const QUEUE: usize = 3;
    pub(in crate::journal::sqlite) const OUTCOME: usize = 4;
    pub(in crate::journal::sqlite) const CAUSE: usize = 5;
    pub(in crate::journal::sqlite) const NODE: usize = 7;
    pub(in crate::journal::sqlite) const KEY: usize = 12;
    pub(in crate::journal::sqlite) const TRACE: usize = 13;
    pub(in crate::journal::sqlite) const ERROR: usize = 15;
}

/// The statement that [`insert`] runs: a record that is there already stays as it is.
pub(super) const INSERT: &str = "INSERT INTO records (finished, number, event, queue, outcome, \
     cause, attempt, node, due, moved, fetched, started, part, key, trace, by, error, payload) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) \
     ON CONFLICT (finished, number, event) DO NOTHING";

/// What puts records in order has to be compared, so it stops at the largest number with a sign;
/// some 300,000 years after the epoch, as a time.
pub(super) fn comparable(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Writes a record; answers whether it was not there before.
pub(super) fn insert(
    statement: &mut CachedStatement<'_>,
    number: u64,
    record: &Record,
    queue: i64,
    part: i64,
) -> rusqlite::Result<bool> {
    let stages = record.stages;
    let written = statement.execute(params![
        comparable(stages.finished_us),
        comparable(number),
        record.id.to_bytes(),
        queue,
        words::of_outcome(record.outcome),
        record.cause.map(words::of_cause),
        record.attempt,
        record.node.0.cast_signed(),
        record.due.as_millis().cast_signed(),
        stages.moved_us.cast_signed(),
        stages.fetched_us.cast_signed(),
        stages.started_us.cast_signed(),
        part,
        record.key,
        record.trace.map(TraceId::to_bytes),
        record.by,
        record.error,
        record.payload.as_ref().map(payload),
    ])?;
    Ok(written > 0)
}

/// As a text where it is one, so that other tools can read it; else as bytes.
fn payload(payload: &Payload) -> ToSqlOutput<'_> {
    let bytes = payload.as_bytes();
    ToSqlOutput::Borrowed(match std::str::from_utf8(bytes) {
        Ok(_) => ValueRef::Text(bytes),
        Err(_) => ValueRef::Blob(bytes),
    })
}

/// Reads a record but for its queue, whose name is elsewhere; `None` when it is none.
pub(super) fn read(row: &Row<'_>, queue: QueueName) -> Option<(u64, Record)> {
    let number = |at: usize| row.get::<_, i64>(at).ok().map(i64::cast_unsigned);
    let text = |at: usize| row.get::<_, Option<String>>(at).ok();
    let cause: Option<i64> = row.get(at::CAUSE).ok()?;
    let trace: Option<[u8; 16]> = row.get(at::TRACE).ok()?;
    let record = Record {
        id: EventId::from_bytes(row.get(at::EVENT).ok()?),
        queue,
        key: text(at::KEY)?,
        attempt: row.get(6).ok()?,
        outcome: words::outcome(row.get(at::OUTCOME).ok()?)?,
        cause: match cause {
            Some(cause) => Some(words::cause(cause)?),
            None => None,
        },
        due: Timestamp::from_millis(number(8)?),
        stages: Stages {
            moved_us: number(9)?,
            fetched_us: number(10)?,
            started_us: number(11)?,
            finished_us: number(at::FINISHED)?,
        },
        node: NodeId(number(at::NODE)?),
        error: text(at::ERROR)?,
        trace: trace.and_then(TraceId::from_bytes),
        payload: match row.get_ref(16).ok()? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(Payload::from(bytes)),
            _ => None,
        },
        by: text(14)?,
    };
    Some((number(at::NUMBER)?, record))
}
