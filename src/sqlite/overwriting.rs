//! Overwriting what is deleted: otherwise its bytes stay in free pages until those are used again.

use rusqlite::Connection;

/// Has SQLite overwrite the bytes of whatever this connection deletes from now on. To be called
/// outside of a transaction.
pub(crate) fn overwrite_deleted(connection: &Connection) -> rusqlite::Result<()> {
    step_through(connection, "PRAGMA secure_delete = ON")
}

/// Copies the write-ahead log into the file and empties it, as far as readers allow.
pub(crate) fn copy_log(connection: &Connection) -> rusqlite::Result<()> {
    step_through(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
}

fn step_through(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
