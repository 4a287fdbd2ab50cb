//! The one error type, and what a caller can do about it.

use std::borrow::Cow;
use std::{error, fmt};

/// The most bytes of a text from outside that a message repeats.
const SHOWN_BYTES_MAX: usize = 160;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation did not happen, or why nobody knows whether it did.
///
/// There is one error type for the whole crate because a caller asks one question of it: *what can
/// I do now?* [`kind`](Self::kind) answers that. The message says what was wrong and what would be
/// right; the cause, where there is one, stays reachable through
/// [`source`](std::error::Error::source).
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
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The argument can never be accepted; trying again is useless.
    Invalid,
    /// No event has this id; it was pruned or never pushed.
    NotFound,
    /// The id belongs to another payload already; nothing was changed.
    Conflict,
    /// There is no room now: a full ring, a full disk, a full store. Nothing happened; try later.
    Full,
    /// The lease ran out and another consumer may hold the event now.
    LeaseLost,
    /// The store refused or could not be reached, and nothing happened; try again.
    Unavailable,
    /// The answer was lost: it may or may not have happened. The same call again is safe, for a
    /// push with the same [`EventId`](crate::EventId).
    Unknown,
    /// Stored bytes failed their checksum, carry an unknown version, or are not ours.
    Corrupt,
    /// The bus or its store was shut down, or stopped itself in doubt; open it again.
    Closed,
    /// The wait was longer than the caller allowed; what was waited for may still happen.
    TimedOut,
}

impl ErrorKind {
    /// Its name in small letters, as logs and metrics have it.
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
    /// An error of `kind`; `context` says what was wrong and what would be right.
    ///
    /// For stores and codecs of your own.
    pub fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
        }
    }

    /// The same error with its cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What a caller can do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn invalid(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, context)
    }

    /// A URL or a setting names what is not compiled in.
    #[allow(dead_code)] // with all features nothing is missing
    pub(crate) fn not_built(what: &str, feature: &str) -> Self {
        Self::invalid(format!(
            "{what} is not compiled in: give duly the feature `{feature}` in Cargo.toml"
        ))
    }

    pub(crate) fn corrupt(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, context)
    }

    pub(crate) fn closed(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Closed, context)
    }
}

/// A text from outside as a message repeats it: on one line, and not all of it where it is long.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let start = &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)];
    let is_whole = start.len() == text.len();
    if is_whole && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(start.len());
    for c in start.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    if !is_whole {
        shown.push_str("...");
    }
    Cow::Owned(shown)
}

/// A url without what stands before its `@`: a password, one day.
pub(crate) fn shown_url(url: &str) -> String {
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

/// For people: what `main` prints when it returns an error. Its kind, its message and what led to it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.context)?;
        let mut cause = error::Error::source(self);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.source {
            Some(source) => Some(source.as_ref()),
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
