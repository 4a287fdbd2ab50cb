//! SQLite by rusqlite.

use duly::{Error, ErrorKind, Result};
use rusqlite::{Connection, params};

use crate::transaction::{Done, Transaction};

/// The time of the database, in milliseconds since 1970.
pub(crate) const NOW: &str = "cast((julianday('now') - 2440587.5) * 86400000 as integer)";

impl Transaction for Connection {
    #[allow(clippy::unused_async)] // the trait's is
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        insert_events(self, &events)
    }

    #[allow(clippy::unused_async)] // the trait's is
    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        insert_done(self, &done)
    }
}

impl Transaction for rusqlite::Transaction<'_> {
    #[allow(clippy::unused_async)] // the trait's is
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        insert_events(self, &events)
    }

    #[allow(clippy::unused_async)] // the trait's is
    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        insert_done(self, &done)
    }
}

fn insert_events(connection: &Connection, events: &[Vec<u8>]) -> Result<()> {
    let insert = || {
        let sql = "insert into duly_outbox (event) values (?1)";
        let mut statement = connection.prepare_cached(sql)?;
        events
            .iter()
            .try_for_each(|event| statement.execute([event]).map(drop))
    };
    insert().map_err(|error| failed(&error))
}

fn insert_done(connection: &Connection, done: &Done) -> Result<bool> {
    let insert = || {
        let sql = "insert into duly_done (event, attempt, lease) values (?1, ?2, ?3) \
                   on conflict do nothing";
        let mut statement = connection.prepare_cached(sql)?;
        statement.execute(params![done.event, done.attempt, done.lease])
    };
    insert()
        .map(|rows| rows > 0)
        .map_err(|error| failed(&error))
}

/// Returns the error of a call.
pub(crate) fn failed(error: &rusqlite::Error) -> Error {
    let text = match error {
        rusqlite::Error::QueryReturnedNoRows => "no such row as their SQL inserts".to_owned(),
        error => error.to_string(),
    };
    if matches!(error, rusqlite::Error::QueryReturnedNoRows)
        || text.contains("no such table")
        || text.contains("no such column")
    {
        return Error::new(
            ErrorKind::Invalid,
            format!(
                "the tables of the outbox are not as they must be: {text}; see `duly outbox schema \
                 --database sqlite`"
            ),
        );
    }
    let text = format!("the file of the outbox fails: {text}");
    Error::new(ErrorKind::Unavailable, text)
}
