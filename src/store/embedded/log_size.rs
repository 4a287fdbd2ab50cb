//! The size of the write-ahead log: what SQLite said last, and a bound of what came since then.

use rusqlite::Connection;

use crate::sqlite;
use crate::store::embedded::log;
use crate::store::embedded::schema::PAGE_BYTES;

/// A size in pages that are not in the file yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogSize {
    /// As SQLite said last.
    known: i64,
    /// At most so many came since then.
    since: i64,
}

impl LogSize {
    /// Of the log that is there: somebody may have left one.
    pub(super) fn found(connection: &Connection) -> Self {
        let log = connection.path().map(|data| log::path_of(data.as_ref()));
        let file = log.and_then(|log| std::fs::metadata(log).ok());
        Self {
            known: 0,
            since: file.map_or(i64::MAX, |file| (file.len() / PAGE_BYTES).cast_signed()),
        }
    }

    /// A transaction has written at most so many pages.
    pub(super) fn grow(&mut self, pages: u64) {
        self.since = self.since.saturating_add(pages.cast_signed());
    }

    /// Whether there are at least so many pages. SQLite is asked only where there may be; one that
    /// cannot say has its log copied a few times as often.
    pub(super) fn reaches(
        &mut self,
        pages: i64,
        connection: &Connection,
    ) -> rusqlite::Result<bool> {
        if self.known.saturating_add(self.since) < pages {
            return Ok(false);
        }
        if sqlite::says_size_of_log() {
            self.ask(connection, "PRAGMA wal_checkpoint(NOOP)")?;
            return Ok(self.known >= pages);
        }
        Ok(true)
    }

    /// Copies the log into the file, as far as readers allow.
    pub(super) fn checkpoint(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.ask(connection, "PRAGMA wal_checkpoint(PASSIVE)")
    }

    fn ask(&mut self, connection: &Connection, pragma: &str) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(pragma)?;
        let (log, copied): (i64, i64) =
            statement.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
        *self = Self {
            known: log - copied,
            since: 0,
        };
        Ok(())
    }
}
