//! The interface to a driver of PostgreSQL.
//!
//! The relay speaks the simple protocol: a request has several statements, which are one round trip,
//! and leaves no prepared statement and no setting behind, so that a pooler may stand in between.

use futures_util::future::BoxFuture;

use crate::session::{SqlResult, TextRow, hex};

/// A connection to PostgreSQL, which a session opens again when it is lost.
pub(crate) trait Session: Send {
    /// Runs statements, and returns the rows of all of them; after an error none of them has taken
    /// effect, and no transaction is open.
    fn run<'a>(&'a mut self, sql: &'a str) -> BoxFuture<'a, SqlResult<Vec<TextRow>>>;
}

/// Returns a text as an expression of SQL, whatever its characters are.
pub(crate) fn text(text: &str) -> String {
    let legal: String = text.chars().filter(|c| *c != '\0').collect();
    format!(
        "convert_from('\\x{}'::bytea, 'UTF8')",
        hex(legal.as_bytes())
    )
}
