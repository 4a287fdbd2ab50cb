//! The SQL of the tables, for the user's own migrations.

use std::fmt;
use std::str::FromStr;

use duly::{Error, ErrorKind};

/// A kind of database that can hold an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Database {
    /// PostgreSQL 13 or later.
    Postgres,
    /// SQLite.
    Sqlite,
    /// MySQL 8.0.29 or later, and MariaDB 10.6 or later.
    Mysql,
}

impl Database {
    /// All databases.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Sqlite, Self::Mysql];

    /// Its name, as `duly outbox schema --database` takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
            Self::Mysql => "mysql",
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Database {
    type Err = Error;

    fn from_str(text: &str) -> duly::Result<Self> {
        let known = Self::ALL.into_iter().find(|it| it.as_str() == text);
        known.ok_or_else(|| {
            let wrong = format!(
                "there is no outbox for {text:?}; there are postgres, sqlite and \
                                 mysql, which is that of MariaDB, too"
            );
            Error::new(ErrorKind::Invalid, wrong)
        })
    }
}

/// The version of the tables that this crate needs.
pub const VERSION: u32 = 1;

/// Returns the SQL that creates the tables, or brings those of an older version up to date. It may be
/// run at any time, and again.
///
/// # Examples
///
/// ```
/// use duly_outbox::{Database, schema};
///
/// let sql = schema(Database::Postgres);
/// assert!(sql.contains("create table if not exists duly_outbox "));
/// ```
#[must_use]
pub const fn schema(database: Database) -> &'static str {
    match database {
        Database::Postgres => include_str!("schema/postgres.sql"),
        Database::Sqlite => include_str!("schema/sqlite.sql"),
        Database::Mysql => include_str!("schema/mysql.sql"),
    }
}
