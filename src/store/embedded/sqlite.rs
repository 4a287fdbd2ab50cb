//! Errors of SQLite, classified.

use crate::error::{Error, ErrorKind};
use crate::sqlite::shortage::Shortage;

/// Why a step of the writer failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: rusqlite::Error,
    /// What there was too little of. Everything else is doubt.
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
}

/// To be made at once: see [`Shortage::of_sqlite`].
impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let shortage = Shortage::of_sqlite(&error);
        Self { error, shortage }
    }
}

/// An error while something was read from an open store; nothing was changed by it.
pub(super) fn at_read(error: rusqlite::Error) -> Error {
    let advice = match Shortage::of_sqlite(&error) {
        Some(Shortage::Process) => "raise the limits of this process",
        _ => "look at the disk",
    };
    let what = format!("the store's file could not be read; {advice}, then try again");
    Error::new(ErrorKind::Unavailable, what).because(error)
}
