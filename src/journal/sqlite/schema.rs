//! The tables, their indexes, whose file it is, and which version of them.
//!
//! `src/docs/journal.md` describes them for whoever reads the file with another tool.
//!
//! # If you change this
//!
//! 1. Change [`TABLES`], increment [`FORMAT`] and add a step to [`upgrade`] that makes the same of a
//!    file of the format before; never change an old step.
//! 2. Open a file of the old format in `tests/journal/upgrades.rs`.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{Error, Result};
use crate::journal::sqlite::{fault, views, words};
use crate::record::{Cause, Outcome};
use crate::sqlite::{Kind, checkpoint_on_close};

/// The version of the tables that this duly writes, and the newest that it reads.
pub(super) const FORMAT: i64 = 5;

/// A journal's file. Its application id is "dulj" in ASCII, a store's is "duly".
const KIND: Kind = Kind {
    name: "journal",
    application: 0x6475_6C6A,
    format: FORMAT,
};

/// How long a call waits for another process to end its transaction.
const BUSY: Duration = Duration::from_secs(10);

/// The order of the key of `records` is the order in which they are read: a new record goes to the
/// end, where the pages are in memory, and a page of records lies in one place.
///
/// Keys and traces come in no order at all. Their indexes begin with the part that a record belongs
/// to, and only the last part grows, so that what is written of an index is as small as that part,
/// and not as large as the file.
const TABLES: &str = "
CREATE TABLE queues (
  number INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE outcomes (
  number INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE causes (
  number INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE records (
  finished INTEGER NOT NULL,
  number   INTEGER NOT NULL,
  event    BLOB    NOT NULL,
  queue    INTEGER NOT NULL,
  outcome  INTEGER NOT NULL,
  cause    INTEGER,
  attempt  INTEGER NOT NULL,
  node     INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  moved    INTEGER NOT NULL,
  fetched  INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  part     INTEGER NOT NULL,
  key      TEXT,
  trace    BLOB,
  by       TEXT,
  error    TEXT,
  payload  ANY,
  PRIMARY KEY (finished, number, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX by_event ON records (event, finished, number);
CREATE INDEX by_queue ON records (queue, finished, number, event);
CREATE INDEX by_node ON records (node, finished, number, event);
CREATE INDEX by_outcome ON records (outcome, finished, number, event) WHERE outcome <> 0;
CREATE INDEX by_queue_outcome ON records (queue, outcome, finished, number, event)
  WHERE outcome <> 0;
CREATE INDEX by_cause ON records (cause, finished, number, event) WHERE cause IS NOT NULL;
CREATE INDEX by_key ON records (part, key, finished, number, event) WHERE key IS NOT NULL;
CREATE INDEX by_trace ON records (part, trace, finished, number, event) WHERE trace IS NOT NULL;
CREATE INDEX by_error ON records (finished, number, event) WHERE error IS NOT NULL;
CREATE TABLE parts (
  number  INTEGER PRIMARY KEY,
  records INTEGER NOT NULL
) STRICT;
INSERT INTO parts VALUES (0, 0);
CREATE TABLE minutes (
  minute  INTEGER NOT NULL,
  queue   INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  count   INTEGER NOT NULL,
  PRIMARY KEY (minute, queue, outcome)
) STRICT, WITHOUT ROWID;
CREATE INDEX minutes_by_queue ON minutes (queue, minute, outcome);
CREATE TABLE lateness (
  minute INTEGER NOT NULL,
  queue  INTEGER NOT NULL,
  slot   INTEGER NOT NULL,
  count  INTEGER NOT NULL,
  PRIMARY KEY (minute, queue, slot)
) STRICT, WITHOUT ROWID;";

/// Format 2 had one part, and knew nothing of it.
const PARTS: &str = "
ALTER TABLE records ADD COLUMN part INTEGER NOT NULL DEFAULT 0;
DROP INDEX by_key;
DROP INDEX by_trace;
CREATE INDEX by_key ON records (part, key, finished, number, event) WHERE key IS NOT NULL;
CREATE INDEX by_trace ON records (part, trace, finished, number, event) WHERE trace IS NOT NULL;
CREATE TABLE parts (
  number  INTEGER PRIMARY KEY,
  records INTEGER NOT NULL
) STRICT;
INSERT INTO parts SELECT 0, records FROM tally;
DROP TABLE tally;";

/// How far records and minutes were pruned: `since` when that limit stands, from where it counts,
/// and up to where a step was last allowed to remove, in microseconds. Format 4 had none.
const PRUNED: &str = "
CREATE TABLE pruned (
  what    TEXT PRIMARY KEY,
  since   INTEGER NOT NULL,
  begun   INTEGER NOT NULL,
  through INTEGER NOT NULL
) STRICT;";

/// Opens the file for writing: checks whose it is, creates or upgrades its tables.
pub(super) fn open_writer(path: &Path, cache_bytes: usize) -> Result<Connection> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let wrong = |error| KIND.at_open(path, error);
    let format = KIND.identify(&connection, path)?;
    configure(&connection, format.is_none(), cache_bytes).map_err(wrong)?;
    upgrade(&mut connection, path)?;
    checkpoint_on_close(&connection, true).map_err(wrong)?;
    Ok(connection)
}

/// Opens the file once more, for reading beside the writer.
pub(super) fn open_reader(path: &Path, cache_bytes: usize) -> Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    cache(&connection, cache_bytes).map_err(|error| KIND.at_open(path, error))?;
    Ok(connection)
}

/// Begins a transaction that writes, unless a newer duly has upgraded the file meanwhile: what this one
/// does not know of it would neither write nor keep.
///
/// At once, not at the first write: another process may have the file, and one that waits for it with a
/// read behind it would be refused.
pub(super) fn begin(connection: &mut Connection) -> Result<Transaction<'_>> {
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let step = begun.map_err(fault::at_write)?;
    let format = step.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
    let format = format.map_err(fault::at_write)?;
    if format > FORMAT {
        return Err(Error::corrupt(format!(
            "the journal's file was upgraded by a newer duly (format {format}), this one knows up to \
             {FORMAT}: it writes and removes nothing there any more; start the newer one in its place"
        )));
    }
    Ok(step)
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection> {
    let connection = KIND.connect(path, access)?;
    connection.set_prepared_statement_cache_capacity(64);
    let waits = connection.busy_timeout(BUSY);
    waits.map_err(|error| KIND.at_open(path, error))?;
    Ok(connection)
}

fn configure(connection: &Connection, new: bool, cache_bytes: usize) -> rusqlite::Result<()> {
    if new {
        // Only takes effect before the first table. A record takes some 150 bytes, and an inner
        // page of the table holds records too: fewer levels than with smaller pages.
        connection.execute_batch("PRAGMA page_size = 8192")?;
    }
    write_ahead(connection)?;
    // FULL: a commit is on disk when it returns; outboxes are trimmed on its word.
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4096; \
         PRAGMA journal_size_limit = 67108864; PRAGMA mmap_size = 0",
    )?;
    cache(connection, cache_bytes)
}

/// Puts the file into WAL mode. Two that do so at the same time get in each other's way, and
/// SQLite does not wait by itself here.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let step = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| {
            row.get::<_, String>(0)
        });
        let is_busy = |error: &rusqlite::Error| {
            error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && waited < BUSY
        };
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => return Err(rusqlite::Error::InvalidQuery),
            Err(error) if is_busy(&error) => {
                std::thread::sleep(step);
                waited += step;
            }
            Err(error) => return Err(error),
        }
    }
}

fn cache(connection: &Connection, bytes: usize) -> rusqlite::Result<()> {
    let kib = (bytes / 1_024).clamp(64, i32::MAX as usize);
    connection.execute_batch(&format!(
        "PRAGMA cache_size = -{kib}; PRAGMA temp_store = MEMORY"
    ))
}

/// Brings the tables to [`FORMAT`], step by step in one transaction.
fn upgrade(connection: &mut Connection, path: &Path) -> Result<()> {
    let wrong = |error| KIND.at_open(path, error);
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let step = step.map_err(wrong)?;
    // Looked at again: another process may have made the tables meanwhile.
    let format = KIND.identify(&step, path)?.unwrap_or(0);
    if format == FORMAT {
        return Ok(());
    }
    let write = || -> rusqlite::Result<()> {
        if format < 1 {
            step.execute_batch(TABLES)?;
            for outcome in Outcome::ALL {
                let named = (words::of_outcome(outcome), outcome.as_str());
                step.execute("INSERT INTO outcomes VALUES (?1, ?2)", named)?;
            }
            for cause in Cause::ALL {
                let named = (words::of_cause(cause), cause.as_str());
                step.execute("INSERT INTO causes VALUES (?1, ?2)", named)?;
            }
            step.pragma_update(None, "application_id", KIND.application)?;
        } else if format < 3 {
            step.execute_batch(PARTS)?;
        }
        if (1..4).contains(&format) {
            // A file that is made now has every cause.
            let cause = Cause::Undecryptable;
            let named = (words::of_cause(cause), cause.as_str());
            step.execute("INSERT OR IGNORE INTO causes VALUES (?1, ?2)", named)?;
        }
        if format < 5 {
            step.execute_batch(PRUNED)?;
        }
        // Format 1 had no views, format 2 others.
        step.execute_batch("DROP VIEW IF EXISTS tasks; DROP VIEW IF EXISTS history")?;
        step.execute_batch(&views::all())?;
        step.pragma_update(None, "user_version", FORMAT)
    };
    write().and_then(|()| step.commit()).map_err(wrong)
}
