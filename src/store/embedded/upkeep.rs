//! The upkeep of the file: its write-ahead log, its free pages, and how it is closed.

use crate::sqlite::checkpoint_on_close;
use crate::store::embedded::commit::Committer;
use crate::store::embedded::sqlite;
use crate::time::Timestamp;

/// The size of the write-ahead log, in pages that are not in the file yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogSize {
    /// As SQLite said last.
    pub(super) known: i64,
    /// At most so many came since then.
    pub(super) since: i64,
}

impl Committer {
    /// Whether there are more records to remove than one commit does.
    pub(super) fn has_more_to_prune(&self) -> bool {
        self.retention.has_more()
    }

    /// Whether the write-ahead log holds at least so many pages that are not in the file yet.
    /// SQLite is only asked where that can be.
    pub(super) fn has_log_of(&mut self, pages: i64) -> rusqlite::Result<bool> {
        if self.log.known.saturating_add(self.log.since) >= pages {
            self.checkpoint_pragma("PRAGMA wal_checkpoint(NOOP)")?;
        }
        Ok(self.log.known >= pages)
    }

    /// Copies the write-ahead log into the file, as far as readers allow.
    pub(super) fn checkpoint(&mut self) -> rusqlite::Result<()> {
        self.checkpoint_pragma("PRAGMA wal_checkpoint(PASSIVE)")
    }

    /// Learns how large the log is.
    fn checkpoint_pragma(&mut self, sql: &str) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let (log, copied): (i64, i64) =
            statement.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
        self.log = LogSize {
            known: log - copied,
            since: 0,
        };
        Ok(())
    }

    /// Gives at most `pages` free pages back to the file system, when at least half as many as are
    /// in use are free; returns whether there is more to give.
    pub(super) fn vacuum(&mut self, pages: u32) -> rusqlite::Result<bool> {
        let pragma = |name: &str| -> rusqlite::Result<i64> {
            let mut statement = self.connection.prepare_cached(&format!("PRAGMA {name}"))?;
            statement.query_row([], |row| row.get(0))
        };
        let free = pragma("freelist_count")?;
        if free < i64::from(pages) || free * 3 < pragma("page_count")? {
            return Ok(false);
        }
        let mut vacuum = self
            .connection
            .prepare_cached(&format!("PRAGMA incremental_vacuum({pages})"))?;
        // It frees a page with each step.
        let mut steps = vacuum.query([])?;
        while steps.next()?.is_some() {}
        // It moves as many, and writes to whom they belong.
        self.log.since = self.log.since.saturating_add(4 * i64::from(pages));
        Ok(true)
    }

    /// Removes the tombstones that no window has any more, so that none is remembered again; on a
    /// full disk they stay.
    fn remove_tombstones(&mut self, now: Timestamp) -> rusqlite::Result<()> {
        while self.tombstones.has_dead() {
            match self.write(std::iter::empty(), now, false) {
                Err(error) if sqlite::is_full(&error) => return Ok(()),
                written => drop(written?),
            }
        }
        Ok(())
    }

    /// The last step: everything into the file, the log removed, and the file closed.
    pub(super) fn close(mut self, now: Timestamp) -> rusqlite::Result<()> {
        self.remove_tombstones(now)?;
        self.checkpoint()?;
        checkpoint_on_close(&self.connection, true)?;
        self.connection.close().map_err(|(_, error)| error)
    }
}
