//! A connection of a relay to MySQL or MariaDB.
//!
//! It speaks the text protocol: a request has several statements, which are one round trip.

use std::time::Duration;

use duly::{Error, ErrorKind, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlRow};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Executor, MySqlConnection, Row};
use tokio::time::timeout;

use crate::mysql::sql::Statement;
use crate::session::{SqlResult, TextRow, hex, read_only, unreadable};
use crate::sqlx_0_9::of;

/// What a relay depends on, whatever the defaults of the server or of the user's pool are.
const SETTINGS: &str = "set names utf8mb4; \
     set session transaction isolation level read committed; \
     set session autocommit = 1, session sql_mode = 'STRICT_ALL_TABLES', \
     session sql_safe_updates = 0, session time_zone = '+00:00', \
     session innodb_lock_wait_timeout = 5 \
     /*!80029 , session max_execution_time = 20000 */ \
     /*M! , session max_statement_time = 20 */; \
     select @@max_allowed_packet";
/// Whether the server is only read from. It lets some users write nevertheless.
pub(super) const READ_ONLY: &str = "select concat(@@global.read_only) not in ('0', 'OFF')";
/// How long a request may take: longer than the server lets its statement run, in the settings of MySQL
/// and of MariaDB, since what is given up here would go on there.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// A request of more than one statement has no more bytes: below the least `max_allowed_packet`.
const REQUEST_BYTES: usize = 512 << 10;
/// What a statement has at most beside the bytes of an event.
const STATEMENT_BYTES: usize = 1 << 10;
/// How often a transaction is tried that the server has ended for another one.
const TRIES_MAX: u32 = 4;
/// The codes of such ends: a deadlock, which it breaks, and a lock that was waited for too long.
const CONFLICTS: [u16; 2] = [1213, 1205];

/// A session of its own.
pub(super) struct MysqlSession {
    options: MySqlConnectOptions,
    /// Taken out while a request is under way, so that one that fails or is dropped loses it.
    open: Option<MySqlConnection>,
    /// How many bytes the server takes at once.
    packet: usize,
}

impl MysqlSession {
    pub(super) fn new(options: MySqlConnectOptions) -> Self {
        Self {
            options: options.disable_statement_logging(),
            open: None,
            packet: usize::MAX,
        }
    }

    /// Returns how many bytes the event of one statement may have.
    pub(super) fn event_bytes_max(&self) -> usize {
        self.packet.saturating_sub(STATEMENT_BYTES)
    }

    /// Opens a connection if there is none; returns whether it did.
    pub(super) async fn open(&mut self) -> Result<bool> {
        if self.open.is_some() {
            return Ok(false);
        }
        let open = async {
            let mut connection = self.options.connect().await.map_err(|it| of(&it))?;
            let rows = fetch(&mut connection, SETTINGS.to_owned()).await?;
            SqlResult::Ok((connection, rows))
        };
        let (connection, rows) = in_time(open).await?;
        let packet = rows.first().and_then(|row| row.first()?.as_deref());
        let packet = packet.and_then(|bytes| bytes.parse().ok());
        self.packet = packet.ok_or_else(|| unreadable("max_allowed_packet"))?;
        self.open = Some(connection);
        Ok(true)
    }

    /// Closes the connection to a server that is only read from, and fails.
    pub(super) async fn must_write(&mut self) -> Result<()> {
        let rows = self.run(READ_ONLY.to_owned()).await?;
        self.leave_read_only(&rows)
    }

    /// The same, by the first row of a reply to a request that begins with [`READ_ONLY`].
    pub(super) fn leave_read_only(&mut self, rows: &[TextRow]) -> Result<()> {
        let is_read_only = rows.first().and_then(|row| row.first()?.as_deref());
        match is_read_only {
            Some("0") => Ok(()),
            Some("1") => {
                self.close();
                Err(read_only("its `read_only` is on"))
            }
            _ => Err(unreadable("read_only")),
        }
    }

    /// Closes the connection.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Runs a statement that is a transaction by itself, and returns its rows.
    pub(super) async fn run(&mut self, sql: String) -> Result<Vec<TextRow>> {
        let mut connection = self.open.take().ok_or_else(closed)?;
        let rows = in_time(fetch(&mut connection, sql)).await?;
        self.open = Some(connection);
        Ok(rows)
    }

    /// Runs statements in a transaction, and returns the rows of all of them; after an error none of
    /// them has taken effect.
    pub(super) async fn transaction(&mut self, statements: Vec<Statement>) -> Result<Vec<TextRow>> {
        let (requests, mut tries) = (requests(statements), 1);
        loop {
            let mut connection = self.open.take().ok_or_else(closed)?;
            match in_time(attempt(&mut connection, &requests)).await? {
                Attempt::Committed(rows) => {
                    self.open = Some(connection);
                    return Ok(rows);
                }
                Attempt::Conflict(_) if tries < TRIES_MAX => {
                    tries += 1;
                    in_time(fetch(&mut connection, "rollback".to_owned())).await?;
                    self.open = Some(connection);
                }
                Attempt::Conflict(error) => return Err(error),
            }
        }
    }
}

/// What a try of a transaction came to.
enum Attempt {
    Committed(Vec<TextRow>),
    /// It may be tried again.
    Conflict(Error),
}

/// Joins the statements of a transaction to requests.
fn requests(statements: Vec<Statement>) -> Vec<Statement> {
    let mut requests = vec![Statement::from("start transaction".to_owned())];
    for statement in statements.into_iter().chain(["commit".to_owned().into()]) {
        match requests.last_mut() {
            Some(last)
                if last.value.is_none()
                    && statement.value.is_none()
                    && last.sql.len() + statement.sql.len() < REQUEST_BYTES =>
            {
                last.sql += ";";
                last.sql += &statement.sql;
            }
            _ => requests.push(statement),
        }
    }
    requests
}

async fn attempt(connection: &mut MySqlConnection, requests: &[Statement]) -> SqlResult<Attempt> {
    let mut rows = Vec::new();
    for request in requests {
        match step(connection, request).await? {
            Attempt::Committed(more) => rows.extend(more),
            conflict => return Ok(conflict),
        }
    }
    Ok(Attempt::Committed(rows))
}

async fn step(connection: &mut MySqlConnection, request: &Statement) -> SqlResult<Attempt> {
    let sql = AssertSqlSafe(request.sql.clone());
    let reply = match &request.value {
        Some(value) => {
            let query = sqlx::query(sql).bind(value.as_slice());
            query.persistent(false).fetch_all(connection).await
        }
        None => connection.fetch_all(sql).await,
    };
    let rows = match reply {
        Ok(rows) => rows,
        Err(error) => {
            let database = error.as_database_error();
            let mysql = database
                .and_then(|error| error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>());
            return match mysql {
                Some(it) if CONFLICTS.contains(&it.number()) => {
                    Ok(Attempt::Conflict(of(&error).into()))
                }
                _ => Err(of(&error)),
            };
        }
    };
    let rows: SqlResult<_> = rows.iter().map(texts).collect();
    Ok(Attempt::Committed(rows?))
}

async fn fetch(connection: &mut MySqlConnection, sql: String) -> SqlResult<Vec<TextRow>> {
    let reply = connection.fetch_all(AssertSqlSafe(sql)).await;
    let rows = reply.map_err(|it| of(&it))?;
    rows.iter().map(texts).collect()
}

fn texts(row: &MySqlRow) -> SqlResult<TextRow> {
    // A text of this protocol, whatever its type is, and `bytes` as digits: the server
    // would return null for more digits than its `max_allowed_packet`.
    let text = |at: usize| {
        if row.column(at).name() != "bytes" {
            return row.try_get_unchecked::<Option<String>, _>(at);
        }
        let bytes = row.try_get_unchecked::<Option<Vec<u8>>, _>(at)?;
        Ok(bytes.map(|bytes| hex(&bytes)))
    };
    (0..row.len())
        .map(|at| text(at).map_err(|it| of(&it)))
        .collect()
}

async fn in_time<T>(request: impl Future<Output = SqlResult<T>>) -> Result<T> {
    let reply = timeout(REQUEST_MAX, request).await;
    let late = |_| {
        let late = format!("the database of the outbox has not replied within {REQUEST_MAX:?}");
        Error::new(ErrorKind::Unavailable, late)
    };
    Ok(reply.map_err(late)??)
}

fn closed() -> Error {
    let text = "the connection to the database of the outbox was lost";
    Error::new(ErrorKind::Unavailable, text)
}
