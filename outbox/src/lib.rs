//! Push and finish events of [`duly`] in your own database transaction.
//!
//! ```text
//!   your transaction ──> your rows ┐
//!        push_in ──────> outbox ───┴─ commit ──> relay ──> store ──> handler
//! ```
//!
//! - [`PushIn::push_in`]: an event exists if and only if your transaction committed, and is never
//!   seen before.
//! - [`Relay`]: a task beside your bus that hands committed events to the store.
//! - [`FinishIn::finish_in`]: an effect in your database and the end of its event commit together.
//! - [`schema`]: the SQL of the tables, for your own migrations.
//!
//! | feature | brings |
//! |---|---|
//! | `tokio-postgres` | PostgreSQL by tokio-postgres |
//! | `sqlx` | PostgreSQL by sqlx 0.9, and its transactions of SQLite; needs Rust 1.94 |
//! | `sqlx-0-8` | PostgreSQL by sqlx 0.8, and its transactions of SQLite, MySQL and MariaDB |
//! | `sqlx-mysql` | MySQL and MariaDB by sqlx 0.9; needs Rust 1.94 |
//! | `rusqlite` | SQLite by rusqlite |
//! | `url` | a relay of the database at a URL, with TLS: PostgreSQL, and what else is chosen |
//!
//! A file of SQLite is relayed by `rusqlite`, which is then needed beside `sqlx`.

// Without a database there is nothing to relay, and the schemas are left.
#![cfg_attr(
    not(any(
        feature = "tokio-postgres",
        feature = "sqlx",
        feature = "sqlx-0-8",
        feature = "sqlx-mysql",
        feature = "rusqlite"
    )),
    allow(dead_code)
)]

mod finish;
mod handle;
mod hint;
#[cfg(feature = "sqlx-mysql")]
mod mysql;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx", feature = "sqlx-0-8"))]
mod postgres;
mod push;
mod relay;
mod schema;
#[cfg(any(
    feature = "tokio-postgres",
    feature = "sqlx",
    feature = "sqlx-0-8",
    feature = "sqlx-mysql"
))]
mod session;
#[cfg(feature = "rusqlite")]
mod sqlite;
#[cfg(any(feature = "sqlx", feature = "sqlx-0-8", feature = "sqlx-mysql"))]
mod sqlx;
#[cfg(feature = "sqlx-0-8")]
mod sqlx_0_8;
#[cfg(any(feature = "sqlx", feature = "sqlx-mysql"))]
mod sqlx_0_9;
mod transaction;
#[cfg(feature = "url")]
mod url;

pub use self::finish::{Finish, FinishIn};
pub use self::handle::Relay;
pub use self::push::{PushEventIn, PushIn};
pub use self::relay::meters::CATALOGUE;
pub use self::relay::options::RelayOptions;
pub use self::schema::{Database, VERSION, schema};
pub use self::transaction::{Done, Transaction, at_once};

/// The page of this crate, whose examples are tests of it.
#[cfg(all(doctest, feature = "sqlx"))]
#[doc = include_str!("../../src/docs/transactions.md")]
mod page {}
