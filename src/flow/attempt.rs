//! One call of a user's handler: on the runtime, or on a thread that may block.

use std::sync::Arc;
use std::time::Duration;

use crate::event::Event;
use crate::handler::{BlockingHandler, Context, Failure, Handler};
use crate::trace::Carried;

/// What came of one call of a handler.
pub(crate) enum Attempted {
    /// It returned; with the reply that it gave to a waiting caller.
    Returned(Result<(), Failure>, Option<Vec<u8>>),
    /// It was too slow and that was told at once; now its thread is free again.
    Late,
}

/// Calls a handler.
pub(crate) trait Attempt: Send + Sync + 'static {
    /// What its queue carries.
    type Payload: Send + Sync + 'static;
    /// Whether the pool enforces the execution timeout, by dropping the future.
    const CAN_BE_DROPPED: bool;

    /// Calls the handler with `event`.
    ///
    /// One that cannot be dropped calls `timed_out` after `limit` and goes on to its end.
    fn attempt(
        &self,
        event: Event<Self::Payload>,
        cx: Context,
        limit: Duration,
        timed_out: impl FnOnce() + Send,
    ) -> impl Future<Output = Attempted> + Send;
}

/// A handler on the runtime.
pub(crate) struct Suspending<H>(pub(crate) H);

impl<H: Handler> Attempt for Suspending<H> {
    type Payload = H::Payload;
    const CAN_BE_DROPPED: bool = true;

    async fn attempt(
        &self,
        event: Event<H::Payload>,
        mut cx: Context,
        _limit: Duration,
        _timed_out: impl FnOnce() + Send,
    ) -> Attempted {
        let returned = if event.is_delayed() {
            self.0.handle_delayed(event, &cx).await
        } else {
            self.0.handle(event, &cx).await
        };
        Attempted::Returned(returned, cx.take_reply())
    }
}

/// A handler on threads of its own.
///
/// Nobody can stop a thread, so a handler that is too slow keeps its place among the queue's
/// workers until it returns; its event is settled when the time is over.
pub(crate) struct Blocking<H>(pub(crate) Arc<H>);

impl<H: BlockingHandler> Attempt for Blocking<H> {
    type Payload = H::Payload;
    const CAN_BE_DROPPED: bool = false;

    async fn attempt(
        &self,
        event: Event<H::Payload>,
        cx: Context,
        limit: Duration,
        timed_out: impl FnOnce() + Send,
    ) -> Attempted {
        let handler = Arc::clone(&self.0);
        let mut own = cx.fork();
        let (span, carried) = (tracing::Span::current(), Carried::current());
        let mut thread = tokio::task::spawn_blocking(move || {
            let call = || match event.is_delayed() {
                true => handler.handle_delayed(event, &own),
                false => handler.handle(event, &own),
            };
            let returned = span.in_scope(|| carried.within(call));
            (returned, own.take_reply())
        });
        let (joined, late) = match tokio::time::timeout(limit, &mut thread).await {
            Ok(joined) => (joined, false),
            Err(_elapsed) => {
                cx.cancellation().cancel();
                timed_out();
                (thread.await, true)
            }
        };
        match joined {
            _ if late => Attempted::Late,
            Ok((returned, reply)) => Attempted::Returned(returned, reply),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => {
                    let failure = Failure::retry("the runtime went away before the handler ran");
                    Attempted::Returned(Err(failure), None)
                }
            },
        }
    }
}
