//! The shared state of one process: an SQLite file, and counters in memory.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};

use super::counters::Counters;
use super::file::{StateFile, failed};
use super::own_file::OwnFile;
use super::versions::{LocalVersions, VersionOf};
use super::{Call, NAMES_MAX, Result, StateError, Table, Window, behind};

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
    CREATE TABLE IF NOT EXISTS audit_of_namespaces (
        number    INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        line      TEXT NOT NULL
    ) STRICT;
    PRAGMA user_version = 1;
";
/// How long a change waits for another writer of the file, and all that comes after it.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// The state, in a file that this process alone uses.
///
/// Lookups of tokens are cached, so no statement runs for each request.
#[derive(Debug)]
pub(super) struct LocalState {
    pub(super) file: StateFile,
    versions: Arc<LocalVersions>,
    counters: Mutex<Counters>,
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
        connection.busy_timeout(BUSY_MAX).map_err(failed)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        let versions = Arc::<LocalVersions>::default();
        // The lock is held until the connection is closed.
        let file = StateFile::start(connection, Arc::clone(&versions), own);
        Ok(Self {
            file: file.map_err(|error| StateError::new("sqlite", &error))?,
            versions,
            counters: Mutex::default(),
        })
    }

    pub(super) fn versions(&self) -> Arc<LocalVersions> {
        Arc::clone(&self.versions)
    }

    pub(super) async fn get(&self, table: Table, key: &str) -> Result<Option<String>> {
        let key = key.to_owned();
        let get = move |file: &Connection| {
            let select = "SELECT value FROM entries WHERE kind = ?1 AND key = ?2";
            let mut select = file.prepare_cached(select).map_err(failed)?;
            let row = select.query_row(params![table.name(), key], |row| row.get(0));
            row.optional().map_err(failed)
        };
        self.file.run(None, get).await
    }

    pub(super) async fn put(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        let put = insert(REPLACE, table, key, value);
        self.file.run(table.version(), put).await
    }

    /// Puts a value soon, unless too much waits; returns whether it will.
    pub(super) fn put_later(&self, table: Table, key: &str, value: &str) -> bool {
        let put = insert(REPLACE, table, key, value);
        let put = move |file: &Connection| put(file).map(drop);
        self.file.run_later(table.name(), put).is_ok()
    }

    /// Notes the name of a queue soon, and calls `is_full` where its namespace has no room for it;
    /// returns whether it will.
    pub(super) fn note_queue(
        &self,
        namespace: &str,
        queue: &str,
        is_full: impl FnOnce() + Send + 'static,
    ) -> bool {
        let (key, first, behind) = (
            format!("{namespace}{queue}"),
            namespace.to_owned(),
            behind(namespace),
        );
        let note = move |file: &Connection| {
            let most = i64::try_from(NAMES_MAX).unwrap_or(i64::MAX);
            let kind = Table::Queues.name();
            // First the one that writes: SQLite waits for another writer only where nothing is read.
            let mut note = file.prepare_cached(NOTE).map_err(failed)?;
            let noted = note.execute(params![kind, key, first, behind, most]);
            if noted.map_err(failed)? > 0 {
                return Ok(());
            }
            let mut known = file.prepare_cached(KNOWN).map_err(failed)?;
            if !known.exists(params![kind, key]).map_err(failed)? {
                is_full();
            }
            Ok(())
        };
        self.file.run_later(Table::Queues.name(), note).is_ok()
    }

    /// Returns how often such a value was not put after all.
    pub(super) fn failures(&self) -> u64 {
        self.file.failures()
    }

    pub(super) async fn put_new(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        let put = insert(INSERT, table, key, value);
        self.file.run(table.version(), put).await
    }

    pub(super) async fn remove(&self, table: Table, key: &str) -> Result<()> {
        let key = key.to_owned();
        let remove = move |file: &Connection| {
            let delete = "DELETE FROM entries WHERE kind = ?1 AND key = ?2";
            let mut delete = file.prepare_cached(delete).map_err(failed)?;
            let deleted = delete.execute(params![table.name(), key]);
            deleted.map(drop).map_err(failed)
        };
        self.file.run(table.version(), remove).await
    }

    /// Removes an entry if another table has none of its key; fails at once while another process
    /// writes the file, as each check of a token would wait for that as well.
    pub(super) async fn remove_orphan(&self, (table, of): (Table, Table), key: &str) -> Result<()> {
        let key = key.to_owned();
        let remove = move |file: &Connection| {
            let delete = "DELETE FROM entries WHERE kind = ?1 AND key = ?2
                 AND NOT EXISTS (SELECT 1 FROM entries WHERE kind = ?3 AND key = ?2)";
            file.busy_timeout(Duration::ZERO).map_err(failed)?;
            let deleted = file.execute(delete, params![table.name(), key, of.name()]);
            file.busy_timeout(BUSY_MAX).map_err(failed)?;
            deleted.map(drop).map_err(failed)
        };
        self.file.run(None, remove).await
    }

    /// Removes a token, with what is kept of it, unless a row is given and the token's is another one;
    /// returns whether there was a token.
    pub(super) async fn remove_token(&self, key: &str, row: Option<&str>) -> Result<bool> {
        let (key, row) = (key.to_owned(), row.map(str::to_owned));
        let remove = move |file: &Connection| {
            let tokens = Table::Tokens.name();
            let delete = "DELETE FROM entries
                 WHERE kind = ?1 AND key = ?2 AND value = ifnull(?3, value)";
            let mut delete = file.prepare_cached(delete).map_err(failed)?;
            let deleted = delete.execute(params![tokens, key, row]);
            let was_there = deleted.map_err(failed)? > 0;
            if row.is_some() && !was_there {
                return Ok(false);
            }
            for table in Table::OF_TOKENS {
                let delete = "DELETE FROM entries WHERE kind = ?1 AND key = ?2";
                let mut delete = file.prepare_cached(delete).map_err(failed)?;
                let deleted = delete.execute(params![table.name(), key]);
                deleted.map_err(failed)?;
            }
            Ok(was_there)
        };
        self.file.run(Some(VersionOf::Rights), remove).await
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
        self.file.run(table.version(), put).await
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
        self.file.run(None, list).await
    }

    /// Returns up to `limit` entries after a place, and the place after them, which is empty behind
    /// the last.
    pub(super) async fn some(
        &self,
        table: Table,
        after: &str,
        limit: usize,
    ) -> Result<(Vec<(String, String)>, String)> {
        let after = after.to_owned();
        let some = move |file: &Connection| {
            let select = "SELECT key, value FROM entries
                 WHERE kind = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
            let mut select = file.prepare_cached(select).map_err(failed)?;
            let most = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = select.query_map(params![table.name(), after, most], |row| {
                Ok((row.get(0)?, row.get(1)?))
            });
            rows.and_then(Iterator::collect).map_err(failed)
        };
        let rows: Vec<(String, String)> = self.file.run(None, some).await?;
        let last = rows.last().filter(|_| rows.len() == limit);
        let place = last.map(|(key, _)| key.clone()).unwrap_or_default();
        Ok((rows, place))
    }

    pub(super) fn take(&self, counter: &str, max: u64, window: Duration) -> Call {
        self.counters.lock().take(counter, max, window)
    }

    pub(super) fn give_back(&self, counter: &str, window: Window) {
        self.counters.lock().give_back(counter, window);
    }
}

const REPLACE: &str = "INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3)";
const INSERT: &str = "INSERT OR IGNORE INTO entries VALUES (?1, ?2, ?3)";

const KNOWN: &str = "SELECT 1 FROM entries WHERE kind = ?1 AND key = ?2";
/// Inserts a key that is not there, if there are fewer than so many from a key on to behind another.
const NOTE: &str = "INSERT INTO entries SELECT ?1, ?2, ''
     WHERE NOT EXISTS (SELECT 1 FROM entries WHERE kind = ?1 AND key = ?2)
     AND ?5 > (SELECT count(*) FROM (SELECT 1 FROM entries
         WHERE kind = ?1 AND key >= ?3 AND key < ?4 LIMIT ?5))";

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[tokio::test]
    async fn a_namespace_has_so_many_names_of_queues_and_others_have_theirs() {
        let state = LocalState::in_memory().unwrap();
        let noted = async |namespace: &str, queue: &str| {
            let full = Arc::new(AtomicU64::default());
            let is_full = Arc::clone(&full);
            let is_full = move || is_full.store(1, std::sync::atomic::Ordering::SeqCst);
            assert!(state.note_queue(namespace, queue, is_full));
            // It runs what it is sent in this order.
            state.get(Table::Queues, "").await.unwrap();
            full.load(std::sync::atomic::Ordering::SeqCst) == 0
        };
        for number in 0..NAMES_MAX {
            assert!(noted("default/ns/", &number.to_string()).await, "{number}");
        }
        assert!(!noted("default/ns/", "new").await);
        assert!(noted("default/ns/", "7").await, "it is there already");
        assert!(noted("default/n/", "new").await);
        assert!(noted("default/ns0/", "new").await);
        state.remove(Table::Queues, "default/ns/7").await.unwrap();
        assert!(noted("default/ns/", "new").await);
        assert!(!noted("default/ns/", "7").await);
        let all = state.list(Table::Queues, "default/").await.unwrap();
        assert_eq!(all.len(), NAMES_MAX + 2);
    }

    #[tokio::test]
    async fn what_is_left_of_a_gone_entry_holds_no_check_of_a_token_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let state = LocalState::open(&path).unwrap();
        let tables = (Table::WebhooksDisabled, Table::Webhooks);
        for (table, key) in [(tables.0, "gone"), (tables.0, "there"), (tables.1, "there")] {
            state.put(table, key, "{}").await.unwrap();
        }
        let before = state.versions().get();
        let another = Connection::open(&path).unwrap();
        another.execute_batch("BEGIN IMMEDIATE").unwrap();
        let began = tokio::time::Instant::now();
        let check = async {
            state.get(Table::Tokens, "a token").await.unwrap();
            began.elapsed()
        };
        // The removal goes first.
        let (removed, took) = tokio::join!(state.remove_orphan(tables, "gone"), check);
        assert!(removed.is_err(), "another process writes");
        assert!(took < BUSY_MAX / 2, "{took:?}");
        another.execute_batch("COMMIT").unwrap();
        for key in ["gone", "there"] {
            state.remove_orphan(tables, key).await.unwrap();
        }
        let left = state.list(tables.0, "").await.unwrap();
        assert_eq!(left, [("there".to_owned(), "{}".to_owned())]);
        // Each token would be read again for that.
        assert_eq!(state.versions().get(), before);
    }

    #[tokio::test]
    async fn all_entries_of_a_table_are_read_some_at_a_time() {
        let state = LocalState::in_memory().unwrap();
        for number in 0..5 {
            let key = number.to_string();
            state.put(Table::Respawned, &key, "x").await.unwrap();
        }
        state.put(Table::Tokens, "9", "x").await.unwrap();
        let (mut keys, mut place) = (Vec::new(), String::new());
        loop {
            let (some, next) = state.some(Table::Respawned, &place, 2).await.unwrap();
            keys.extend(some.into_iter().map(|(key, _)| key));
            place = next;
            if place.is_empty() {
                break;
            }
        }
        assert_eq!(keys, ["0", "1", "2", "3", "4"]);
    }
}
