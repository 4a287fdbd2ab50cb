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

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::{Error, Result};
use crate::journal::sqlite::{fault, views, words};
use crate::record::{Cause, Outcome};

/// The version of the tables that this duly writes, and the newest that it reads.
pub(super) const FORMAT: i64 = 4;

/// "dulj" in ASCII: how a file says whose it is. A store's file says "duly".
const APPLICATION: i64 = 0x6475_6C6A;

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

/// Opens the file for writing: checks whose it is, creates or upgrades its tables.
pub(super) fn open_writer(path: &Path, cache_bytes: usize) -> Result<Connection> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let wrong = |error| fault::at_open(path, error);
    let format = identify(&connection, path)?;
    configure(&connection, format.is_none(), cache_bytes).map_err(wrong)?;
    upgrade(&mut connection, path)?;
    checkpoint_on_close(&connection, true).map_err(wrong)?;
    Ok(connection)
}

/// Opens the file once more, for reading beside the writer.
pub(super) fn open_reader(path: &Path, cache_bytes: usize) -> Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    cache(&connection, cache_bytes).map_err(|error| fault::at_open(path, error))?;
    Ok(connection)
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection> {
    // NOFOLLOW: a symbolic link in place of the file is not ours. NO_MUTEX: one thread each.
    let flags = access | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let wrong = |error| fault::at_open(path, error);
    let connection = Connection::open_with_flags(path, flags).map_err(wrong)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.busy_timeout(BUSY).map_err(wrong)?;
    checkpoint_on_close(&connection, false).map_err(wrong)?;
    Ok(connection)
}

/// Whether SQLite copies the log into the file when the last connection is closed: not into one
/// of which nobody knows yet whose it is.
fn checkpoint_on_close(connection: &Connection, does: bool) -> rusqlite::Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !does)
        .map(drop)
}

/// Answers the format of the file, `None` when it is empty.
///
/// Nothing is written before this: a file of somebody else stays as it is.
fn identify(connection: &Connection, path: &Path) -> Result<Option<i64>> {
    let pragma = |name: &str| -> Result<i64> {
        connection
            .query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
            .map_err(|error| fault::at_open(path, error))
    };
    let at = path.display();
    let tables = pragma("schema_version")?;
    let (application, format) = (pragma("application_id")?, pragma("user_version")?);
    if tables == 0 && application == 0 && format == 0 {
        // An empty file, or its creation was interrupted before the first table.
        return Ok(None);
    }
    if application != APPLICATION {
        return Err(Error::corrupt(format!(
            "{at} is a SQLite file of another program, or a store (application id \
             {application:#010x}); name a file of its own for the journal"
        )));
    }
    if format > FORMAT {
        return Err(Error::corrupt(format!(
            "{at} was written by a newer duly (format {format}), this one reads up to {FORMAT}; \
             upgrade duly to open it"
        )));
    }
    if format < 1 {
        return Err(Error::corrupt(format!(
            "{at} says that it has format {format}, the first is 1: its header is damaged"
        )));
    }
    Ok(Some(format))
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
    let wrong = |error| fault::at_open(path, error);
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let step = step.map_err(wrong)?;
    // Looked at again: another process may have made the tables meanwhile.
    let format = identify(&step, path)?.unwrap_or(0);
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
            step.pragma_update(None, "application_id", APPLICATION)?;
        } else if format < 3 {
            step.execute_batch(PARTS)?;
        }
        if (1..4).contains(&format) {
            // A file that is made now has every cause.
            let cause = Cause::Undecryptable;
            let named = (words::of_cause(cause), cause.as_str());
            step.execute("INSERT OR IGNORE INTO causes VALUES (?1, ?2)", named)?;
        }
        // Format 1 had no views, format 2 others.
        step.execute_batch("DROP VIEW IF EXISTS tasks; DROP VIEW IF EXISTS history")?;
        step.execute_batch(&views::all())?;
        step.pragma_update(None, "user_version", FORMAT)
    };
    write().and_then(|()| step.commit()).map_err(wrong)
}
