//! The future that store operations return.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::panics::{self, Contained};

/// Waits for a call to a store or a journal for so long; after that it fails with this kind of error.
pub(crate) async fn in_time<T>(
    patience: Duration,
    kind: ErrorKind,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    let late = |_elapsed| {
        let text = format!("no response within {patience:?}");
        Error::new(kind, text)
    };
    tokio::time::timeout(patience, call).await.map_err(late)?
}

/// The future of a store operation.
///
/// A store that needs neither disk nor network returns a future that is ready at once: it allocates
/// nothing, and the caller may read the result without polling. A panic of a wrapped future is an
/// error of kind [`Unknown`](crate::ErrorKind::Unknown).
///
/// # Examples
///
/// ```
/// use duly::store::StoreFuture;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// let known = StoreFuture::ready(Ok(7));
/// let found = StoreFuture::new(async { Ok(7) });
/// assert_eq!(known.await?, found.await?);
/// # Ok(())
/// # }
/// ```
#[must_use = "a store may do nothing before its future is polled"]
pub struct StoreFuture<T>(State<T>);

enum State<T> {
    /// The result, until it is taken.
    Ready(Option<Result<T>>),
    Coming(Contained<BoxedResult<T>>),
}

type BoxedResult<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

impl<T> StoreFuture<T> {
    /// Creates a future that is ready with `response`.
    pub fn ready(response: Result<T>) -> Self {
        Self(State::Ready(Some(response)))
    }

    /// Wraps a future.
    pub fn new(response: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        let response: BoxedResult<T> = Box::pin(response);
        Self(State::Coming(Contained::new(response)))
    }

    /// Returns the result if it is ready.
    pub(crate) fn peek(&self) -> Option<&Result<T>> {
        match &self.0 {
            State::Ready(response) => response.as_ref(),
            State::Coming(_) => None,
        }
    }
}

/// Neither variant is pinned structurally.
impl<T> Unpin for StoreFuture<T> {}

impl<T> Future for StoreFuture<T> {
    type Output = Result<T>;

    /// Not ready again after it has returned its result.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(response) => response.take().map_or(Poll::Pending, Poll::Ready),
            State::Coming(response) => panics::caught(|| response.as_mut().poll(cx))
                .unwrap_or_else(|words| Poll::Ready(Err(panicked(&words)))),
        }
    }
}

/// The error of a call in which a store panicked: it may have happened.
pub(super) fn panicked(words: &str) -> Error {
    Error::new(ErrorKind::Unknown, format!("the store panicked: {words}"))
}

impl<T> fmt::Debug for StoreFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_ready = self.peek().is_some();
        f.debug_struct("StoreFuture")
            .field("is_ready", &is_ready)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_too_long_fails_by_the_kind_that_was_asked_for() {
        for kind in [ErrorKind::TimedOut, ErrorKind::Unknown] {
            let never = std::future::pending::<Result<()>>();
            let error = in_time(Duration::from_secs(2), kind, never).await;
            let error = error.expect_err("it takes too long");
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains("within 2s"), "{error}");
        }
        let known = in_time(Duration::ZERO, ErrorKind::Unknown, async { Ok(7) });
        assert_eq!(known.await.expect("it is there"), 7);
    }
}
