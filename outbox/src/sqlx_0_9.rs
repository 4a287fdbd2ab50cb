//! Transactions of sqlx 0.9.

use sqlx::AssertSqlSafe;

// A statement holds numbers of places alone.
crate::sqlx::transactions!(sqlx, |sql: &String| AssertSqlSafe(sql.clone()), [
    DB::Arguments: IntoArguments<DB>
]);

#[cfg(feature = "sqlx")]
crate::sqlx::connection!(sqlx::PgConnection, sqlx::Postgres);
#[cfg(feature = "sqlx-mysql")]
crate::sqlx::connection!(sqlx::MySqlConnection, sqlx::MySql);
