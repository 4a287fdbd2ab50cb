//! The classification of errors of SQLite for the journal.

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

/// An error while something was written; nothing of it was.
pub(super) fn at_write(error: rusqlite::Error) -> Error {
    let (kind, what) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (ErrorKind::Full, "the disk of the journal is full"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            "the journal was kept busy by another process; try again",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            ErrorKind::Corrupt,
            "the journal's file is damaged; restore it, or name another",
        ),
        _ => (
            ErrorKind::Unavailable,
            "the journal's file could not be written; look at the disk, then try again",
        ),
    };
    Error::new(kind, what).because(error)
}

/// An error while something was read.
pub(super) fn at_read(error: rusqlite::Error) -> Error {
    let (kind, what) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            ErrorKind::Corrupt,
            "the journal's file is damaged; restore it, or name another",
        ),
        _ => (
            ErrorKind::Unavailable,
            "the journal's file could not be read; look at the disk, then try again",
        ),
    };
    Error::new(kind, what).because(error)
}
