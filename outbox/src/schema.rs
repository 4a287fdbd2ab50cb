//! The SQL of the tables, for the user's own migrations.

use std::fmt;
use std::str::FromStr;

use duly::{Error, ErrorKind, Result};

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

    fn from_str(text: &str) -> Result<Self> {
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
/// run at any time, and again; where nothing is missing it waits for no transaction that pushes.
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

/// The words with which a line of a table begins that is no column.
const CONSTRAINTS: [&str; 2] = ["check", "primary"];

/// Returns the columns of the tables, each with its table.
fn columns(database: Database) -> Vec<(&'static str, &'static str)> {
    let (mut columns, mut table) = (Vec::new(), None);
    for line in schema(database).lines() {
        if let Some(name) = line.strip_prefix("create table if not exists ") {
            table = name.strip_suffix(" (");
            continue;
        }
        let Some((of, line)) = table.zip(line.strip_prefix("    ")) else {
            table = None;
            continue;
        };
        let mut words = line.split([' ', '(']);
        let (name, of_what) = (words.next().unwrap_or_default(), words.next());
        let is_index = of_what.is_some_and(|word| word.starts_with("duly_"));
        if !is_index && !CONSTRAINTS.contains(&name) {
            columns.push((of, name));
        }
    }
    columns
}

/// Returns the names of the tables.
pub(crate) fn tables(database: Database) -> Vec<&'static str> {
    let mut tables: Vec<_> = columns(database).into_iter().map(|it| it.0).collect();
    tables.dedup();
    tables
}

/// Returns the names of tables that are missing, and of columns, as `table.column`, of others. What was
/// found are all columns, each in that form.
pub(crate) fn missing(database: Database, found: &[String]) -> Vec<String> {
    let mut missing = Vec::new();
    for (table, column) in columns(database) {
        let has = |begin: &str| found.iter().any(|it| it.starts_with(begin));
        let column = format!("{table}.{column}");
        if !has(&format!("{table}.")) {
            missing.push(table.to_owned());
        } else if !found.contains(&column) {
            missing.push(column);
        }
    }
    missing.dedup();
    missing
}

/// Returns the parts of the tables without which a relay or a `finish_in` does wrong, or slowly, and whose
/// names are in the SQL: keys, indexes, and rows that it inserts. But the version is read by itself.
fn parts(database: Database) -> Vec<String> {
    let (sql, mut parts) = (schema(database), Vec::new());
    let mut table = "";
    for line in sql.lines() {
        if let Some(name) = line.strip_prefix("create table if not exists ") {
            table = name.split(' ').next().unwrap_or_default();
        }
        if line.contains(" partition of ") {
            parts.push(format!("partition {table}"));
        }
        if line.contains("primary key") {
            parts.push(format!("primary key of {table}"));
        }
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let indexes = words.filter(|word| word.starts_with("duly_") && word.contains("_by_"));
        parts.extend(indexes.map(|index| format!("index {index}")));
        let row = ["insert into ", "insert ignore into "];
        let row = row.iter().find_map(|begin| line.strip_prefix(begin));
        let row = row.and_then(|row| row.split_once(" values "));
        // Not that of a procedure, which names columns.
        let row = row.filter(|(of, _)| !of.contains(' '));
        parts.extend(row.map(|(of, _)| format!("row of {of}")));
    }
    parts.retain(|part| part != "row of duly_outbox_version");
    parts
}

/// Returns the names of parts that are missing of tables that are there.
pub(crate) fn missing_parts(database: Database, found: &[String]) -> Vec<String> {
    let mut missing = parts(database);
    missing.retain(|part| !found.contains(part));
    missing
}

/// Fails if something is missing.
pub(crate) fn check_missing(database: Database, missing: &[String]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    Err(outdated(
        database,
        &format!("the database has no {missing}"),
    ))
}

/// Reads what only a count reads, so that a right that is missing is named at the start.
pub(crate) const COUNTED: &str = "select n from duly_outbox_refused limit 0";

/// Fails if the tables are of an older version.
pub(crate) fn check_version(database: Database, version: u32) -> Result<()> {
    if version >= VERSION {
        return Ok(());
    }
    let wrong =
        format!("the tables of the outbox have version {version}, this program needs {VERSION}");
    Err(outdated(database, &wrong))
}

fn outdated(database: Database, wrong: &str) -> Error {
    let wrong = format!("{wrong}; run the SQL of `duly outbox schema --database {database}`");
    Error::new(ErrorKind::Invalid, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_tables_are_read_from_their_sql() {
        let of = |database| parts(database).join(", ");
        assert_eq!(
            of(Database::Sqlite),
            "primary key of duly_outbox_version, primary key of duly_outbox, \
             primary key of duly_outbox_step, primary key of duly_outbox_salt, \
             primary key of duly_outbox_deferred, index duly_outbox_deferred_by_bucket, \
             primary key of duly_done, index duly_done_by_at, primary key of duly_done_limit, \
             row of duly_outbox_step, row of duly_outbox_salt"
        );
        assert_eq!(
            of(Database::Mysql),
            "primary key of duly_outbox_version, primary key of duly_outbox, \
             primary key of duly_outbox_server, primary key of duly_outbox_salt, \
             primary key of duly_outbox_deferred, index duly_outbox_deferred_by_bucket, \
             primary key of duly_outbox_refused, primary key of duly_done, index duly_done_by_at, \
             primary key of duly_done_limit, row of duly_outbox_salt"
        );
        assert_eq!(
            of(Database::Postgres),
            "primary key of duly_outbox_version, partition duly_outbox_0, partition duly_outbox_1, \
             partition duly_outbox_2, primary key of duly_outbox_step, \
             partition duly_outbox_step_0, partition duly_outbox_step_1, \
             primary key of duly_outbox_deferred, primary key of duly_done, \
             primary key of duly_done_limit, index duly_outbox_by_xid, \
             index duly_outbox_deferred_by_bucket, index duly_outbox_refused_by_n, \
             index duly_done_by_at"
        );
    }

    #[test]
    fn each_table_and_column_that_is_missing_is_named() {
        for database in Database::ALL {
            let all: Vec<_> = columns(database)
                .into_iter()
                .map(|(table, column)| format!("{table}.{column}"))
                .collect();
            let made = schema(database)
                .matches("create table if not exists")
                .count();
            let parts = schema(database).matches(" partition of ").count();
            assert_eq!(tables(database).len(), made - parts, "{database}");
            assert!(missing(database, &all).is_empty());
            for name in &all {
                let is_other = |it: &&String| *it != name;
                let rest: Vec<_> = all.iter().filter(is_other).cloned().collect();
                let table = name.split('.').next().unwrap_or_default();
                let is_last = !rest.iter().any(|it| it.starts_with(&format!("{table}.")));
                let expected = if is_last { table } else { name };
                assert_eq!(missing(database, &rest), [expected], "{database}");
            }
            assert_eq!(missing(database, &[]), tables(database));
        }
    }
}
