//! PostgreSQL by sqlx 0.9, and transactions of any of its databases that has the tables.

use duly::{Error, ErrorKind, Result};
use sqlx::database::HasStatementCache;
use sqlx::{AssertSqlSafe, Database, Encode, IntoArguments, Type};

use crate::postgres::{INSERT_DONE, INSERT_EVENT};
use crate::transaction::{Done, Transaction};

// What is in a text is a number, or escaped.
crate::postgres::sqlx::session!(sqlx, AssertSqlSafe);

/// The most rows of one statement: SQLite takes 32,766 parameters, and PostgreSQL 65,535.
const ROWS_MAX: usize = 1_000;

/// Inserts events by a connection of PostgreSQL or SQLite, which take the same statements.
async fn insert_events<DB>(connection: &mut DB::Connection, mut events: Vec<Vec<u8>>) -> Result<()>
where
    DB: Database + HasStatementCache,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
    for<'q> Vec<u8>: Encode<'q, DB> + Type<DB>,
{
    while !events.is_empty() {
        let rest = events.split_off(ROWS_MAX.min(events.len()));
        let many = std::mem::replace(&mut events, rest);
        let mut query = if many.len() == 1 {
            sqlx::query::<DB>(INSERT_EVENT)
        } else {
            let places: Vec<_> = (1..=many.len())
                .map(|place| format!("(${place})"))
                .collect();
            let sql = format!(
                "insert into duly_outbox (event) values {}",
                places.join(",")
            );
            sqlx::query::<DB>(AssertSqlSafe(sql)).persistent(false)
        };
        for event in many {
            query = query.bind(event);
        }
        let inserted = query.execute(&mut *connection).await;
        inserted.map_err(|error| failed(&error))?;
    }
    Ok(())
}

async fn insert_done<DB>(connection: &mut DB::Connection, done: Done) -> Result<bool>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    for<'q> i32: Encode<'q, DB> + Type<DB>,
{
    let sql = format!("{INSERT_DONE} returning 1");
    let query = sqlx::query::<DB>(AssertSqlSafe(sql))
        .bind(done.event)
        .bind(done.attempt)
        .bind(done.lease);
    let inserted = query.fetch_optional(&mut *connection).await;
    Ok(inserted.map_err(|error| failed(&error))?.is_some())
}

fn failed(error: &sqlx::Error) -> Error {
    let text = error.to_string();
    if text.contains("no such table") || text.contains("no such column") {
        let wrong = format!(
            "the tables of the outbox are not as they must be: {text}; see `duly outbox schema \
             --database sqlite`"
        );
        return Error::new(ErrorKind::Invalid, wrong);
    }
    Error::from(of(error))
}

impl Transaction for sqlx::PgConnection {
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        insert_events::<sqlx::Postgres>(self, events).await
    }

    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        insert_done::<sqlx::Postgres>(self, done).await
    }
}

impl<DB> Transaction for sqlx::Transaction<'_, DB>
where
    DB: Database + HasStatementCache,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
    for<'q> Vec<u8>: Encode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    for<'q> i32: Encode<'q, DB> + Type<DB>,
{
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        insert_events::<DB>(self, events).await
    }

    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        insert_done::<DB>(self, done).await
    }
}
