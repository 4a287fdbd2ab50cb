//! Error classification: whether a failed call happened, and what the caller can do.
//!
//! The contract of a store allows no guess: every error but [`Unknown`](crate::ErrorKind::Unknown)
//! says that nothing happened. So an error counts as *not applied* only where the server is known
//! to refuse before it executes. Everything else is unknown, which costs a repeat and nothing more.
//!
//! A script that fails while it runs is the hard case, since it is not rolled back. A server
//! refuses the first write of a script for want of memory, disk, replicas or its role, and no write
//! after it; so these errors say that nothing happened even from within a script. Any other error
//! from within one (a key of another type, a command that a user may not run) may have come between
//! two writes and is unknown. The scripts' own refusals come before any write, as
//! `redis.error_reply('DULY <KIND> words')`.

mod table;
#[cfg(test)]
mod tests;

use redis::RedisError;

use self::table::{RULES, Rule, SAYINGS};
use crate::error::{Error, ErrorKind};

/// Whether a failed call happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Effect {
    /// It has not.
    None,
    /// It may have.
    Unknown,
}

/// How far a call had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Stage {
    /// Nothing had been sent.
    Connecting,
    /// It may have been sent.
    Sent,
}

/// The classification of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct ErrorClass {
    pub(in crate::store::redis) effect: Effect,
    pub(in crate::store::redis) kind: ErrorKind,
    /// Whether the connection is of no more use.
    pub(in crate::store::redis) breaks: bool,
    /// Whether the server sent nothing at all.
    pub(in crate::store::redis) is_silence: bool,
    /// Advice for the user.
    words: &'static str,
}

impl ErrorClass {
    const fn of(rule: &Rule) -> Self {
        Self {
            effect: rule.effect,
            kind: rule.kind,
            breaks: rule.breaks,
            is_silence: rule.is_silence,
            words: rule.words,
        }
    }

    /// Returns the fault of a call of which an earlier attempt may have succeeded.
    pub(in crate::store::redis) fn maybe_applied(self) -> Self {
        Self {
            effect: Effect::Unknown,
            kind: ErrorKind::Unknown,
            ..self
        }
    }
}

/// A failed call: the error and its classification.
#[derive(Debug)]
pub(in crate::store::redis) struct CallFailure {
    pub(in crate::store::redis) fault: ErrorClass,
    pub(in crate::store::redis) cause: RedisError,
}

impl CallFailure {
    /// Classifies `cause`, which came at `stage`.
    pub(in crate::store::redis) fn new(cause: RedisError, stage: Stage) -> Self {
        Self {
            fault: of(&cause, stage),
            cause,
        }
    }

    /// Returns whether the server lacks the script or the function.
    pub(in crate::store::redis) fn lacks_script(&self) -> bool {
        let cause = &self.cause;
        cause.code() == Some("NOSCRIPT") || cause.detail() == Some("Function not found")
    }

    /// Returns whether the user may not call functions, so that the call has not begun.
    pub(in crate::store::redis) fn denies_functions(&self) -> bool {
        let names_it = |detail: &str| detail.to_ascii_lowercase().contains("'fcall'");
        self.cause.code() == Some("NOPERM") && self.cause.detail().is_some_and(names_it)
    }

    /// Returns whether the user may not do it, or the server cannot.
    pub(in crate::store::redis) fn is_of_permission(&self) -> bool {
        let is_unknown = self.cause.detail().is_some_and(|it| it.contains("unknown"));
        self.cause.code() == Some("NOPERM") || is_unknown
    }

    /// Returns the error for the caller. `place` is its origin, for instance `redis at host:6379`.
    pub(in crate::store::redis) fn error(self, place: &str) -> Error {
        let Self { fault, cause } = self;
        let words = fault.words;
        let text = match said_by_script(&cause) {
            Some((_, said)) => format!("{place}: {said}"),
            None => format!("{place}: {words} ({cause})"),
        };
        Error::new(fault.kind, text).because(cause)
    }
}

/// Returns what a server or the connection said that became `error`.
pub(in crate::store::redis) fn cause_of(error: &Error) -> Option<&RedisError> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref() {
            return Some(cause);
        }
        source = cause.source();
    }
    None
}

/// Returns whether a server is still loading its data, so that it will answer by itself.
pub(in crate::store::redis) fn is_of_loading(error: &Error) -> bool {
    cause_of(error).is_some_and(|cause| cause.code() == Some("LOADING"))
}

/// Returns whether a cluster does not serve every slot, as while a replica takes over.
pub(in crate::store::redis) fn is_of_a_cluster_down(error: &Error) -> bool {
    cause_of(error).is_some_and(|cause| cause.code() == Some("CLUSTERDOWN"))
}

/// Returns whether no server has replied.
pub(in crate::store::redis) fn is_silent(error: &Error) -> bool {
    cause_of(error).is_none_or(|cause| cause.code().is_none())
}

/// Returns whether it is what a server has stored, or permits, that failed a call: the same call would
/// fail again.
pub(in crate::store::redis) fn is_of_the_data(error: &Error) -> bool {
    // What came of no connection, nor of a server that was not ready, while an earlier attempt may have
    // been executed.
    let is_of_a_script = |cause| {
        let class = of(cause, Stage::Sent);
        class.effect == Effect::Unknown && !class.is_silence
    };
    match error.kind() {
        ErrorKind::Corrupt => true,
        ErrorKind::Unknown => cause_of(error).is_some_and(is_of_a_script),
        _ => false,
    }
}

/// Classifies `error`, which came at `stage`.
pub(in crate::store::redis) fn of(error: &RedisError, stage: Stage) -> ErrorClass {
    let fault = if said_by_script(error).is_some() {
        saying(error)
    } else if let Some(code) = error.code() {
        coded(code, error)
    } else {
        uncoded(error)
    };
    match stage {
        Stage::Sent if is_of_a_greeting(error) => ErrorClass {
            kind: ErrorKind::Unavailable,
            ..fault
        },
        Stage::Sent => fault,
        Stage::Connecting => connecting(fault),
    }
}

/// Returns whether a call can have this error only if the client has reconnected meanwhile.
fn is_of_a_greeting(error: &RedisError) -> bool {
    use redis::ErrorKind as Theirs;
    let kinds = [Theirs::InvalidClientConfig, Theirs::RESP3NotSupported];
    error.code() == Some("NOPROTO") || kinds.contains(&error.kind())
}

/// Adapts a fault: while connecting nothing has happened, whatever the reply, and there is no
/// connection.
fn connecting(fault: ErrorClass) -> ErrorClass {
    let kind = match fault.kind {
        ErrorKind::Invalid => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    let words = match fault.effect {
        Effect::None => fault.words,
        Effect::Unknown => table::UNREACHABLE,
    };
    ErrorClass {
        effect: Effect::None,
        kind,
        breaks: true,
        is_silence: false,
        words,
    }
}

/// Returns the kind and the text of an error from one of this store's scripts.
fn said_by_script(error: &RedisError) -> Option<(&str, &str)> {
    if error.code() != Some("DULY") {
        return None;
    }
    let detail = error.detail().unwrap_or_default();
    Some(detail.split_once(' ').unwrap_or((detail, detail)))
}

fn saying(error: &RedisError) -> ErrorClass {
    let kind = said_by_script(error).map(|(kind, _)| kind);
    let known = SAYINGS.iter().find(|(name, _)| Some(*name) == kind);
    match known {
        Some((_, kind)) => ErrorClass {
            effect: Effect::None,
            kind: *kind,
            breaks: false,
            is_silence: false,
            words: "",
        },
        None => ErrorClass::of(&table::STRANGE),
    }
}

/// Returns the first row for an error that a server sends.
fn rule_of(code: &str, detail: &str) -> Option<&'static Rule> {
    let has_part = |rule: &Rule| rule.detail.is_none_or(|part| detail.contains(part));
    let mut of_code = RULES.iter().filter(|rule| rule.code == code);
    of_code.find(|rule| has_part(rule))
}

fn coded(code: &str, error: &RedisError) -> ErrorClass {
    let detail = error.detail().unwrap_or_default();
    let rule = rule_of(code, detail);
    let from_within = detail.contains(" script: ") || detail.contains("user_script");
    match rule {
        Some(rule) if !from_within || rule.is_before_writes => ErrorClass::of(rule),
        _ if from_within => ErrorClass::of(&table::MIDWAY),
        Some(rule) => ErrorClass::of(rule),
        None => ErrorClass::of(&table::STRANGE),
    }
}

/// Classifies errors that no server sent: of the connection, and of the package.
fn uncoded(error: &RedisError) -> ErrorClass {
    use redis::ErrorKind as Theirs;
    let rule = match error.kind() {
        Theirs::Io if error.is_timeout() => &table::LATE,
        Theirs::Io => &table::CUT,
        Theirs::Parse => &table::GARBLED,
        Theirs::ClusterConnectionNotFound => &table::NO_NODE,
        Theirs::AuthenticationFailed => &table::LOGIN,
        Theirs::InvalidClientConfig | Theirs::Client => &table::REFUSED_HERE,
        Theirs::RESP3NotSupported => &table::TOO_OLD,
        _ => &table::STRANGE,
    };
    ErrorClass::of(rule)
}
