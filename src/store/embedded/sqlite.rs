//! What an error of SQLite means for the store.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

/// Extending the index of the write-ahead log failed: in practice, a full disk. Nothing was synced.
const IOERR_SHMSIZE: i32 = 4874;

/// Whether there was no room. Everything else is doubt.
pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || error.extended_code == IOERR_SHMSIZE
    })
}

/// An error while the file was opened.
pub(super) fn at_open(path: &Path, error: rusqlite::Error) -> Error {
    let at = path.display();
    let (kind, what) = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => (
            ErrorKind::Corrupt,
            format!("{at} is not a store of duly, or its header is damaged; name another file"),
        ),
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
        // Also what no statement of ours can be wrong about but in a file that says other than it
        // did: of its tables, their columns, its version.
        _ => (
            ErrorKind::Corrupt,
            format!(
                "{at} is damaged and cannot be opened; restore it, or recover it with `sqlite3 {at} .recover`"
            ),
        ),
    };
    Error::new(kind, what).because(error)
}

/// An error while something was read from an open store; nothing was changed by it.
pub(super) fn at_read(error: rusqlite::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the store's file could not be read; look at the disk, then try again",
    )
    .because(error)
}
