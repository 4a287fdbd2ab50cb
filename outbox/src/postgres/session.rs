//! The interface to a driver: text goes out, texts come back.
//!
//! The relay speaks the simple protocol: a request has several statements, which are one round trip,
//! and leaves no prepared statement and no setting behind, so that a pooler may stand in between.

use duly::{Error, ErrorKind};
use futures_util::future::BoxFuture;

/// A row of a reply, as texts.
pub(crate) type TextRow = Vec<Option<String>>;

/// The result of a request.
pub(crate) type SqlResult<T> = Result<T, SqlError>;

/// A connection to PostgreSQL, which a session opens again when it is lost.
pub(crate) trait Session: Send {
    /// Runs statements, and returns the rows of all of them; after an error none of them has taken
    /// effect, and no transaction is open.
    fn run<'a>(&'a mut self, sql: &'a str) -> BoxFuture<'a, SqlResult<Vec<TextRow>>>;
}

/// The error of a request.
#[derive(Debug)]
pub(crate) struct SqlError {
    /// The code of the server's error; `None` if it did not reply.
    pub(crate) code: Option<String>,
    pub(crate) text: String,
}

impl SqlError {
    /// Another relay was faster.
    pub(crate) fn is_unique_violation(&self) -> bool {
        self.code.as_deref() == Some("23505")
    }

    /// A lock that was asked for without waiting is taken.
    pub(crate) fn is_lock_taken(&self) -> bool {
        self.code.as_deref() == Some("55P03")
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        let code = error.code.as_deref();
        let missing = ["42P01", "42703", "42883", "3F000", "42501"];
        if code.is_some_and(|code| missing.contains(&code)) {
            return Self::new(
                ErrorKind::Invalid,
                format!(
                    "the tables of the outbox are not as they must be, or their rights are not \
                     enough: {}; see `duly outbox schema --database postgres`",
                    error.text
                ),
            );
        }
        Self::new(
            ErrorKind::Unavailable,
            format!("the database of the outbox fails: {}", error.text),
        )
    }
}

/// Returns the error of a reply that has not the expected form.
pub(crate) fn unreadable(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the database of the outbox returned no readable {what}"),
    )
}

/// Returns a text as an expression of SQL, whatever its characters are.
pub(crate) fn text(text: &str) -> String {
    let legal: String = text.chars().filter(|c| *c != '\0').collect();
    format!(
        "convert_from('\\x{}'::bytea, 'UTF8')",
        hex(legal.as_bytes())
    )
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            hex.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    hex
}

/// Returns the bytes of hexadecimal digits.
pub(crate) fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| {
        let byte = value(pair[0])? << 4 | value(pair[1])?;
        u8::try_from(byte).ok()
    };
    digits.chunks_exact(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_their_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        for wrong in ["0", "0g", "é"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
