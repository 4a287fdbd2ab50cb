//! The shared state of one process: an SQLite file, and counters in memory.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::time::Instant;

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
/// Its statements are few and short: lookups of tokens are cached, so none of them runs for each
/// request, and the lock is never held over an `await`.
#[derive(Debug)]
pub(super) struct LocalState {
    file: Mutex<Connection>,
    version: Arc<AtomicU64>,
    counters: Mutex<HashMap<String, Counter>>,
    /// Held until the connection is closed, which comes before it.
    _lock: Option<File>,
}

/// Opens the file, or makes it, for its owner alone, as it has secrets; and locks it, as another
/// server would not see its changes.
fn own_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another server uses this file; give each server its own `admin.state`, or all of them \
             a Redis",
        )),
        Err(TryLockError::Error(error)) => Err(error),
    }
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
        let lock = own_file(path).map_err(|error| failed(&error))?;
        let connection = Connection::open(path).map_err(|error| failed(&error))?;
        Self::with(connection, Some(lock))
    }

    pub(super) fn in_memory() -> Result<Self> {
        Self::with(Connection::open_in_memory().map_err(failed)?, None)
    }

    fn with(connection: Connection, lock: Option<File>) -> Result<Self> {
        connection
            .busy_timeout(Duration::from_secs(5))
            .map_err(failed)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        Ok(Self {
            file: Mutex::new(connection),
            version: Arc::default(),
            counters: Mutex::default(),
            _lock: lock,
        })
    }

    /// The version: a number of this process, as no other changes the file.
    pub(super) fn version(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    fn file(&self) -> MutexGuard<'_, Connection> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, table: Table) {
        if table.is_versioned() {
            self.version.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(super) fn get(&self, table: Table, key: &str) -> Result<Option<String>> {
        let file = self.file();
        let mut select = file
            .prepare_cached("SELECT value FROM entries WHERE kind = ?1 AND key = ?2")
            .map_err(failed)?;
        let row = select.query_row(params![table.name(), key], |row| row.get(0));
        row.optional().map_err(failed)
    }

    pub(super) fn put(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        self.insert(
            "INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3)",
            table,
            key,
            value,
        )
    }

    pub(super) fn put_new(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        self.insert(
            "INSERT OR IGNORE INTO entries VALUES (?1, ?2, ?3)",
            table,
            key,
            value,
        )
    }

    fn insert(&self, statement: &str, table: Table, key: &str, value: &str) -> Result<bool> {
        let file = self.file();
        let mut insert = file.prepare_cached(statement).map_err(failed)?;
        let rows = insert
            .execute(params![table.name(), key, value])
            .map_err(failed)?;
        self.changed(table);
        Ok(rows > 0)
    }

    pub(super) fn put_all(
        &self,
        table: Table,
        entries: &[(String, String)],
        only_new: bool,
    ) -> Result<()> {
        let statement = match only_new {
            true => "INSERT OR IGNORE INTO entries VALUES (?1, ?2, ?3)",
            false => "INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3)",
        };
        let file = self.file();
        let step = file.unchecked_transaction().map_err(failed)?;
        for (key, value) in entries {
            let mut insert = step.prepare_cached(statement).map_err(failed)?;
            let row = params![table.name(), key, value];
            insert.execute(row).map_err(failed)?;
        }
        step.commit().map_err(failed)?;
        self.changed(table);
        Ok(())
    }

    pub(super) fn remove(&self, table: Table, key: &str) -> Result<()> {
        let file = self.file();
        let mut delete = file
            .prepare_cached("DELETE FROM entries WHERE kind = ?1 AND key = ?2")
            .map_err(failed)?;
        delete.execute(params![table.name(), key]).map_err(failed)?;
        self.changed(table);
        Ok(())
    }

    pub(super) fn list(&self, table: Table, prefix: &str) -> Result<Vec<(String, String)>> {
        let file = self.file();
        let mut select = file
            .prepare_cached(
                "SELECT key, value FROM entries
                 WHERE kind = ?1 AND substr(key, 1, length(?2)) = ?2 ORDER BY key",
            )
            .map_err(failed)?;
        let rows = select.query_map(params![table.name(), prefix], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
        rows.and_then(Iterator::collect).map_err(failed)
    }

    pub(super) fn take(&self, counter: &str, max: u64, window: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = counters.get_mut(counter) {
            counter.taken = counter.taken.saturating_sub(1);
        }
    }

    pub(super) fn audit(&self, line: &str) -> Result<()> {
        let file = self.file();
        file.execute("INSERT INTO audit (line) VALUES (?1)", [line])
            .map_err(failed)?;
        let last = file.last_insert_rowid();
        let kept = i64::try_from(AUDIT_MAX).unwrap_or(i64::MAX);
        file.execute("DELETE FROM audit WHERE number <= ?1", [last - kept])
            .map_err(failed)?;
        Ok(())
    }

    pub(super) fn audit_lines(&self, before: Option<&str>, limit: u32) -> Result<Vec<AuditLine>> {
        let before = before.and_then(|before| before.parse().ok());
        let before: i64 = before.unwrap_or(i64::MAX);
        let file = self.file();
        let mut select = file
            .prepare_cached(
                "SELECT CAST(number AS TEXT), line FROM audit WHERE number < ?1
                 ORDER BY number DESC LIMIT ?2",
            )
            .map_err(failed)?;
        let rows = select.query_map(params![before, limit], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(failed)
    }
}
