//! The shared state of one process: an SQLite file, and counters in memory.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::time::Instant;

use super::file::StateFile;
use super::own_file::OwnFile;
use super::{AUDIT_MAX, AuditLine, Result, StateError, Table};

/// The tables; a change needs a migration and another `user_version`.
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS entries (
        kind  TEXT NOT NULL,
        key   TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (kind, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS audit (
        number INTEGER PRIMARY KEY,
        line   TEXT NOT NULL
    ) STRICT;
    PRAGMA user_version = 1;
";
/// How many counters are kept before those of past windows are removed.
const COUNTERS_MAX: usize = 10_000;

/// The state, in a file that this process alone uses.
///
/// Lookups of tokens are cached, so no statement runs for each request.
#[derive(Debug)]
pub(super) struct LocalState {
    file: StateFile,
    version: Arc<AtomicU64>,
    counters: Mutex<HashMap<String, Counter>>,
}

/// The calls of a window.
#[derive(Debug)]
struct Counter {
    taken: u64,
    ends: Instant,
}

#[allow(clippy::needless_pass_by_value)] // what `map_err` takes
fn failed(error: rusqlite::Error) -> StateError {
    StateError::new("sqlite", &error)
}

impl LocalState {
    pub(super) fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error: &dyn fmt::Display| StateError::new(&path.display().to_string(), error);
        let own = OwnFile::open(path).map_err(|error| failed(&error))?;
        let connection = Connection::open(path).map_err(|error| failed(&error))?;
        Self::with(connection, Some(own))
    }

    pub(super) fn in_memory() -> Result<Self> {
        Self::with(Connection::open_in_memory().map_err(failed)?, None)
    }

    fn with(connection: Connection, own: Option<OwnFile>) -> Result<Self> {
        connection
            .busy_timeout(Duration::from_secs(5))
            .map_err(failed)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        let version = Arc::<AtomicU64>::default();
        // The lock is held until the connection is closed.
        let file = StateFile::start(connection, Arc::clone(&version), own);
        Ok(Self {
            file: file.map_err(|error| StateError::new("sqlite", &error))?,
            version,
            counters: Mutex::default(),
        })
    }

    /// The version: a number of this process, as no other changes the file.
    pub(super) fn version(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    pub(super) async fn get(&self, table: Table, key: &str) -> Result<Option<String>> {
        let key = key.to_owned();
        let get = move |file: &Connection| {
            let select = "SELECT value FROM entries WHERE kind = ?1 AND key = ?2";
            let mut select = file.prepare_cached(select).map_err(failed)?;
            let row = select.query_row(params![table.name(), key], |row| row.get(0));
            row.optional().map_err(failed)
        };
        self.file.run(false, get).await
    }

    pub(super) async fn put(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        let put = insert(REPLACE, table, key, value);
        self.file.run(table.is_versioned(), put).await
    }

    /// Puts a value soon, unless too much waits; returns whether it will.
    pub(super) fn put_later(&self, table: Table, key: &str, value: &str) -> bool {
        let put = insert(REPLACE, table, key, value);
        let put = move |file: &Connection| put(file).map(drop);
        self.file.run_later(table.name(), put).is_ok()
    }

    /// Returns how often such a value was not put after all.
    pub(super) fn failures(&self) -> u64 {
        self.file.failures()
    }

    pub(super) async fn put_new(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        let put = insert(INSERT, table, key, value);
        self.file.run(table.is_versioned(), put).await
    }

    pub(super) async fn remove(&self, table: Table, key: &str) -> Result<()> {
        let key = key.to_owned();
        let remove = move |file: &Connection| {
            let delete = "DELETE FROM entries WHERE kind = ?1 AND key = ?2";
            let mut delete = file.prepare_cached(delete).map_err(failed)?;
            let deleted = delete.execute(params![table.name(), key]);
            deleted.map(drop).map_err(failed)
        };
        self.file.run(table.is_versioned(), remove).await
    }

    /// Puts values in one step; with `only_new` those alone whose key has none.
    pub(super) async fn put_all(
        &self,
        table: Table,
        entries: &[(String, String)],
        only_new: bool,
    ) -> Result<()> {
        let statement = if only_new { INSERT } else { REPLACE };
        let entries = entries.to_vec();
        let put = move |file: &Connection| {
            let mut put = file.prepare_cached(statement).map_err(failed)?;
            for (key, value) in &entries {
                put.execute(params![table.name(), key, value])
                    .map_err(failed)?;
            }
            Ok(())
        };
        self.file.run(table.is_versioned(), put).await
    }

    pub(super) async fn list(&self, table: Table, prefix: &str) -> Result<Vec<(String, String)>> {
        let prefix = prefix.to_owned();
        let list = move |file: &Connection| {
            let select = "SELECT key, value FROM entries
                 WHERE kind = ?1 AND substr(key, 1, length(?2)) = ?2 ORDER BY key";
            let mut select = file.prepare_cached(select).map_err(failed)?;
            let rows = select.query_map(params![table.name(), prefix], |row| {
                Ok((row.get(0)?, row.get(1)?))
            });
            rows.and_then(Iterator::collect).map_err(failed)
        };
        self.file.run(false, list).await
    }

    pub(super) fn take(&self, counter: &str, max: u64, window: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut counters = self.counters.lock();
        if counters.len() >= COUNTERS_MAX {
            counters.retain(|_, counter| counter.ends > now);
        }
        let fresh = || Counter {
            taken: 0,
            ends: now + window,
        };
        let counter = counters.entry(counter.to_owned()).or_insert_with(fresh);
        if counter.ends <= now {
            *counter = fresh();
        }
        if counter.taken >= max {
            return Some(counter.ends - now);
        }
        counter.taken += 1;
        None
    }

    pub(super) fn give_back(&self, counter: &str) {
        let mut counters = self.counters.lock();
        if let Some(counter) = counters.get_mut(counter) {
            counter.taken = counter.taken.saturating_sub(1);
        }
    }

    pub(super) async fn audit(&self, line: &str) -> Result<()> {
        let line = line.to_owned();
        let add = move |file: &Connection| {
            let added = file.execute("INSERT INTO audit (line) VALUES (?1)", [line]);
            added.map_err(failed)?;
            let last = file.last_insert_rowid();
            let kept = i64::try_from(AUDIT_MAX).unwrap_or(i64::MAX);
            let removed = file.execute("DELETE FROM audit WHERE number <= ?1", [last - kept]);
            removed.map(drop).map_err(failed)
        };
        self.file.run(false, add).await
    }

    pub(super) async fn audit_lines(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AuditLine>> {
        let before = before.and_then(|before| before.parse().ok());
        let before: i64 = before.unwrap_or(i64::MAX);
        let lines = move |file: &Connection| {
            let select = "SELECT CAST(number AS TEXT), line FROM audit WHERE number < ?1
                 ORDER BY number DESC LIMIT ?2";
            let mut select = file.prepare_cached(select).map_err(failed)?;
            let rows =
                select.query_map(params![before, limit], |row| Ok((row.get(0)?, row.get(1)?)));
            rows.and_then(Iterator::collect).map_err(failed)
        };
        self.file.run(false, lines).await
    }
}

const REPLACE: &str = "INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3)";
const INSERT: &str = "INSERT OR IGNORE INTO entries VALUES (?1, ?2, ?3)";

/// Returns what inserts a row, and returns whether it did.
fn insert(
    statement: &'static str,
    table: Table,
    key: &str,
    value: &str,
) -> impl FnOnce(&Connection) -> Result<bool> + Send + 'static {
    let (key, value) = (key.to_owned(), value.to_owned());
    move |file| {
        let mut insert = file.prepare_cached(statement).map_err(failed)?;
        let rows = insert.execute(params![table.name(), key, value]);
        rows.map(|rows| rows > 0).map_err(failed)
    }
}
