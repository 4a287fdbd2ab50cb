//! Work that is completed, whatever becomes of its caller.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that goes on as a task if it is dropped half-way.
///
/// Its caller drives it, so that it needs no other runtime as long as the caller waits. Dropped
/// before its first poll, it does nothing.
pub(super) struct Completed<T: Send + 'static> {
    /// Taken out at the end.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    has_begun: bool,
    runtime: Handle,
}

impl<T: Send + 'static> Completed<T> {
    /// Completes `work`, on `runtime` if its caller is gone.
    pub(super) fn new(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            work: Some(Box::pin(work)),
            has_begun: false,
            runtime: runtime.clone(),
        }
    }
}

impl<T: Send + 'static> Future for Completed<T> {
    type Output = T;

    /// Not ready again after it has returned its result.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.has_begun = true;
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Completed<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && self.has_begun
        {
            self.runtime.spawn(work);
        }
    }
}
