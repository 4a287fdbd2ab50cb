//! What a store answers with.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::Result;

/// The future that a store answers with.
///
/// A store that needs no disk and no network has its answer when it is asked, and says so: then
/// nothing is allocated, and whoever stands before it may look at the answer.
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
    /// The answer, until it was taken.
    Ready(Option<Result<T>>),
    Coming(Pin<Box<dyn Future<Output = Result<T>> + Send>>),
}

impl<T> StoreFuture<T> {
    /// An answer that is there.
    pub fn ready(answer: Result<T>) -> Self {
        Self(State::Ready(Some(answer)))
    }

    /// An answer that a future will have.
    pub fn new(answer: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(State::Coming(Box::pin(answer)))
    }

    /// The answer, if it is there without waiting.
    pub(crate) fn peek(&self) -> Option<&Result<T>> {
        match &self.0 {
            State::Ready(answer) => answer.as_ref(),
            State::Coming(_) => None,
        }
    }
}

/// Neither an answer nor a box is ever pinned in place.
impl<T> Unpin for StoreFuture<T> {}

impl<T> Future for StoreFuture<T> {
    type Output = Result<T>;

    /// Once it has answered it is never ready again.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            State::Coming(answer) => answer.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for StoreFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_ready = self.peek().is_some();
        f.debug_struct("StoreFuture")
            .field("is_ready", &is_ready)
            .finish()
    }
}
