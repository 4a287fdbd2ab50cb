//! Transactions of sqlx, of any of its databases that has the tables: what its versions have in common.

/// The most rows of one statement: SQLite takes 32,766 parameters, and PostgreSQL 65,535.
const ROWS_MAX: usize = 1_000;
/// The most bytes of one statement of more than one row: MySQL takes 16 MiB unless it is told to take
/// less, down to one MiB.
const BYTES_MAX: usize = 512 << 10;

/// Returns whether the places of a statement are question marks, by the name of the database.
pub(crate) fn is_mysql(database: &str) -> bool {
    database == "MySQL"
}

/// Returns the places of a row of values: the first is number `first`.
fn places(database: &str, first: usize, count: usize) -> String {
    let place = |at: usize| {
        if is_mysql(database) {
            "?".to_owned()
        } else {
            format!("${at}")
        }
    };
    let places: Vec<_> = (first..first + count).map(place).collect();
    format!("({})", places.join(","))
}

/// Returns how many of the first events one statement inserts.
pub(crate) fn fitting(events: &[Vec<u8>]) -> usize {
    let mut bytes = 0;
    let fits = events.iter().take(ROWS_MAX).take_while(|event| {
        bytes += event.len();
        bytes <= BYTES_MAX
    });
    fits.count().max(1)
}

/// Returns the statement that inserts so many events.
pub(crate) fn insert_events(database: &str, count: usize) -> String {
    let rows: Vec<_> = (1..=count).map(|at| places(database, at, 1)).collect();
    format!("insert into duly_outbox (event) values {}", rows.join(","))
}

/// Returns the statement that notes a finished event. Where it returns a row, it does so for a new one
/// alone: MySQL has no clause that tells a row that was there from a new one without reading it. There
/// a key that is taken is an error of the statement, which the transaction outlives.
pub(crate) fn insert_done(database: &str) -> String {
    let values = places(database, 1, 3);
    let insert = format!("insert into duly_done (event, attempt, lease) values {values}");
    if is_mysql(database) {
        insert
    } else {
        format!("{insert} on conflict do nothing returning 1")
    }
}

/// Implements the trait for a version of sqlx, whose texts of SQL are what `$statement` returns, and
/// whose arguments of a statement are such that `$arguments`.
macro_rules! transactions {
    ($sqlx:ident, $statement:expr, [$($arguments:tt)*]) => {
        use $sqlx::database::HasStatementCache;
        use $sqlx::{Database, Encode, Executor, IntoArguments, Type};

        use duly::{Error, ErrorKind, Result};

        use crate::session::SqlError;
        use crate::sqlx::{fitting, is_mysql};
        use crate::transaction::{Done, Transaction};

        async fn insert_events<DB>(
            connection: &mut DB::Connection,
            mut events: Vec<Vec<u8>>,
        ) -> Result<()>
        where
            DB: Database + HasStatementCache,
            for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
            $($arguments)*,
            for<'q> Vec<u8>: Encode<'q, DB> + Type<DB>,
        {
            while !events.is_empty() {
                let rest = events.split_off(fitting(&events).min(events.len()));
                let many = std::mem::replace(&mut events, rest);
                let sql = crate::sqlx::insert_events(DB::NAME, many.len());
                let mut query = $sqlx::query::<DB>($statement(&sql)).persistent(many.len() == 1);
                for event in many {
                    query = query.bind(event);
                }
                let inserted = query.execute(&mut *connection).await;
                inserted.map_err(|error| failed::<DB>(&error))?;
            }
            Ok(())
        }

        async fn insert_done<DB>(connection: &mut DB::Connection, done: Done) -> Result<bool>
        where
            DB: Database,
            for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
            $($arguments)*,
            for<'q> String: Encode<'q, DB> + Type<DB>,
            for<'q> i32: Encode<'q, DB> + Type<DB>,
        {
            let sql = crate::sqlx::insert_done(DB::NAME);
            let query = $sqlx::query::<DB>($statement(&sql))
                .bind(done.event)
                .bind(done.attempt)
                .bind(done.lease);
            let is_taken = |error: &$sqlx::Error| {
                let error = error.as_database_error();
                error.is_some_and(|error| error.is_unique_violation())
            };
            let inserted = query.fetch_optional(&mut *connection).await;
            match inserted {
                Ok(row) => Ok(is_mysql(DB::NAME) || row.is_some()),
                Err(error) if is_mysql(DB::NAME) && is_taken(&error) => Ok(false),
                Err(error) => Err(failed::<DB>(&error)),
            }
        }

        /// Returns the code and the text of an error.
        pub(crate) fn of(error: &$sqlx::Error) -> SqlError {
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

        fn failed<DB: Database>(error: &$sqlx::Error) -> Error {
            let text = error.to_string();
            let is_missing = text.contains("no such table") || text.contains("no such column");
            if DB::NAME == "SQLite" && is_missing {
                let wrong = format!(
                    "the tables of the outbox are not as they must be: {text}; see `duly outbox \
                     schema --database sqlite`"
                );
                return Error::new(ErrorKind::Invalid, wrong);
            }
            Error::from(of(error))
        }

        impl<DB> Transaction for $sqlx::Transaction<'_, DB>
        where
            DB: Database + HasStatementCache,
            for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
            $($arguments)*,
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
    };
}

/// Implements the trait for a connection outside of a generic transaction.
macro_rules! connection {
    ($connection:ty, $database:ty) => {
        impl Transaction for $connection {
            async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
                insert_events::<$database>(self, events).await
            }

            async fn insert_done(&mut self, done: Done) -> Result<bool> {
                insert_done::<$database>(self, done).await
            }
        }
    };
}

pub(crate) use {connection, transactions};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_a_limit_of_rows_and_of_bytes() {
        assert_eq!(fitting(&vec![vec![0; 10]; 3]), 3);
        assert_eq!(fitting(&vec![Vec::new(); 5_000]), ROWS_MAX);
        assert_eq!(fitting(&vec![vec![0; 200 << 10]; 9]), 2);
        assert_eq!(fitting(&vec![vec![0; 2 << 20]; 2]), 1);
    }
}
