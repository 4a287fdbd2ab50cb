//! The error of a command, and the exit codes of the program.

use std::fmt;
use std::io;
use std::process::ExitCode;

use duly::{ErrorKind, EventId};
use duly_server::settings::SettingsError;
use duly_server::with_causes;

/// Why a command ended without success. Scripts tell them apart by the exit code; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Anything that has no code of its own.
    Failed = 1,
    /// The arguments are wrong, or a confirmation is missing. The same code as clap's.
    Usage = 2,
    /// There is no such queue, event, dead letter, schedule or store.
    NotFound = 3,
    /// The state of the event does not allow it.
    Conflict = 4,
    /// The store or the server does not respond, or not in time.
    Unavailable = 5,
    /// The token or the account is missing, or may not do this.
    Denied = 6,
}

impl Failure {
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// The error of a command.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) failure: Failure,
    text: String,
    /// Whether the reader of the output went away, which is no failure: `duly records | head`.
    pub(crate) is_broken_pipe: bool,
}

pub(crate) type Result<T> = std::result::Result<T, CommandError>;

impl CommandError {
    pub(crate) fn new(failure: Failure, text: impl Into<String>) -> Self {
        Self {
            failure,
            text: text.into(),
            is_broken_pipe: false,
        }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::new(Failure::Failed, text)
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Failure::Usage, text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(Failure::NotFound, text)
    }
}

/// The error of a queue that does not exist.
pub(crate) fn no_queue(queue: &str) -> CommandError {
    CommandError::not_found(format!(
        "there is no queue {queue}; `duly queue list` shows those that there are"
    ))
}

/// The error of a schedule that does not exist; `meant`: the name of one that does.
pub(crate) fn no_schedule(name: &str, meant: Option<&str>) -> CommandError {
    CommandError::not_found(match meant {
        Some(meant) => format!("there is no schedule {name}; did you mean {meant}?"),
        None => {
            format!("there is no schedule {name}; `duly schedule list` shows those that there are")
        }
    })
}

/// The error of an event that is not known, or not in its queue.
pub(crate) fn no_event(id: EventId) -> CommandError {
    CommandError::not_found(format!("no event has the id {id}"))
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CommandError {}

impl From<duly::Error> for CommandError {
    fn from(error: duly::Error) -> Self {
        let failure = match error.kind() {
            ErrorKind::Invalid => Failure::Usage,
            ErrorKind::NotFound => Failure::NotFound,
            ErrorKind::Conflict | ErrorKind::LeaseLost => Failure::Conflict,
            ErrorKind::Unavailable
            | ErrorKind::Unknown
            | ErrorKind::Closed
            | ErrorKind::TimedOut => Failure::Unavailable,
            _ => Failure::Failed,
        };
        Self::new(failure, with_causes(error.to_string(), &error))
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self {
            is_broken_pipe: error.kind() == io::ErrorKind::BrokenPipe,
            ..Self::failed(format!("the output cannot be written: {error}"))
        }
    }
}

impl From<SettingsError> for CommandError {
    fn from(error: SettingsError) -> Self {
        Self::usage(error.to_string())
    }
}
