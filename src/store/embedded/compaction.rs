//! The sizes of the file and of its log: checkpoints, free pages, and the limit on both.

use crate::panics;
use crate::sqlite::checkpoint_on_close;
use crate::store::embedded::commit::Committer;
use crate::store::embedded::schema::PAGE_BYTES;
use crate::store::embedded::sqlite::Failure;
use crate::time::Timestamp;

impl Committer {
    /// Whether the write-ahead log holds at least so many pages that are not in the file yet, or may
    /// do so where SQLite cannot say.
    pub(super) fn has_log_of(&mut self, pages: i64) -> Result<bool, Failure> {
        Ok(self.log.reaches(pages, &self.connection)?)
    }

    /// Copies the write-ahead log into the file, as far as readers allow.
    pub(super) fn checkpoint(&mut self) -> Result<(), Failure> {
        Ok(self.log.checkpoint(&self.connection)?)
    }

    /// Has SQLite cut the file of the log to so many bytes whenever it begins it anew; `None`: never.
    pub(super) fn limit_log(&self, bytes: Option<u64>) -> Result<(), Failure> {
        let bytes = bytes.map_or(-1, u64::cast_signed);
        self.number(&format!("journal_size_limit = {bytes}"))
            .map(drop)
    }

    /// Gives at most `pages` free pages back to the file system, and keeps `kept` of them; returns
    /// whether it gave any. `sparing`: only when at least half as many as are in use are free.
    pub(super) fn vacuum(&mut self, pages: u32, kept: u32, sparing: bool) -> Result<bool, Failure> {
        let free = self.number("freelist_count")?;
        let is_little = sparing && free * 3 < self.number("page_count")?;
        if free < i64::from(pages) + i64::from(kept) || is_little {
            return Ok(false);
        }
        let mut vacuum = self
            .connection
            .prepare_cached(&format!("PRAGMA incremental_vacuum({pages})"))?;
        // It frees a page with each step.
        let mut steps = vacuum.query([])?;
        while steps.next()?.is_some() {}
        // It moves as many, and writes to whom they belong.
        self.log.grow(4 * u64::from(pages));
        Ok(true)
    }

    /// Keeps the file below the limit on its size: what would not fit into it is refused before it
    /// is in the log, from which it could never be taken.
    pub(super) fn limit_file(&self, bytes: Option<u64>) -> Result<(), Failure> {
        // The largest that SQLite knows, where there is no limit.
        let most = i64::from(u32::MAX) - 1;
        let pages = bytes.map_or(most, |bytes| (bytes / PAGE_BYTES).cast_signed().min(most));
        let pragma = format!("max_page_count = {}", pages.max(1));
        self.number(&pragma).map(drop)
    }

    fn number(&self, pragma: &str) -> Result<i64, Failure> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("PRAGMA {pragma}"))?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }

    /// Removes the tombstones that no window has any more, so that none is remembered again; for want
    /// of something they stay.
    fn remove_tombstones(&mut self, now: Timestamp) -> Result<(), Failure> {
        while self.tombstones.has_dead() {
            match self.write(std::iter::empty(), now, true) {
                Ok(_) => {}
                Err(failure) if failure.shortage.is_some() => break,
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// The last step: everything into the file, the log removed, and the file closed. For want of
    /// something the log stays: what is in it is on disk, and the next start reads it.
    pub(super) fn close(mut self, now: Timestamp) -> Result<(), Failure> {
        self.remove_tombstones(now)?;
        match self.checkpoint() {
            Ok(()) => checkpoint_on_close(&self.connection, true)?,
            Err(Failure {
                error,
                shortage: Some(_),
            }) => panics::reported(
                || tracing::warn!(%error, "write-ahead log not copied into the store's file"),
            ),
            Err(failure) => return Err(failure),
        }
        let closed = self.connection.close();
        closed.map_err(|(_, error)| Failure::from(error))
    }
}
