//! The writing thread: one transaction a call.

use std::borrow::Cow;
use std::path::Path;

use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::journal::contract::Batch;
use crate::journal::sqlite::{fault, schema};
use crate::record::{Cursor, Keep, Pruned};
use crate::sqlite::files;
use crate::sqlite::lock::Watched;
use crate::sqlite::records::{self, Arrival, Load, QueueNumbers};
use crate::sqlite::{copy_log, overwrite_deleted};
use crate::time::Timestamp;

/// The connection that writes.
#[derive(Debug)]
pub(super) struct Writer {
    connection: Connection,
    files: Watched,
}

impl Writer {
    /// Writes to the file at `path`, which is open.
    pub(super) fn new(connection: Connection, path: &Path) -> Self {
        let [log, _] = files::log_and_index(path);
        Self {
            files: Watched::at([path.to_owned(), log]),
            connection,
        }
    }

    /// Takes in records, all of them or none.
    pub(super) fn load(&mut self, batches: &[Batch]) -> Result<()> {
        if batches.iter().all(|batch| batch.records.is_empty()) {
            return Ok(());
        }
        let Self { connection, files } = self;
        let step = schema::begin(connection)?;
        let write = || -> rusqlite::Result<()> {
            let mut load = Load::new(Arrival::Repeatable);
            // Another process may forget some between two loads.
            let mut queues = QueueNumbers::new();
            for (number, record) in batches.iter().flat_map(|batch| &batch.records) {
                load.add(&step, &mut queues, *number, Cow::Borrowed(record))?;
            }
            load.finish(&step).map(drop)
        };
        let loaded = write().and_then(|()| step.commit());
        loaded.map_err(fault::at_write)?;
        // What is loaded is removed where it was: not if it is in a file that nobody finds again.
        files.moved().map_or(Ok(()), |what| {
            Err(Error::new(
                ErrorKind::Unavailable,
                format!("{what}; put it back, or start this process anew"),
            ))
        })
    }

    /// Erases the payloads and the error texts of records, and overwrites their bytes in the file.
    pub(super) fn erase(&mut self, places: &[Cursor]) -> Result<()> {
        overwrite_deleted(&self.connection).map_err(fault::at_write)?;
        let step = schema::begin(&mut self.connection)?;
        let erased = records::erase(&step, places).and_then(|()| step.commit());
        let erased = erased.and_then(|()| copy_log(&self.connection));
        erased.map_err(fault::at_write)
    }

    /// Removes some of what is beyond `keep` at `now`.
    pub(super) fn prune(&mut self, keep: Keep, now: Timestamp) -> Result<Pruned> {
        let step = schema::begin(&mut self.connection)?;
        let prune = || -> rusqlite::Result<Pruned> {
            let total = records::total(&step)?;
            let clock = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)";
            let clock: i64 = step.query_row(clock, [], |row| row.get(0))?;
            let clock = Timestamp::from_millis(clock.unsigned_abs());
            let mut numbers = QueueNumbers::new(); // none is remembered
            let most = records::RECORDS_MAX;
            records::prune(&step, &mut numbers, keep, now, clock, total, most)
        };
        let pruned = prune().and_then(|pruned| step.commit().map(|()| pruned));
        pruned.map_err(fault::at_write)
    }
}
