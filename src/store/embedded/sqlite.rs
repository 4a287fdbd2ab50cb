//! Errors of SQLite, classified.

use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SystemIoFailure};

use crate::error::{Error, ErrorKind};
use crate::sqlite::shortage::Shortage;

/// Why a step on the file failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: rusqlite::Error,
    /// What there was too little of. Everything else that a writer meets is doubt.
    pub(super) shortage: Option<Shortage>,
}

impl Failure {
    /// Whether no frame of the log can say that it was committed: a transaction is complete in the
    /// log before its index is extended, so where that failed it is there until it is overwritten.
    pub(super) fn left_nothing(&self) -> bool {
        use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_WRITE};
        let code = self.error.sqlite_error().map(|error| error.extended_code);
        matches!(code, Some(SQLITE_FULL | SQLITE_IOERR_WRITE))
    }

    /// Whether a read will fail again: the disk is broken, or the file damaged beyond its rows.
    pub(super) fn is_of_the_file(&self) -> bool {
        let code = self.error.sqlite_error_code();
        let is_broken = matches!(code, Some(DatabaseCorrupt | NotADatabase | SystemIoFailure));
        is_broken && self.shortage.is_none()
    }
}

/// To be made at once: see [`Shortage::of_sqlite`].
impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let shortage = Shortage::of_sqlite(&error);
        Self { error, shortage }
    }
}

/// An error while something was read from an open store; nothing was changed by it.
pub(super) fn at_read(error: impl Into<Failure>) -> Error {
    let Failure { error, shortage } = error.into();
    let advice = match shortage {
        Some(Shortage::Process) => "raise the limits of this process",
        _ => "look at the disk",
    };
    let what = format!("the store's file could not be read; {advice}, then try again");
    Error::new(ErrorKind::Unavailable, what).because(error)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn a_read_that_was_refused_is_tried_again_and_one_of_a_broken_file_is_not() {
        let is_of_the_file = |code| {
            let error = ffi::Error::new(code);
            let error = rusqlite::Error::SqliteFailure(error, None);
            Failure::from(error).is_of_the_file()
        };
        for code in [
            ffi::SQLITE_IOERR_READ,
            ffi::SQLITE_IOERR_SHORT_READ,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_NOTADB,
        ] {
            assert!(is_of_the_file(code), "{code}");
        }
        for code in [ffi::SQLITE_IOERR_NOMEM, ffi::SQLITE_NOMEM, ffi::SQLITE_BUSY] {
            assert!(!is_of_the_file(code), "{code}");
        }
    }
}
