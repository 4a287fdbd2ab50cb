//! PostgreSQL by sqlx 0.9: the relay's session.

use sqlx::AssertSqlSafe;

use crate::sqlx_0_9::of;

// What is in a text is a number, or escaped.
crate::postgres::sqlx::session!(sqlx, AssertSqlSafe);
