//! The journal in a SQLite file, and a plain insert of the same rows into the same table.

use std::sync::Arc;
use std::time::Duration;

use duly::journal::{Journal, SqliteJournal};
use duly::records::{Numbered, Query, Record};
use rusqlite::{Connection, params};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::Result;
use crate::contender::{Contender, Doing};

/// How many records belong to a part, as in the journal.
const PART: i64 = 500_000;

pub(crate) struct Sqlite {
    journal: Arc<SqliteJournal>,
    /// On a file with the same tables.
    raw: Connection,
    directory: TempDir,
}

impl Sqlite {
    pub(crate) fn open() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name);
        drop(SqliteJournal::open(at("raw.db"))?);
        let raw = Connection::open(at("raw.db"))?;
        raw.execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4096; \
             PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY",
        )?;
        Ok(Self {
            journal: Arc::new(SqliteJournal::open(at("journal.db"))?),
            raw,
            directory,
        })
    }

    fn insert(&mut self, records: &[Numbered]) -> Result<Duration> {
        // What has to be made of a record is not the database's work.
        let rows: Vec<_> = records.iter().map(Row::of).collect();
        let began = Instant::now();
        let bulk = self.raw.transaction()?;
        {
            let mut insert = bulk.prepare_cached(
                "INSERT INTO records VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
                 ?13, ?14, ?15, ?16, NULL, ?17, NULL)",
            )?;
            for row in &rows {
                let stages = row.record.stages;
                insert.execute(params![
                    stages.finished_us as i64,
                    row.number,
                    row.event,
                    row.queue,
                    row.outcome,
                    row.cause,
                    row.record.attempt,
                    row.node,
                    row.due,
                    stages.moved_us as i64,
                    stages.fetched_us as i64,
                    stages.started_us as i64,
                    row.number / PART,
                    row.number, // as long as a checksum, nearly
                    row.record.key,
                    row.trace,
                    row.record.error,
                ])?;
            }
        }
        bulk.commit()?;
        Ok(began.elapsed())
    }
}

/// A record as the table has it.
struct Row<'a> {
    record: &'a Record,
    number: i64,
    event: [u8; 16],
    queue: i64,
    outcome: i64,
    cause: Option<i64>,
    node: i64,
    due: i64,
    trace: Option<[u8; 16]>,
}

impl<'a> Row<'a> {
    fn of((number, record): &'a Numbered) -> Self {
        Self {
            record,
            number: *number as i64,
            event: record.id.to_bytes(),
            queue: record.queue.len() as i64,
            outcome: record.outcome as i64,
            cause: record.cause.map(|cause| cause as i64),
            node: record.node.0 as i64,
            due: record.due.as_millis() as i64,
            trace: record.trace.map(|trace| trace.to_bytes()),
        }
    }
}

impl Contender for Sqlite {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn journal(&self) -> Arc<dyn Journal> {
        let journal: Arc<SqliteJournal> = Arc::clone(&self.journal);
        journal
    }

    fn raw_load<'a>(&'a mut self, records: &'a [Numbered]) -> Doing<'a, Duration> {
        Box::pin(std::future::ready(self.insert(records)))
    }

    fn plan(&self, query: Query) -> Doing<'_, Vec<String>> {
        Box::pin(async move { Ok(self.journal.plan(query).await?) })
    }

    fn server_time(&self) -> Option<Duration> {
        None
    }

    fn bytes(&self) -> Doing<'_, u64> {
        let bytes = std::fs::metadata(self.directory.path().join("journal.db"));
        Box::pin(std::future::ready(Ok(bytes.map_or(0, |it| it.len()))))
    }
}
