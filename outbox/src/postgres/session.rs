//! The interface to a driver of PostgreSQL.
//!
//! The relay speaks the simple protocol: a request has several statements, which are one round trip,
//! and leaves no prepared statement and no setting behind, so that a pooler may stand in between.

use futures_util::future::BoxFuture;

use crate::session::{SqlResult, TextRow, hex};

/// A connection to PostgreSQL, which a session opens again when it is lost, or leads to a server that is
/// only read from.
pub(crate) trait Session: Send {
    /// Runs statements, and returns the rows of all of them; after an error none of them has taken
    /// effect, and no transaction is open.
    fn run<'a>(&'a mut self, sql: &'a str) -> BoxFuture<'a, SqlResult<Vec<TextRow>>>;
}

/// Returns bytes as an expression of SQL, whatever a session takes a backslash for.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    format!("decode('{}', 'hex')", hex(bytes))
}

/// Returns a text as an expression of SQL, whatever its characters are: the encoding of the database
/// may lack those beside ASCII.
pub(crate) fn text(text: &str) -> String {
    let legal: String = text.chars().filter(|c| *c != '\0').collect();
    let whole = format!("convert_from({}, 'UTF8')", bytes(legal.as_bytes()));
    if legal.is_ascii() {
        return whole;
    }
    let escape = |c: char| {
        if c.is_ascii() {
            c.to_string()
        } else {
            c.escape_default().to_string()
        }
    };
    let escaped: String = legal.chars().map(escape).collect();
    format!(
        "case getdatabaseencoding() when 'UTF8' then {whole} \
         else convert_from({}, 'UTF8') end",
        bytes(escaped.as_bytes())
    )
}
