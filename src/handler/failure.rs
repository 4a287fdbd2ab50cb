//! How a handler says that it did not succeed.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// Why a handler did not succeed, and what should become of the event.
///
/// Any error converts into a `Failure` that means *retry by the queue's policy*, so `?` is all that
/// most handlers need: errors of their own types, `Box<dyn Error + Send + Sync>`, `anyhow::Error`,
/// `eyre::Report`, and texts (`Err("no".into())`). An error that is not `Send + Sync` does not. What
/// led to an error, its [sources](std::error::Error::source), is kept in the failure's text.
/// The other endings are said in so many words, here or with [`FailureExt`].
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
pub struct Failure(Box<Said>);

/// Kept behind one pointer, so that the way of success carries no weight.
struct Said {
    ending: Ending,
    words: Words,
}

/// What should become of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Retry by the policy.
    Retry,
    /// Retry after this, whatever the policy says.
    RetryAfter(Duration),
    /// Call again after this; the attempt does not count.
    Snooze(Duration),
    /// No retry: a dead letter.
    Permanent,
    /// No retry and no dead letter.
    Discard,
}

enum Words {
    Text(String),
    Error(Box<dyn StdError + Send + Sync>),
}

impl Failure {
    /// Retry by the queue's policy.
    pub fn retry(words: impl Into<String>) -> Self {
        Self::new(Ending::Retry, words)
    }

    /// Retry after `delay`, whatever the policy says. The attempt counts.
    pub fn retry_after(delay: Duration, words: impl Into<String>) -> Self {
        Self::new(Ending::RetryAfter(delay), words)
    }

    /// Call again after `delay`; the attempt does not count.
    #[must_use]
    pub fn snooze(delay: Duration) -> Self {
        Self::new(Ending::Snooze(delay), "snoozed")
    }

    /// No retry will mend this: the event becomes a dead letter at once.
    pub fn permanent(words: impl Into<String>) -> Self {
        Self::new(Ending::Permanent, words)
    }

    /// The event is of no use any more: it ends without a dead letter.
    pub fn discard(words: impl Into<String>) -> Self {
        Self::new(Ending::Discard, words)
    }

    fn new(ending: Ending, words: impl Into<String>) -> Self {
        Self(Box::new(Said {
            ending,
            words: Words::Text(words.into()),
        }))
    }

    pub(crate) fn ending(&self) -> Ending {
        self.0.ending
    }
}

/// An error and what led to it, cause by cause.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.words {
            Words::Text(text) => f.write_str(text),
            Words::Error(error) => {
                write!(f, "{error}")?;
                let mut cause = error.source();
                while let Some(error) = cause {
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

/// Means *retry by the queue's policy*. Covers every error that is `Send + Sync`, boxed or not,
/// those of anyhow and eyre, and texts.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(Said {
            ending: Ending::Retry,
            words: Words::Error(error.into()),
        }))
    }
}

/// Says what should become of the event, on any `Result`.
pub trait FailureExt<T> {
    /// No retry will mend this error: a dead letter at once.
    ///
    /// # Errors
    ///
    /// The error, as a [`Failure`].
    fn permanent(self) -> Result<T, Failure>;

    /// Retry after `delay`, whatever the policy says.
    ///
    /// # Errors
    ///
    /// The error, as a [`Failure`].
    fn retry_after(self, delay: Duration) -> Result<T, Failure>;

    /// Call again after `delay`; the attempt does not count.
    ///
    /// # Errors
    ///
    /// The error, as a [`Failure`].
    fn snooze(self, delay: Duration) -> Result<T, Failure>;

    /// With this error the event is of no use any more.
    ///
    /// # Errors
    ///
    /// The error, as a [`Failure`].
    fn discard(self) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> FailureExt<T> for Result<T, E> {
    fn permanent(self) -> Result<T, Failure> {
        ending(self, Ending::Permanent)
    }

    fn retry_after(self, delay: Duration) -> Result<T, Failure> {
        ending(self, Ending::RetryAfter(delay))
    }

    fn snooze(self, delay: Duration) -> Result<T, Failure> {
        ending(self, Ending::Snooze(delay))
    }

    fn discard(self) -> Result<T, Failure> {
        ending(self, Ending::Discard)
    }
}

fn ending<T, E: Into<Failure>>(result: Result<T, E>, ending: Ending) -> Result<T, Failure> {
    result.map_err(|error| {
        let mut failure = error.into();
        failure.0.ending = ending;
        failure
    })
}
