//! The baseline of durable pushes: bare SQLite, the same rows in batches, each batch synced.

use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::Result;
use crate::watch::{Stopwatch, Took};

/// About the bytes of an event of 64 bytes as it is stored.
const BODY: [u8; 124] = [7; 124];

/// A fresh file, set to survive a power cut, and the directory that goes when it is dropped.
fn open() -> Result<(Connection, TempDir)> {
    let directory = tempfile::tempdir()?;
    let connection = Connection::open(directory.path().join("bare.db"))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE event (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
         CREATE TABLE record (number INTEGER PRIMARY KEY, body BLOB NOT NULL);",
    )?;
    Ok((connection, directory))
}

/// Appends `rows` in batches.
pub(crate) fn append(rows: usize, batch: usize) -> Result<Took> {
    let (connection, _directory) = open()?;
    let watch = Stopwatch::start();
    fill(&connection, rows, batch)?;
    Ok(watch.took())
}

/// Removes `rows` in batches, and writes a record for each in the same step.
pub(crate) fn settle(rows: usize, batch: usize) -> Result<Took> {
    let (mut connection, _directory) = open()?;
    fill(&connection, rows, 1_000)?;
    let watch = Stopwatch::start();
    for first in (0..rows).step_by(batch) {
        let step = connection.transaction()?;
        for number in first..rows.min(first + batch) {
            step.prepare_cached("DELETE FROM event WHERE number = ?1")?
                .execute(params![number as i64])?;
            step.prepare_cached("INSERT INTO record (body) VALUES (?1)")?
                .execute(params![BODY])?;
        }
        step.commit()?;
    }
    Ok(watch.took())
}

fn fill(connection: &Connection, rows: usize, batch: usize) -> Result {
    for first in (0..rows).step_by(batch) {
        let step = connection.unchecked_transaction()?;
        for number in first..rows.min(first + batch) {
            step.prepare_cached("INSERT INTO event (number, body) VALUES (?1, ?2)")?
                .execute(params![number as i64, BODY])?;
        }
        step.commit()?;
    }
    Ok(())
}
