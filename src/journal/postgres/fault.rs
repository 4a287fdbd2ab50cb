//! Error classification: maps PostgreSQL errors to error kinds with advice.

use std::error::Error as _;

use tokio_postgres::error::{DbError, SqlState};

use crate::error::{Error, ErrorKind};

/// An error of PostgreSQL or of the connection to it.
pub(super) type PgError = tokio_postgres::Error;

/// The context of an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorContext<'a> {
    /// The address of the server.
    pub(super) place: &'a str,
    /// The failed action: `cannot load`.
    pub(super) doing: &'static str,
}

impl ErrorContext<'_> {
    /// Converts an error; nothing has been changed.
    pub(super) fn error(self, fault: PgError) -> Error {
        let (kind, hint) = advice(&fault);
        self.describe(kind, hint, fault)
    }

    /// Converts an error during a commit, which may have happened.
    pub(super) fn maybe_committed(self, fault: PgError) -> Error {
        // A server that is shutting down may have committed.
        let answered = |error: &DbError| !error.code().code().starts_with("57P");
        if fault.as_db_error().is_some_and(answered) {
            self.error(fault)
        } else {
            self.describe(ErrorKind::Unknown, "it may have happened", fault)
        }
    }

    /// Returns a timeout error.
    pub(super) fn late(self) -> Error {
        let words = format!("{} {}: no reply in time", self.doing, self.place);
        Error::new(ErrorKind::TimedOut, words)
    }

    /// Returns an error of `kind` with this description.
    pub(super) fn because(self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("{} {}: {what}", self.doing, self.place))
    }

    fn describe(self, kind: ErrorKind, hint: &str, fault: PgError) -> Error {
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

/// Returns the error kind, and advice for the operator.
fn advice(fault: &PgError) -> (ErrorKind, &'static str) {
    let Some(code) = fault.code() else {
        let hint = if fault.to_string().contains("TLS") {
            "name the authority of the server's certificate with sslrootcert=, or say \
             sslmode=disable where nobody is on the way"
        } else {
            ""
        };
        return (ErrorKind::Unavailable, hint);
    };
    if *code == SqlState::DISK_FULL {
        return (ErrorKind::Full, "free space on the server's disk");
    }
    if *code == SqlState::QUERY_CANCELED {
        return (
            ErrorKind::TimedOut,
            "the server cancelled the call after `timeout`",
        );
    }
    if is_refusal(code) {
        return (
            ErrorKind::Invalid,
            "a type, a constraint or a trigger of its tables refuses a record",
        );
    }
    let hint = match code.code() {
        "28P01" | "28000" => "check the user and the password of its URL, and pg_hba.conf",
        "3D000" => "create the database; the journal does not create it",
        "42501" => "grant the user CREATE on the schema, or its ownership",
        "25006" => "this is a standby or a read-only database: name the primary",
        "53300" => "raise max_connections: each node takes up to four",
        _ => "",
    };
    (ErrorKind::Unavailable, hint)
}

/// Returns whether it is the data that is refused, now and later, and nothing is wrong with the server:
/// a value, a constraint, or what a trigger raises.
fn is_refusal(code: &SqlState) -> bool {
    let (class, is_raised) = (code.code().get(..2), *code == SqlState::RAISE_EXCEPTION);
    is_raised || matches!(class, Some("22" | "23"))
}

/// Returns whether the record exists already.
pub(super) fn is_duplicate(fault: &PgError) -> bool {
    fault.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

/// Returns whether a concurrent transaction interfered, so that a retry may succeed.
pub(super) fn is_passing(fault: &PgError) -> bool {
    let codes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    fault.code().is_some_and(|code| codes.contains(code))
}

/// Returns whether a table has no partition for a record: its week was dropped meanwhile.
pub(super) fn has_no_week(fault: &PgError) -> bool {
    fault.code() == Some(&SqlState::CHECK_VIOLATION)
}

/// Returns whether a lock timed out.
pub(super) fn is_locked(fault: &PgError) -> bool {
    fault.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}
