//! PostgreSQL by sqlx: what its versions have in common.

/// Makes the session of a version of sqlx, whose texts of SQL are what `$statement` returns.
macro_rules! session {
    ($sqlx:ident, $statement:expr) => {
        use $sqlx::postgres::PgRow;
        use $sqlx::{Executor, PgPool, Row, ValueRef};

        use crate::postgres::session::Session;
        use crate::session::{SqlError, SqlResult, TextRow};

        /// A pool, of which each request takes a connection.
        #[derive(Clone)]
        pub(crate) struct SqlxSession(pub(crate) PgPool);

        impl Session for SqlxSession {
            fn run<'a>(
                &'a mut self,
                sql: &'a str,
            ) -> futures_util::future::BoxFuture<'a, SqlResult<Vec<TextRow>>> {
                Box::pin(async move {
                    let mut connection = self.0.acquire().await.map_err(|it| of(&it))?;
                    // A text alone goes by the simple protocol.
                    let reply = (&mut *connection).fetch_all($statement(sql)).await;
                    match reply {
                        Ok(rows) => rows.iter().map(texts).collect(),
                        Err(error) => {
                            let error = of(&error);
                            let rolled_back = (&mut *connection).execute("rollback").await;
                            if rolled_back.is_err() || error.is_read_only() {
                                connection.close_on_drop();
                            }
                            Err(error)
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
    };
}

pub(crate) use session;
