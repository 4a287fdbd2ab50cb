//! PostgreSQL by sqlx.

use duly::{Error, Result};
use futures_util::future::BoxFuture;
use sqlx::postgres::PgRow;
use sqlx::{Executor, PgConnection, PgPool, Postgres, Row, ValueRef};

use crate::postgres::session::{Session, SqlError, SqlResult, TextRow};
use crate::postgres::{INSERT_DONE, INSERT_EVENT, INSERT_EVENTS};
use crate::transaction::{Done, Transaction};

/// A pool, of which each request takes a connection.
pub(crate) struct SqlxSession(pub(crate) PgPool);

impl Session for SqlxSession {
    fn run<'a>(&'a mut self, sql: &'a str) -> BoxFuture<'a, SqlResult<Vec<TextRow>>> {
        Box::pin(async move {
            let mut connection = self.0.acquire().await.map_err(|it| of(&it))?;
            // A text alone goes by the simple protocol.
            let reply = (&mut *connection).fetch_all(sql).await;
            match reply {
                Ok(rows) => rows.iter().map(texts).collect(),
                Err(error) => {
                    let rolled_back = (&mut *connection).execute("rollback").await;
                    if rolled_back.is_err() {
                        connection.close_on_drop();
                    }
                    Err(of(&error))
                }
            }
        })
    }
}

fn texts(row: &PgRow) -> SqlResult<TextRow> {
    let text = |at: usize| -> SqlResult<Option<String>> {
        let value = row.try_get_raw(at).map_err(|it| of(&it))?;
        if value.is_null() {
            return Ok(None);
        }
        let text = value.as_str().map_err(|error| SqlError {
            code: None,
            text: error.to_string(),
        })?;
        Ok(Some(text.to_owned()))
    };
    (0..row.len()).map(text).collect()
}

fn of(error: &sqlx::Error) -> SqlError {
    let database = error.as_database_error();
    SqlError {
        code: database
            .and_then(|it| it.code())
            .map(|code| code.into_owned()),
        text: match database {
            Some(error) => error.message().to_owned(),
            None => error.to_string(),
        },
    }
}

impl Transaction for PgConnection {
    async fn insert_events(&mut self, mut events: Vec<Vec<u8>>) -> Result<()> {
        let query = if events.len() == 1 {
            sqlx::query(INSERT_EVENT).bind(events.pop())
        } else {
            sqlx::query(INSERT_EVENTS).bind(events)
        };
        let inserted = query.execute(&mut *self).await;
        inserted.map(drop).map_err(|error| Error::from(of(&error)))
    }

    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        let query = sqlx::query(INSERT_DONE)
            .bind(done.event)
            .bind(done.attempt)
            .bind(done.lease);
        let inserted = query.execute(&mut *self).await;
        let inserted = inserted.map_err(|error| Error::from(of(&error)))?;
        Ok(inserted.rows_affected() > 0)
    }
}

impl Transaction for sqlx::Transaction<'_, Postgres> {
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        (**self).insert_events(events).await
    }

    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        (**self).insert_done(done).await
    }
}
