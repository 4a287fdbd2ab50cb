//! PostgreSQL by sqlx 0.8: the relay's session.

use crate::sqlx_0_8::of;

crate::postgres::sqlx::session!(sqlx_0_8, std::convert::identity);
