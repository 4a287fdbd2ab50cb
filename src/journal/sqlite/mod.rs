//! The journal in one SQLite file, for one machine.
//!
//! ```text
//!  load, prune ──> writing thread ──> one transaction a call ──> records, minutes, parts
//!  page, minutes ──> reading thread ──> one index, chosen by us ──> at most so many rows
//! ```
//!
//! Several processes may have the same file open; each waits for the transaction of another.

mod fault;
mod file;
mod loading;
mod options;
mod schema;
mod worker;

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::journal::contract::{Batch, Journal, JournalFuture};
use crate::record::{Cursor, FoundRecords, Keep, Pruned};
use crate::record::{MinuteQuery, MinuteStats, Query};
use crate::sqlite::records::Reader;
use crate::time::Timestamp;

use self::loading::Writer;
pub use self::options::SqliteOptions;
use self::worker::Worker;

/// A journal in one SQLite file: nothing to install, and readable by any SQLite tool, through the
/// views `history` and `tasks`.
///
/// A load that answered survives a power cut. A load that failed changed nothing and may be tried
/// again. The file may be open in several processes.
///
/// # Examples
///
/// ```
/// use duly::journal::{Journal, SqliteJournal};
/// use duly::records::Query;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let directory = tempfile::tempdir()?;
/// let journal = SqliteJournal::open(directory.path().join("journal.db"))?;
/// assert_eq!(journal.page(Query::default()).await?.records, []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct SqliteJournal {
    path: PathBuf,
    // Dropped before the writing one, which copies the log into the file when it is the last.
    reading: Worker<Reader>,
    writing: Worker<Writer>,
}

impl SqliteJournal {
    /// Opens the journal in the file at `path`, and makes it where it is missing.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, SqliteOptions::new())
    }

    /// Opens the journal in the file at `path` with choices of your own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) when the file is not a journal, was
    /// written by a newer duly, or is damaged; [`ErrorKind::Full`](crate::ErrorKind::Full) when the
    /// disk is; [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) when it cannot be
    /// written.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "as for every store and journal"
    )]
    pub fn open_with(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = file::prepare(path.as_ref())?;
        let writer = Writer::new(schema::open_writer(&path, options.cache_bytes)?, &path);
        let reader = Reader::new(schema::open_reader(&path, options.cache_bytes / 4)?);
        Ok(Self {
            writing: Worker::start("duly-journal", writer)?,
            reading: Worker::start("duly-journal-reader", reader)?,
            path,
        })
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How SQLite comes by the records of `query`, in the words of its `EXPLAIN QUERY PLAN`: one
    /// index, no sorting. All other filters are looked at row by row, a bounded number a page.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn plan(&self, query: Query) -> JournalFuture<Vec<String>> {
        Box::pin(
            self.reading
                .run(move |reader| reader.plan(&query).map_err(fault::at_read)),
        )
    }
}

impl Journal for SqliteJournal {
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()> {
        Box::pin(self.writing.run(move |writer| writer.load(&batches)))
    }

    fn page(&self, query: Query) -> JournalFuture<FoundRecords> {
        Box::pin(
            self.reading
                .run(move |reader| reader.page(&query).map_err(fault::at_read)),
        )
    }

    fn minutes(&self, query: MinuteQuery) -> JournalFuture<Vec<MinuteStats>> {
        Box::pin(
            self.reading
                .run(move |reader| reader.minutes(&query).map_err(fault::at_read)),
        )
    }

    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned> {
        Box::pin(self.writing.run(move |writer| writer.prune(keep, now)))
    }

    fn erase(&self, places: Vec<Cursor>) -> JournalFuture<()> {
        Box::pin(self.writing.run(move |writer| writer.erase(&places)))
    }

    fn close(&self) -> JournalFuture<()> {
        // The writer last, so that it is the one to copy the log into the file.
        let (read, written) = (self.reading.close(), self.writing.close());
        Box::pin(async move {
            read.await;
            written.await;
            Ok(())
        })
    }
}
