//! The outbox in SQLite as the source of a relay.
//!
//! One connection writes at a time, so no row with a smaller number commits later, and the rows are
//! read by their numbers.

use std::path::PathBuf;
use std::time::Duration;

use duly::__outbox::{PlainEvent, plain_id};
use duly::time::Timestamp;
use duly::{Error, ErrorKind, EventId, Result};
use futures_util::future::BoxFuture;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, Row as SqlRow, TransactionBehavior, params};

use crate::relay::source::{
    Closing, DeferredRow, Ends, LIMIT, PAGE_BYTES, PAGE_MAX, Row, RowContent, Settling, Source,
    StoredLimit, TakeReply, Waiting,
};
use crate::schema::{self, Database};
use crate::sqlite::deferred;
use crate::sqlite::driver::{NOW, failed};

/// How long a call waits for other writers.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// As many rows are counted.
const COUNTED_MAX: u32 = 100_000;
/// The most ends that one sweep deletes.
const DONE_MAX: usize = 10_000;

/// An outbox in a file.
pub(crate) struct SqliteSource {
    file: PathBuf,
    /// The name of this relay.
    own: String,
    /// Taken out while a call is under way.
    open: Option<Connection>,
    taken: Option<Page>,
}

/// The rows that are being pushed.
#[derive(Clone)]
struct Page {
    numbers: Vec<i64>,
    /// Up to which row they may have been pushed before.
    pushed: i64,
    /// How often a relay had begun when this one did.
    claims: i64,
}

impl SqliteSource {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self {
            file,
            own: format!("{:016x}", fastrand::u64(..)),
            open: None,
            taken: None,
        }
    }

    /// Runs a call on the connection, on a thread for what blocks.
    async fn run<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (file, open) = (self.file.clone(), self.open.take());
        let done = tokio::task::spawn_blocking(move || {
            let mut connection = match open {
                Some(connection) => connection,
                None => {
                    // Never made here: its tables would be missing anyhow.
                    let flags = OpenFlags::default() & !OpenFlags::SQLITE_OPEN_CREATE;
                    let connection = Connection::open_with_flags(file, flags)?;
                    connection.busy_timeout(BUSY_MAX)?;
                    connection
                }
            };
            let result = call(&mut connection)?;
            Ok((connection, result))
        });
        let done: rusqlite::Result<_> = done.await.map_err(|error| {
            let text = format!("a call of the outbox has ended early: {error}");
            Error::new(ErrorKind::Unavailable, text)
        })?;
        let (connection, result) = done.map_err(|error| failed(&error))?;
        self.open = Some(connection);
        Ok(result)
    }

    async fn check_tables(&mut self) -> Result<()> {
        self.run(add_columns).await?;
        let found = self.run(|connection| {
            let sql = "select tables.name || '.' || columns.name from sqlite_master as tables, \
                       pragma_table_info(tables.name) as columns where tables.type = 'table'";
            let mut statement = connection.prepare(sql)?;
            let names = statement.query_map([], |row| row.get(0))?;
            names.collect::<rusqlite::Result<Vec<String>>>()
        });
        let missing = schema::missing(Database::Sqlite, &found.await?);
        schema::check_missing(Database::Sqlite, &missing)?;
        let found = self.run(|connection| {
            let sql = "select 'primary key of ' || tables.name from sqlite_master as tables, \
                       pragma_table_info(tables.name) as columns \
                       where tables.type = 'table' and columns.pk > 0 \
                       union all select 'index ' || name from sqlite_master where type = 'index' \
                       union all select 'row of duly_outbox_step' from duly_outbox_step \
                       union all select 'row of duly_outbox_salt' from duly_outbox_salt";
            let mut statement = connection.prepare(sql)?;
            let names = statement.query_map([], |row| row.get(0))?;
            names.collect::<rusqlite::Result<Vec<String>>>()
        });
        let missing = schema::missing_parts(Database::Sqlite, &found.await?);
        schema::check_missing(Database::Sqlite, &missing)?;
        let version = self.run(|connection| {
            let sql = "select coalesce(max(version), 0) from duly_outbox_version";
            connection.query_row(sql, [], |row| row.get(0))
        });
        schema::check_version(Database::Sqlite, version.await?)
    }

    async fn take_rows(&mut self) -> Result<TakeReply> {
        self.taken = None;
        let is_empty = self.run(|connection| {
            let sql = "select not exists (select 1 from duly_outbox)";
            connection.query_row(sql, [], |row| row.get::<_, bool>(0))
        });
        if is_empty.await? {
            return Ok(TakeReply::Nothing);
        }
        let (page, rows) = self.run(claim).await?;
        if rows.is_empty() {
            return Ok(TakeReply::Locked); // another relay was faster
        }
        self.taken = Some(page);
        Ok(TakeReply::Rows(rows))
    }

    async fn close_page(&mut self, closing: Closing) -> Result<bool> {
        let Some(page) = self.taken.take() else {
            return Ok(false);
        };
        self.run(move |connection| close(connection, &page, &closing))
            .await
    }
}

/// Adds what tables of an earlier form lack: SQL of SQLite cannot add a column only if there is none.
fn add_columns(connection: &mut Connection) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (table, column, of) in [
        (
            "duly_outbox_refused",
            "repeated",
            "integer not null default 1",
        ),
        ("duly_outbox", "anew", "integer not null default 0"),
        ("duly_outbox_deferred", "anew", "integer not null default 0"),
    ] {
        let sql = "select count(*) > 0 and sum(name = ?2) = 0 from pragma_table_info(?1)";
        let lacks: bool = tx.query_row(sql, [table, column], |row| row.get(0))?;
        if lacks {
            tx.execute(&format!("alter table {table} add column {column} {of}"), [])?;
        }
    }
    tx.commit()
}

/// Stores that the next rows may have been pushed, and returns them.
fn claim(connection: &mut Connection) -> rusqlite::Result<(Page, Vec<Row>)> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (pushed, claims): (i64, i64) = tx.query_row(
        "update duly_outbox_step set claims = claims + 1 returning pushed, claims",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let mut page = Page {
        numbers: Vec::new(),
        pushed,
        claims,
    };
    let mut rows = Vec::new();
    let mut bytes = 0;
    {
        let sql = "select n, repeated, event, queue, payload, due, id, options, at, \
                   (select salt from duly_outbox_salt) as salt, anew \
                   from duly_outbox order by n limit ?1";
        let mut statement = tx.prepare_cached(sql)?;
        let mut found = statement.query([PAGE_MAX as i64])?;
        while let Some(row) = found.next()? {
            let n: i64 = row.get(0)?;
            let len = len(row, 2)? + len(row, 4)?;
            let content = content(row).unwrap_or_else(RowContent::Unreadable);
            // What plain SQL wrote is not pushed itself.
            let was_pushed = n <= pushed && matches!(content, RowContent::Staged(_));
            page.numbers.push(n);
            rows.push(Row {
                is_repeated: was_pushed || row.get(1)?,
                is_anew: row.get("anew")?,
                content,
            });
            bytes += len;
            if bytes >= PAGE_BYTES {
                break;
            }
        }
    }
    if let Some(last) = page.numbers.last().filter(|last| **last > pushed) {
        tx.execute("update duly_outbox_step set pushed = ?1", [last])?;
    }
    tx.commit()?;
    Ok((page, rows))
}

/// Returns how many bytes a value has.
fn len(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<usize> {
    let bytes = row.get_ref(at)?.as_bytes_or_null()?;
    Ok(bytes.map_or(0, <[u8]>::len))
}

/// Reads what a row says; the error is why it cannot be read: a text of SQLite may be any bytes.
fn content(row: &SqlRow<'_>) -> Result<RowContent, String> {
    if let Some(event) = value(row, "event")? {
        return Ok(RowContent::Staged(event));
    }
    let queue: String = value(row, "queue")?.unwrap_or_default();
    let payload: String = value(row, "payload")?.unwrap_or_default();
    let millis = |ms: i64| Timestamp::from_millis(u64::try_from(ms).unwrap_or(0));
    let at = value(row, "at")?.map_or(Timestamp::EPOCH, millis);
    let chosen: Option<String> = value(row, "id")?;
    let is_id_chosen = chosen.is_some();
    let id = match chosen {
        Some(id) => id.parse::<EventId>().map_err(|error| error.to_string())?,
        None => {
            let n = value(row, "n")?.unwrap_or_default();
            let salt: String = value(row, "salt")?.unwrap_or_default();
            plain_id(&salt, (n, at), [&queue, &payload])
        }
    };
    Ok(RowContent::Plain(PlainEvent {
        queue,
        payload,
        due: value(row, "due")?.map(millis),
        at,
        id,
        is_id_chosen,
        options: value(row, "options")?.unwrap_or_else(|| "{}".to_owned()),
    }))
}

fn value<T: FromSql>(row: &SqlRow<'_>, name: &str) -> Result<Option<T>, String> {
    let value = row.get(name);
    value.map_err(|error| format!("the {name} cannot be read: {error}"))
}

/// Deletes the rows that are settled, with what becomes of them, in one transaction.
fn close(connection: &mut Connection, page: &Page, closing: &Closing) -> rusqlite::Result<bool> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number = |at: usize| page.numbers.get(at).copied().unwrap_or_default();
    // Another relay has begun since, and may have pushed what is staged.
    let is_shared = "select claims <> ?1 from duly_outbox_step";
    let is_shared: bool = tx.query_row(is_shared, [page.claims], |row| row.get(0))?;
    for row in &closing.refused {
        tx.execute(
            "insert into duly_outbox_refused \
             (n, at, reason, repeated, event, queue, payload, due, id, options) \
             select n, at, ?2, ?3 or ?4 and event is not null, \
             event, queue, payload, due, id, options from duly_outbox where n = ?1",
            params![number(row.row), row.reason, row.is_repeated, is_shared],
        )?;
    }
    for row in &closing.instead {
        tx.execute(
            "insert into duly_outbox (at, repeated, event) \
             select at, ?2, ?3 from duly_outbox where n = ?1",
            params![number(row.place), row.is_repeated, row.event],
        )?;
    }
    for row in &closing.deferred {
        tx.execute(
            "insert into duly_outbox_deferred (at, repeated, anew, event, bucket) \
             select at, ?2, anew, event, ?3 from duly_outbox where n = ?1",
            params![number(row.place), row.is_repeated || is_shared, row.group],
        )?;
    }
    let mut deleted = 0;
    {
        let mut statement = tx.prepare_cached("delete from duly_outbox where n = ?1")?;
        for n in page.numbers.iter().take(closing.passed) {
            deleted += statement.execute([n])?;
        }
    }
    let is_whole = closing.passed == page.numbers.len();
    if !is_whole && !closing.is_repeated && !is_shared {
        // None of the others was pushed, unless before.
        let before = page.numbers.get(closing.passed).map_or(0, |n| n - 1);
        let before = before.max(page.pushed);
        tx.execute("update duly_outbox_step set pushed = ?1", [before])?;
    }
    tx.commit()?;
    Ok(closing.passed == 0 || deleted > 0)
}

impl Source for SqliteSource {
    fn check(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.check_tables())
    }

    fn take(&mut self) -> BoxFuture<'_, Result<TakeReply>> {
        Box::pin(self.take_rows())
    }

    fn close(&mut self, closing: Closing) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.close_page(closing))
    }

    fn groups(&mut self, behind: String) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(self.run(|connection| deferred::groups(connection, behind)))
    }

    fn take_deferred(
        &mut self,
        group: String,
        rows: (i64, usize),
    ) -> BoxFuture<'_, Result<Vec<DeferredRow>>> {
        let own = self.own.clone();
        Box::pin(self.run(move |connection| deferred::take(connection, &own, &group, rows)))
    }

    fn release_deferred(&mut self) -> BoxFuture<'_, Result<()>> {
        let own = self.own.clone();
        Box::pin(self.run(move |connection| {
            let sql = "update duly_outbox_deferred set holder = '' where holder = ?1";
            connection.execute(sql, [own]).map(drop)
        }))
    }

    fn settle_deferred(&mut self, settling: Settling) -> BoxFuture<'_, Result<()>> {
        let own = self.own.clone();
        Box::pin(self.run(move |connection| deferred::settle(connection, &own, &settling)))
    }

    fn waiting(&mut self) -> BoxFuture<'_, Result<Waiting>> {
        Box::pin(self.run(|connection| {
            let sql = format!(
                "select count(*), coalesce({NOW} - min(at), 0), count(*) filter (where is_deferred), \
                 (select count(*) from (select 1 from duly_outbox_refused limit {COUNTED_MAX})) \
                 from (select * from (select at, false as is_deferred from duly_outbox \
                 order by n limit {COUNTED_MAX}) union all \
                 select * from (select at, true from duly_outbox_deferred limit {COUNTED_MAX}))"
            );
            connection.query_row(&sql, [], |row| {
                let oldest: i64 = row.get(1)?;
                Ok(Waiting {
                    rows: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0),
                    oldest: Duration::from_millis(u64::try_from(oldest).unwrap_or(0)),
                    deferred: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                    refused: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                })
            })
        }))
    }

    fn ends(&mut self) -> BoxFuture<'_, Result<Ends>> {
        Box::pin(self.run(|connection| {
            let sql = format!("select {NOW}, (select min(at) from duly_done), {LIMIT}");
            connection.query_row(&sql, [], |row| {
                let limit = [row.get(2)?, row.get(3)?];
                Ok(Ends::of(row.get(0)?, row.get(1)?, limit))
            })
        }))
    }

    fn sweep(
        &mut self,
        before: Timestamp,
        moved: Option<StoredLimit>,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.run(move |connection| {
            if let Some(moved) = moved {
                let sql = format!("replace into duly_done_limit values ({})", moved.values());
                connection.execute(&sql, [])?;
            }
            let sql = format!(
                "delete from duly_done where event in (select event from duly_done \
                 where at < ?1 order by at limit {DONE_MAX})"
            );
            let before = i64::try_from(before.as_millis()).unwrap_or(i64::MAX);
            Ok(connection.execute(&sql, [before])? == DONE_MAX)
        }))
    }
}
