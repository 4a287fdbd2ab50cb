//! The tables, whose file it is, and which version of them.
//!
//! # Format 4
//!
//! | table | a row is | columns |
//! |---|---|---|
//! | `events` | an event that is not over, in order of arrival | `row`; `due` in ms; `tries` that have ended and count; `dead`, since when in ms, or null; `sum` over these, the row and the id; `body`, the envelope (`codec::wire`) |
//! | `records` | a line of history, in order | `number` and the fields of [`Record`](crate::record::Record); `sum` over all of them; since format 3 `trace`, `payload` and `by`, or null, which `sum` covers as well |
//! | `damaged` | what was set aside because its checksum did not hold | `found` in ms, `why`, and what there was |
//! | `tally` | the one row that says how many events there are | `events`, `rows` (all row numbers in one), `sum` over both |
//! | `controls` | what is set of a queue for every node, since format 2 | `queue`; `paused`; `workers`, `rate` and `buckets`, or null; `sum` over all of them |
//! | `uniques` | a unique key that stays taken by an event that is done, since format 4 | `queue`, `bucket`, `key`; `event`; `until` in ms; `sum` over all of them |
//! | `outbox` | the one row that says what is in the journal, since format 3 | `trimmed`, up to which number of records; `sum` over it |
//!
//! # If you change this
//!
//! 1. Increment [`FORMAT`] and add a step to [`upgrade`]; never change an old step.
//! 2. Keep a golden file of the old format in `tests/data` and open it in `tests/embedded.rs`.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::error::Result;
use crate::sqlite::Kind;
use crate::store::embedded::ledger::NUMBERS;
use crate::store::embedded::sums;

/// The version of the tables that this duly writes, and the newest that it reads.
pub(super) const FORMAT: i64 = 4;

/// A store's file. Its application id is "duly" in ASCII.
pub(super) const KIND: Kind = Kind {
    name: "store",
    application: 0x6475_6C79,
    format: FORMAT,
};

const TABLES: &str = "
CREATE TABLE events (
  row   INTEGER PRIMARY KEY,
  due   INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  dead  INTEGER,
  sum   INTEGER NOT NULL,
  body  BLOB NOT NULL
) STRICT;
CREATE TABLE records (
  number   INTEGER PRIMARY KEY,
  event    BLOB NOT NULL,
  queue    TEXT NOT NULL,
  key      TEXT,
  attempt  INTEGER NOT NULL,
  outcome  TEXT NOT NULL,
  cause    TEXT,
  due      INTEGER NOT NULL,
  moved    INTEGER NOT NULL,
  fetched  INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  finished INTEGER NOT NULL,
  node     INTEGER NOT NULL,
  error    TEXT,
  sum      INTEGER NOT NULL
) STRICT;
CREATE TABLE damaged (
  number INTEGER PRIMARY KEY,
  found  INTEGER NOT NULL,
  why    TEXT NOT NULL,
  row    INTEGER,
  due, tries, dead, sum, body
);
CREATE TABLE tally (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  events INTEGER NOT NULL,
  rows   INTEGER NOT NULL,
  sum    INTEGER NOT NULL
) STRICT;";

/// What format 2 adds.
const CONTROLS: &str = "
CREATE TABLE controls (
  queue   TEXT PRIMARY KEY,
  paused  INTEGER NOT NULL,
  workers INTEGER,
  rate    REAL,
  buckets INTEGER,
  sum     INTEGER NOT NULL
) STRICT;";

/// What format 3 adds. Records that were written before have nothing of it.
const OUTBOX: &str = "
ALTER TABLE records ADD COLUMN trace BLOB;
ALTER TABLE records ADD COLUMN payload BLOB;
ALTER TABLE records ADD COLUMN \"by\" TEXT;
CREATE TABLE outbox (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  trimmed INTEGER NOT NULL,
  sum     INTEGER NOT NULL
) STRICT;";

/// What format 4 adds.
const UNIQUES: &str = "
CREATE TABLE uniques (
  queue  TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  key    TEXT NOT NULL,
  event  BLOB NOT NULL,
  until  INTEGER NOT NULL,
  sum    INTEGER NOT NULL,
  PRIMARY KEY (queue, bucket, key)
) STRICT;";

/// Opens the file for writing: checks whose it is, creates or upgrades its tables.
pub(super) fn open_writer(path: &Path) -> Result<Connection> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let wrong = |error| KIND.at_open(path, error);
    let format = KIND.identify(&connection, path)?;
    configure(&connection, format.is_none()).map_err(wrong)?;
    upgrade(&mut connection, format.unwrap_or(0)).map_err(wrong)?;
    Ok(connection)
}

/// Opens the file once more, for reading beside the writer.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .map_err(|error| KIND.at_open(path, error))?;
    Ok(connection)
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection> {
    let connection = KIND.connect(path, access)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

fn configure(connection: &Connection, new: bool) -> rusqlite::Result<()> {
    if new {
        // Both only take effect before the first table.
        connection.execute_batch("PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    let mut statement = connection.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = statement.query([])?;
    let mode = rows.next()?.map(|row| row.get::<_, String>(0));
    // It answers first and writes then: without this step nobody would hear that it failed.
    rows.next()?;
    if mode.transpose()?.as_deref() != Some("wal") {
        return Err(rusqlite::Error::InvalidQuery);
    }
    // FULL: a commit is on disk when it returns. The writer checkpoints by itself. Bytes that
    // were freed may stay in the file: an envelope that is secret is encrypted.
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA mmap_size = 0; \
         PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY",
    )
}

/// Brings the tables from `format` to [`FORMAT`], step by step in one transaction.
fn upgrade(connection: &mut Connection, format: i64) -> rusqlite::Result<()> {
    if format == FORMAT {
        return Ok(());
    }
    let step = connection.transaction()?;
    if format < 1 {
        step.execute_batch(TABLES)?;
        step.execute(
            "INSERT INTO tally VALUES (1, 0, 0, ?1)",
            [sums::of_tally(0, 0)],
        )?;
        step.pragma_update(None, "application_id", KIND.application)?;
    }
    if format < 2 {
        step.execute_batch(CONTROLS)?;
    }
    if format < 3 {
        step.execute_batch(OUTBOX)?;
        write_trimmed(&step, 0)?;
    }
    if format < 4 {
        step.execute_batch(UNIQUES)?;
    }
    // Each step from the one before it.
    step.pragma_update(None, "user_version", FORMAT)?;
    step.commit()
}

/// The tables of a file that somebody else made: each column takes whatever there is.
#[cfg(feature = "testing")]
pub(super) fn loose(connection: &Connection) -> rusqlite::Result<()> {
    let tables = format!("{TABLES}{CONTROLS}{OUTBOX}{UNIQUES}");
    connection.execute_batch(&tables.replace("STRICT", "").replace("NOT NULL", ""))
}

/// How many events there are and all their row numbers in one, as last written; `None` when its
/// own checksum does not hold.
pub(super) fn tally(connection: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    let found = connection
        .query_row(
            "SELECT events, rows, sum FROM tally WHERE one = 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?)),
        )
        .optional()?;
    Ok(found
        .filter(|(events, rows, sum): &(i64, i64, i64)| sums::of_tally(*events, *rows) == *sum)
        .map(|(events, rows, _)| (events, rows)))
}

/// Up to which number records are in the journal; `None` when its own checksum does not hold.
pub(super) fn trimmed(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let found = connection
        .query_row("SELECT trimmed, sum FROM outbox WHERE one = 1", [], |row| {
            Ok(row.get(0).ok().zip(row.get::<_, i64>(1).ok()))
        })
        .optional()?;
    Ok(found
        .flatten()
        .filter(|(trimmed, sum)| sums::of_outbox(*trimmed) == *sum)
        .filter(|(trimmed, _)| (0..NUMBERS.end).contains(trimmed))
        .map(|(trimmed, _)| trimmed))
}

/// Keeps up to which number records are in the journal.
pub(super) fn write_trimmed(connection: &Connection, trimmed: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO outbox VALUES (1, ?1, ?2)")?
        .execute([trimmed, sums::of_outbox(trimmed)])?;
    Ok(())
}
