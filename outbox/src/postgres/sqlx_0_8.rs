//! PostgreSQL by sqlx 0.8.

use duly::{Error, Result};
use sqlx_0_8::{PgConnection, Postgres, query};

use crate::postgres::{INSERT_DONE, INSERT_EVENT, INSERT_EVENTS};
use crate::transaction::{Done, Transaction};

crate::postgres::sqlx::session!(sqlx_0_8, std::convert::identity);

impl Transaction for PgConnection {
    async fn insert_events(&mut self, mut events: Vec<Vec<u8>>) -> Result<()> {
        let query = if events.len() == 1 {
            query(INSERT_EVENT).bind(events.pop())
        } else {
            query(INSERT_EVENTS).bind(events)
        };
        let inserted = query.execute(&mut *self).await;
        inserted.map(drop).map_err(|error| Error::from(of(&error)))
    }

    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        let query = query(INSERT_DONE)
            .bind(done.event)
            .bind(done.attempt)
            .bind(done.lease);
        let inserted = query.execute(&mut *self).await;
        let inserted = inserted.map_err(|error| Error::from(of(&error)))?;
        Ok(inserted.rows_affected() > 0)
    }
}

impl Transaction for sqlx_0_8::Transaction<'_, Postgres> {
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        (**self).insert_events(events).await
    }

    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        (**self).insert_done(done).await
    }
}
