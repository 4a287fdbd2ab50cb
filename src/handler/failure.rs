//! The error type of handlers.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::panics::{self, SOURCES_MAX};
use crate::record::{ERROR_BYTES_MAX, cut_error};

/// A handler's error, with the outcome it asks for.
///
/// Any error converts into a `Failure` that means *retry by the queue's policy*, so `?` is all that
/// most handlers need: custom errors, `Box<dyn Error + Send + Sync>`, `anyhow::Error`,
/// `eyre::Report`, and strings (`Err("no".into())`). An error that is not `Send + Sync` does not
/// convert. The [sources](std::error::Error::source) of an error are included in the failure's
/// text, at most 32 of them. Choose any other outcome with the constructors here or with
/// [`FailureExt`].
///
/// The text is written as a part of the attempt, up to the 2,048 bytes that a record keeps. A
/// `Display` that panics or fails, or a `Drop` that panics, changes nothing of the outcome; the
/// record says that the text could not be written.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use duly::{Failure, FailureExt};
///
/// fn charge(card: &str) -> Result<u32, Failure> {
///     let number: u32 = card.parse().permanent()?;    // no retry will mend this
///     if number == 0 {
///         return Err(Failure::retry_after(Duration::from_secs(60), "the bank is closed"));
///     }
///     Ok(number)
/// }
/// assert!(charge("12").is_ok());
/// assert_eq!(charge("0").unwrap_err().to_string(), "the bank is closed");
/// ```
pub struct Failure(Box<FailureParts>);

/// Boxed, so that the `Ok` path stays small.
struct FailureParts {
    ending: FailureKind,
    words: FailureText,
}

/// The outcome that a handler asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// Retry by the queue's policy.
    Retry,
    /// Retry after this delay instead of the policy's.
    RetryAfter(Duration),
    /// Run again after this delay; the attempt does not count.
    Snooze(Duration),
    /// Bury as a dead letter, without a retry.
    Permanent,
    /// Discard without a retry or a dead letter.
    Discard,
}

enum FailureText {
    Text(String),
    Error(Box<dyn StdError + Send + Sync>),
}

impl Failure {
    /// Retries by the queue's policy.
    pub fn retry(words: impl Into<String>) -> Self {
        Self::new(FailureKind::Retry, words)
    }

    /// Retries after `delay` instead of the policy's. The attempt counts.
    pub fn retry_after(delay: Duration, words: impl Into<String>) -> Self {
        Self::new(FailureKind::RetryAfter(delay), words)
    }

    /// Runs again after `delay`; the attempt does not count.
    #[must_use]
    pub fn snooze(delay: Duration) -> Self {
        Self::new(FailureKind::Snooze(delay), "snoozed")
    }

    /// Buries the event as a dead letter at once: no retry can help.
    pub fn permanent(words: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, words)
    }

    /// Discards the event as no longer useful, without a dead letter.
    pub fn discard(words: impl Into<String>) -> Self {
        Self::new(FailureKind::Discard, words)
    }

    fn new(ending: FailureKind, words: impl Into<String>) -> Self {
        Self(Box::new(FailureParts {
            ending,
            words: FailureText::Text(words.into()),
        }))
    }

    /// Writes its text, as far as a record keeps it, and drops its error. Runs the error's own
    /// code, and never panics.
    pub(crate) fn report(self) -> FailureReport {
        let FailureParts { ending, words } = *self.0;
        let text = match words {
            FailureText::Text(text) => cut_error(text),
            FailureText::Error(error) => {
                let text = panics::error_text(error.as_ref(), ERROR_BYTES_MAX);
                panics::dropped(error);
                text
            }
        };
        FailureReport { ending, text }
    }
}

/// What a failure asks for and says, without the handler's error.
#[derive(Debug)]
pub(crate) struct FailureReport {
    pub(crate) ending: FailureKind,
    pub(crate) text: String,
}

/// Prints the error and its sources.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.words {
            FailureText::Text(text) => f.write_str(text),
            FailureText::Error(error) => {
                write!(f, "{error}")?;
                let mut cause = error.source();
                for _ in 0..SOURCES_MAX {
                    let Some(error) = cause else { break };
                    write!(f, ": {error}")?;
                    cause = error.source();
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({:?}, {self})", self.0.ending)
    }
}

/// Means *retry by the queue's policy*. Accepts every error that is `Send + Sync`, boxed or not,
/// those of anyhow and eyre, and strings.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(FailureParts {
            ending: FailureKind::Retry,
            words: FailureText::Error(error.into()),
        }))
    }
}

/// Methods on any `Result` that choose the outcome of an error.
pub trait FailureExt<T> {
    /// Buries the event as a dead letter at once: no retry can help.
    ///
    /// # Errors
    ///
    /// The error, as a [`Failure`].
    fn permanent(self) -> Result<T, Failure>;

    /// Retries after `delay` instead of the policy's.
    ///
    /// # Errors
    ///
    /// The error, as a [`Failure`].
    fn retry_after(self, delay: Duration) -> Result<T, Failure>;

    /// Runs again after `delay`; the attempt does not count.
    ///
    /// # Errors
    ///
    /// The error, as a [`Failure`].
    fn snooze(self, delay: Duration) -> Result<T, Failure>;

    /// Discards the event as no longer useful.
    ///
    /// # Errors
    ///
    /// The error, as a [`Failure`].
    fn discard(self) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> FailureExt<T> for Result<T, E> {
    fn permanent(self) -> Result<T, Failure> {
        ending(self, FailureKind::Permanent)
    }

    fn retry_after(self, delay: Duration) -> Result<T, Failure> {
        ending(self, FailureKind::RetryAfter(delay))
    }

    fn snooze(self, delay: Duration) -> Result<T, Failure> {
        ending(self, FailureKind::Snooze(delay))
    }

    fn discard(self) -> Result<T, Failure> {
        ending(self, FailureKind::Discard)
    }
}

fn ending<T, E: Into<Failure>>(result: Result<T, E>, ending: FailureKind) -> Result<T, Failure> {
    result.map_err(|error| {
        let mut failure = error.into();
        failure.0.ending = ending;
        failure
    })
}
