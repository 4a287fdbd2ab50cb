//! What an error of SQLite means for the store.

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

/// An error while something was read from an open store; nothing was changed by it.
pub(super) fn at_read(error: rusqlite::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the store's file could not be read; look at the disk, then try again",
    )
    .because(error)
}
