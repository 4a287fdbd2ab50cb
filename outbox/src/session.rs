//! Requests of a relay to a database server: text goes out, texts come back.

use std::mem;

use duly::{Error, ErrorKind, Result};

use crate::relay::source::{Ends, PAGE_MAX};

/// A row of a reply, as texts.
pub(crate) type TextRow = Vec<Option<String>>;

/// The result of a request.
pub(crate) type SqlResult<T> = std::result::Result<T, SqlError>;

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

    /// The server is only read from: another one may be the primary, or this one be it later.
    pub(crate) fn is_read_only(&self) -> bool {
        self.code.as_deref() == Some("25006")
    }

    /// A lock that was asked for without waiting is taken.
    pub(crate) fn is_lock_taken(&self) -> bool {
        self.code.as_deref() == Some("55P03")
    }
}

/// The codes of tables, columns and functions that are missing, and of missing rights.
const MISSING_POSTGRES: [&str; 5] = ["42P01", "42703", "42883", "3F000", "42501"];
const MISSING_MYSQL: [&str; 2] = ["42S02", "42S22"];

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        if error.is_read_only() {
            return read_only(&error.text);
        }
        let code = error.code.as_deref().unwrap_or_default();
        // MySQL has one code for missing rights and for much else.
        let is_denied = code == "42000" && error.text.contains("denied");
        let database = if MISSING_POSTGRES.contains(&code) {
            Some("postgres")
        } else if MISSING_MYSQL.contains(&code) || is_denied {
            Some("mysql")
        } else {
            None
        };
        if let Some(database) = database {
            return Self::new(
                ErrorKind::Invalid,
                format!(
                    "the tables of the outbox are not as they must be, or their rights are not \
                     enough: {}; see `duly outbox schema --database {database}`",
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

/// Returns the error of a server that is only read from.
pub(crate) fn read_only(why: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the database of the outbox is only read from, as a standby is, and a relay needs the \
             primary: {why}"
        ),
    )
}

/// Returns the error of a reply that has not the expected form.
pub(crate) fn unreadable(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the database of the outbox returned no readable {what}"),
    )
}

/// Reads what is known of ends: the time, and that of the oldest.
pub(crate) fn read_ends(rows: &[TextRow]) -> Result<Ends> {
    let number = |at: usize| rows.first()?.get(at)?.as_deref()?.parse().ok();
    let now = number(0).ok_or_else(|| unreadable("time of ends"))?;
    Ok(Ends::of(now, number(1), [number(2), number(3)]))
}

/// How many rows a list of a page asks for. The server reads each of them whole to tell its size, so
/// there are more only after as many were small.
#[derive(Debug)]
pub(crate) struct ListLimit(usize);

impl ListLimit {
    pub(crate) fn new() -> Self {
        Self(1)
    }

    /// Takes it for a list. Without a reply the next one is of one row.
    pub(crate) fn take(&mut self) -> usize {
        mem::replace(&mut self.0, 1)
    }

    /// Notes that a list of at most `limit` rows had `found`, of which a page has `kept`.
    pub(crate) fn listed(&mut self, limit: usize, found: usize, kept: usize) {
        self.0 = if kept < found {
            kept
        } else {
            limit.max(2 * kept).min(PAGE_MAX)
        };
    }
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

    #[test]
    fn a_list_grows_with_small_rows_and_is_short_after_a_large_one() {
        let mut limit = ListLimit::new();
        let mut list = |found: fn(usize) -> usize, kept: fn(usize) -> usize| {
            let size = limit.take();
            limit.listed(size, found(size), kept(size));
            size
        };
        let limits: Vec<_> = (0..12).map(|_| list(|it| it, |it| it)).collect();
        assert_eq!(
            limits,
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000]
        );
        for (found, kept) in [(0, 0), (3, 3), (999, 999)] {
            assert_eq!(limit.take(), 1_000);
            limit.listed(1_000, found, kept);
        }
        limit.listed(1_000, 1_000, 4);
        assert_eq!(limit.take(), 4);
        assert_eq!(limit.take(), 1, "there was no reply");
        limit.listed(1, 1, 1);
        assert_eq!(limit.take(), 2);
    }
}
