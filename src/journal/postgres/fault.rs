//! What went wrong, in words that say what can be done.

use std::error::Error as _;

use tokio_postgres::error::{DbError, SqlState};

use crate::error::{Error, ErrorKind};

/// A fault of PostgreSQL or on the way to it.
pub(super) type Fault = tokio_postgres::Error;

/// Where a fault happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    /// Where the server is.
    pub(super) place: &'a str,
    /// What was done: `cannot load`.
    pub(super) doing: &'static str,
}

impl Spot<'_> {
    /// Turns a fault into an error; nothing has been changed.
    pub(super) fn error(self, fault: Fault) -> Error {
        let (kind, hint) = advice(&fault);
        self.told(kind, hint, fault)
    }

    /// The same where a commit was on its way, so that it may have happened.
    pub(super) fn in_doubt(self, fault: Fault) -> Error {
        // A server that is going down may have carried it out.
        let answered = |error: &DbError| !error.code().code().starts_with("57P");
        match fault.as_db_error().is_some_and(answered) {
            true => self.error(fault),
            false => self.told(
                ErrorKind::Unknown,
                "whether it was done is not known",
                fault,
            ),
        }
    }

    /// It took too long.
    pub(super) fn late(self) -> Error {
        let words = format!("{} {}: no answer in time", self.doing, self.place);
        Error::new(ErrorKind::TimedOut, words)
    }

    /// An error of `kind` with words of ours.
    pub(super) fn because(self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("{} {}: {what}", self.doing, self.place))
    }

    fn told(self, kind: ErrorKind, hint: &str, fault: Fault) -> Error {
        let what = match fault.as_db_error() {
            Some(error) => error.message().to_owned(),
            None => match fault.source() {
                Some(source) => format!("{fault}: {source}"),
                None => fault.to_string(),
            },
        };
        let gap = if hint.is_empty() { "" } else { "; " };
        self.because(kind, &format!("{what}{gap}{hint}"))
            .because(fault)
    }
}

/// What a caller can do, and what an operator can.
fn advice(fault: &Fault) -> (ErrorKind, &'static str) {
    let Some(code) = fault.code() else {
        let hint = match fault.to_string().contains("TLS") {
            true => {
                "name the authority of the server's certificate with sslrootcert=, or say \
                 sslmode=disable where nobody is on the way"
            }
            false => "",
        };
        return (ErrorKind::Unavailable, hint);
    };
    if *code == SqlState::DISK_FULL {
        return (ErrorKind::Full, "make room on the server's disk");
    }
    if *code == SqlState::QUERY_CANCELED {
        return (ErrorKind::TimedOut, "the server gave up by `timeout`");
    }
    let hint = match code.code() {
        "28P01" | "28000" => {
            "check the user and the password of the journal's URL, and pg_hba.conf"
        }
        "3D000" => "create the database, the journal does not",
        "42501" => "grant the user the right to create in the schema, or give it the schema",
        "25006" => "this is a standby or a read-only database: name the primary",
        "53300" => "raise max_connections: each node takes up to three",
        _ => "",
    };
    (ErrorKind::Unavailable, hint)
}

/// Whether the fault says that a record is here already.
pub(super) fn is_duplicate(fault: &Fault) -> bool {
    fault.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

/// Whether others were in the way, and doing it again may do.
pub(super) fn is_passing(fault: &Fault) -> bool {
    let codes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    fault.code().is_some_and(|code| codes.contains(code))
}

/// Whether a table has no place for a record: its week was dropped in between.
pub(super) fn has_no_week(fault: &Fault) -> bool {
    fault.code() == Some(&SqlState::CHECK_VIOLATION)
}

/// Whether a lock was not to be had in time.
pub(super) fn is_locked(fault: &Fault) -> bool {
    fault.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}
