//! The error type, classified by what a caller can do.

use std::borrow::Cow;
use std::{error, fmt};

use crate::panics::{Contained, SOURCES_MAX};

/// The most bytes of external text that a message quotes.
const SHOWN_BYTES_MAX: usize = 160;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed, or may have failed.
///
/// The crate has one error type, because a caller needs one answer from it: what to do now, which
/// is its [`kind`](Self::kind). The message says what is wrong and what would be right; the cause,
/// if any, is its [`source`](std::error::Error::source).
///
/// # Examples
///
/// ```
/// use duly::{ErrorKind, QueueName};
///
/// let error = "no spaces, please".parse::<QueueName>().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert!(error.to_string().contains("letters, digits"));
/// ```
pub struct Error {
    kind: ErrorKind,
    context: Cow<'static, str>,
    /// Perhaps a store's own error, whose drop may panic anywhere.
    source: Option<Contained<Box<dyn error::Error + Send + Sync>>>,
}

/// The class of an [`Error`], by what a caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The argument can never be accepted; retrying is useless.
    Invalid,
    /// No event has this id; it was pruned or never pushed.
    NotFound,
    /// The id belongs to an event with another payload; nothing was changed.
    Conflict,
    /// No room now: a full ring, disk or store. Nothing happened; retry later.
    Full,
    /// The lease was lost, and another consumer may hold the event now.
    LeaseLost,
    /// The store refused or is unreachable, and nothing happened; retry.
    Unavailable,
    /// The reply was lost: the operation may or may not have happened. Repeating the call is safe,
    /// for a push with the same [`EventId`](crate::EventId).
    Unknown,
    /// Stored bytes have a wrong checksum or an unknown version, or are not duly's.
    Corrupt,
    /// The bus or its store was closed, or stopped itself after a fatal error; open it again.
    Closed,
    /// The caller's timeout expired; the operation may still happen.
    TimedOut,
}

impl ErrorKind {
    /// The name in snake case, as in logs and metrics.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(duly::ErrorKind::LeaseLost.name(), "lease_lost");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Full => "full",
            Self::LeaseLost => "lease_lost",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
            Self::Corrupt => "corrupt",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
        }
    }
}

impl Error {
    /// Creates an error; `context` says what is wrong and what would be right.
    ///
    /// For custom stores and codecs.
    pub fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.source = Some(Contained::new(source.into()));
        self
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn invalid(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, context)
    }

    /// A URL or setting needs a feature that is not compiled in.
    #[allow(dead_code)] // unused with all features
    pub(crate) fn not_built(what: &str, feature: &str) -> Self {
        Self::invalid(format!(
            "{what} is not compiled in; enable the feature `{feature}` of duly in Cargo.toml"
        ))
    }

    pub(crate) fn corrupt(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, context)
    }

    pub(crate) fn closed(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Closed, context)
    }
}

/// Prepares external text for a message: escapes control characters, and truncates.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let start = &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)];
    let is_whole = start.len() == text.len();
    if is_whole && !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(start.len());
    for c in start.chars() {
        if is_unseen(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    if !is_whole {
        shown.push_str("...");
    }
    Cow::Owned(shown)
}

/// Returns whether a character is none that is seen: it controls a terminal, or turns the direction of
/// the text around it.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// Removes the credentials of a URL.
pub(crate) fn redact_url(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://...@{host}"),
        _ => url.to_owned(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

/// For people, as printed when `main` returns an error: its kind, its message and its sources.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.context)?;
        let mut cause = error::Error::source(self);
        for _ in 0..SOURCES_MAX {
            let Some(error) = cause else { break };
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.source {
            Some(source) => Some((**source).as_ref()),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_main_returns_is_readable() {
        let disk = Error::new(ErrorKind::Full, "no room on the disk").because("errno 28");
        let error = Error::new(ErrorKind::Closed, "the store stopped").because(disk);
        let shown = "Closed: the store stopped: no room on the disk: errno 28";
        assert_eq!(format!("{error:?}"), shown);
        assert_eq!(error.to_string(), "the store stopped");
    }
}
