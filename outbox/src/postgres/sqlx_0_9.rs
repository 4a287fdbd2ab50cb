//! PostgreSQL by sqlx 0.9: the relay's session.

use sqlx::AssertSqlSafe;

// What is in a text is a number, or escaped.
crate::postgres::sqlx::session!(sqlx, AssertSqlSafe);
