//! What an error of SQLite means for the journal.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

/// An error while the file was opened.
pub(super) fn at_open(path: &Path, error: rusqlite::Error) -> Error {
    let at = path.display();
    let (kind, what) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (
            ErrorKind::Full,
            format!("the disk of {at} is full; make room and open it again"),
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            ErrorKind::Unavailable,
            format!("{at} cannot be opened for writing; check the directory and its permissions"),
        ),
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OutOfMemory,
        ) => (
            ErrorKind::Unavailable,
            format!("{at} could not be opened; look at the disk and the memory, then try again"),
        ),
        _ => (
            ErrorKind::Corrupt,
            format!("{at} is no journal of duly, or it is damaged; restore it, or name another"),
        ),
    };
    Error::new(kind, what).because(error)
}

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

/// An error of the file system.
pub(super) fn of_files(path: &Path, what: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => ErrorKind::Full,
        io::ErrorKind::InvalidInput => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    let at = path.display();
    let told =
        format!("{at} {what}: {error}; name a file in a directory that this process may write");
    Error::new(kind, told).because(error)
}
