//! The schema: tables, the mark of a store, and versions.
//!
//! # Format 8
//!
//! | table | a row is | columns |
//! |---|---|---|
//! | `events` | an event that is not over, in order of arrival | `row`; `due` in ms; `tries` that have ended and count, and from bit 16 how many interruptions in a row were free; `dead`, since when in ms, or null; `sum` over these, the row and the id; `body`, the envelope (`codec::wire`) |
//! | `damaged` | what was set aside because its checksum did not hold | `found` in ms, `why`, and what there was |
//! | `tally` | the one row that says how many events there are | `events`, `rows` (all row numbers in one), `sum` over both |
//! | `controls` | what is set of a queue for every node | `queue`; `paused`; `workers`, `rate` and `buckets`, or null; `sum` over all of them |
//! | `uniques` | a unique key that stays taken by an event that is done | `queue`, `bucket`, `key`; `event`; `until` in ms; `sum` over all of them |
//! | `tombstones` | the ids that ended in one transaction, as long as the dedup window of their bucket has one of them | `number`; `written` in ms; `body` (`tombstones.rs`); `sum` over all of them |
//! | `records` and those beside it | a line of history, what queries need of it, and counts by minute | those of a journal (`sqlite/records/tables.rs`) |
//!
//! Whoever changes a table increments [`FORMAT`]. No format has been released, so a file of an older
//! one is refused; the first that is released will be upgraded.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::error::Result;
use crate::sqlite::{Kind, records};
use crate::store::embedded::sums;

/// The version of the tables that this duly writes and reads.
const FORMAT: i64 = 8;

/// The size of a page of the file.
pub(super) const PAGE_BYTES: u64 = 4_096;

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
) STRICT;
CREATE TABLE controls (
  queue   TEXT PRIMARY KEY,
  paused  INTEGER NOT NULL,
  workers INTEGER,
  rate    REAL,
  buckets INTEGER,
  sum     INTEGER NOT NULL
) STRICT;
CREATE TABLE uniques (
  queue  TEXT NOT NULL,
  bucket INTEGER NOT NULL,
  key    TEXT NOT NULL,
  event  BLOB NOT NULL,
  until  INTEGER NOT NULL,
  sum    INTEGER NOT NULL,
  PRIMARY KEY (queue, bucket, key)
) STRICT;
CREATE TABLE tombstones (
  number  INTEGER PRIMARY KEY,
  written INTEGER NOT NULL,
  body    BLOB NOT NULL,
  sum     INTEGER NOT NULL
) STRICT;";

/// Opens the file for writing: checks whose it is, creates its tables where it is new.
pub(super) fn open_writer(path: &Path) -> Result<Connection> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let wrong = |error| KIND.at_open(path, error);
    let is_there = KIND.identify(&connection, path)?;
    configure(&connection, !is_there).map_err(wrong)?;
    if !is_there {
        create(&mut connection).map_err(wrong)?;
        return Ok(connection);
    }
    records::complete(&connection);
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

/// The same, with the log open as well: SQLite else opens it with the first thing that it reads,
/// when descriptors may be short.
pub(super) fn open_whole_reader(path: &Path) -> Result<Connection> {
    let connection = open_reader(path)?;
    connection
        .query_row("PRAGMA schema_version", [], |_| Ok(()))
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
        connection.execute_batch(&format!(
            "PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = INCREMENTAL"
        ))?;
    }
    let mut statement = connection.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = statement.query([])?;
    let mode = rows.next()?.map(|row| row.get::<_, String>(0));
    // It returns first and writes then: without this step nobody would hear that it failed.
    rows.next()?;
    if mode.transpose()?.as_deref() != Some("wal") {
        return Err(rusqlite::Error::InvalidQuery);
    }
    // FULL: a commit is on disk when it returns. The writer checkpoints by itself. Bytes that
    // were freed may stay in the file, unless a person was erased: an envelope that is secret is
    // encrypted.
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA mmap_size = 0; \
         PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY",
    )
}

/// Creates all tables in one transaction.
fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let step = connection.transaction()?;
    step.execute_batch(TABLES)?;
    step.execute(
        "INSERT INTO tally VALUES (1, 0, 0, ?1)",
        [sums::of_tally(0, 0)],
    )?;
    records::create(&step)?;
    step.pragma_update(None, "application_id", KIND.application)?;
    step.pragma_update(None, "user_version", FORMAT)?;
    step.commit()
}

/// The tables of a file that somebody else made: each column takes whatever there is.
pub fn loose(connection: &Connection) -> rusqlite::Result<()> {
    let tables = format!("{TABLES}{}", records::TABLES);
    let tables = tables.replace("STRICT, ", "").replace("STRICT", "");
    connection.execute_batch(
        &tables
            .replace("INTEGER NOT NULL", "")
            .replace("BLOB NOT NULL", ""),
    )
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
