//! The file of a journal: whose it is, its settings, and which version of the tables it has.
//!
//! Whoever changes the tables (`sqlite/records/tables.rs`) increments [`FORMAT`]. No format has been
//! released, so a file of an older one is refused; the first that is released will be upgraded.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{Error, Result};
use crate::journal::sqlite::fault;
use crate::sqlite::{Kind, checkpoint_on_close, records};

/// The version of the tables that this duly writes and reads.
const FORMAT: i64 = 7;

/// A journal's file. Its application id is "dulj" in ASCII, a store's is "duly".
const KIND: Kind = Kind {
    name: "journal",
    application: 0x6475_6C6A,
    format: FORMAT,
};

/// How long a call waits for another process to end its transaction.
const BUSY: Duration = Duration::from_secs(10);

/// Opens the file for writing: checks whose it is, creates its tables where it is new.
pub(super) fn open_writer(path: &Path, cache_bytes: usize) -> Result<Connection> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let wrong = |error| KIND.at_open(path, error);
    let is_there = KIND.identify(&connection, path)?;
    configure(&connection, !is_there, cache_bytes).map_err(wrong)?;
    create(&mut connection, path)?;
    records::complete(&connection);
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
    if format != FORMAT {
        return Err(Error::corrupt(format!(
            "the journal's file was upgraded by a newer duly (format {format}), this one knows \
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

/// Creates the tables where there are none, in one transaction.
fn create(connection: &mut Connection, path: &Path) -> Result<()> {
    let wrong = |error| KIND.at_open(path, error);
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let step = step.map_err(wrong)?;
    // Looked at again: another process may have made the tables meanwhile.
    if KIND.identify(&step, path)? {
        return Ok(());
    }
    let write = || -> rusqlite::Result<()> {
        records::create(&step)?;
        step.pragma_update(None, "application_id", KIND.application)?;
        step.pragma_update(None, "user_version", FORMAT)
    };
    write().and_then(|()| step.commit()).map_err(wrong)
}
