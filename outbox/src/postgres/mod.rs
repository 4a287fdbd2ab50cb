//! PostgreSQL: the tables, the relay's source, and the drivers.

pub(crate) mod claim;
pub(crate) mod deferred;
pub(crate) mod news;
mod own_steps;
pub(crate) mod page;
pub(crate) mod parts;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod source;
#[cfg(any(feature = "sqlx", feature = "sqlx-0-8"))]
pub(crate) mod sqlx;
#[cfg(feature = "sqlx-0-8")]
pub(crate) mod sqlx_0_8;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx_0_9;
pub(crate) mod step;
pub(crate) mod sweep;
#[cfg(feature = "tokio-postgres")]
pub(crate) mod tokio_postgres;
mod waiting;

/// The statements of a transaction of the user's, by tokio-postgres.
#[cfg(feature = "tokio-postgres")]
pub(crate) const INSERT_EVENT: &str = "insert into duly_outbox (event) values ($1)";
#[cfg(feature = "tokio-postgres")]
pub(crate) const INSERT_EVENTS: &str = "insert into duly_outbox (event) select unnest($1)";
#[cfg(feature = "tokio-postgres")]
pub(crate) const INSERT_DONE: &str = "insert into duly_done (event, attempt, lease) \
                                      values ($1, $2, $3) on conflict do nothing";
