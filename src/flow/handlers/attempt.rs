//! One call of a handler: on the runtime, or on a thread that may block.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::event::Event;
use crate::flow::handlers::blocking_threads::BlockingThreads;
use crate::flow::handlers::waits::RunningAttempt;
use crate::handler::{AttemptContext, BlockingHandler, Failure, FailureReport, Handler};
use crate::panics::{self, Contained};
use crate::trace::CurrentEvent;

/// How one call of a handler ended.
pub(crate) enum HandlerExit {
    /// It returned; with its reply for a waiting caller, if it gave one.
    Returned(Result<(), FailureReport>, Option<Vec<u8>>),
    /// It exceeded its timeout, was settled then, and has returned now.
    Late,
    /// It was never called: it may not start any more, or no thread was available.
    NotStarted,
}

/// Decides on the handler's own thread, right before the call, whether it may start.
pub(crate) type StartCheck = Box<dyn FnOnce() -> bool + Send>;

/// Calls a handler.
pub(crate) trait Attempt: Send + Sync + 'static {
    /// The payload type of its queue.
    type Payload: Send + Sync + 'static;
    /// Whether the pool enforces the execution timeout, by dropping the future.
    const CAN_BE_DROPPED: bool;

    /// Calls the handler with `event`.
    ///
    /// A handler that cannot be dropped calls `may_start` once it has a thread, calls `timed_out`
    /// after `limit`, and runs to its end.
    fn attempt(
        &self,
        event: Event<Self::Payload>,
        cx: AttemptContext<'_>,
        limit: Duration,
        may_start: Option<StartCheck>,
        timed_out: impl FnOnce() + Send,
    ) -> impl Future<Output = HandlerExit> + Send;

    /// Returns how many handlers run on after their timeout and keep their worker.
    fn stuck(&self) -> usize {
        0
    }
}

/// A handler on the runtime.
pub(crate) struct AsyncAttempt<H>(Contained<H>);

impl<H> AsyncAttempt<H> {
    pub(crate) fn new(handler: H) -> Self {
        Self(Contained::new(handler))
    }
}

impl<H: Handler> Attempt for AsyncAttempt<H> {
    type Payload = H::Payload;
    const CAN_BE_DROPPED: bool = true;

    async fn attempt(
        &self,
        event: Event<H::Payload>,
        mut cx: AttemptContext<'_>,
        _limit: Duration,
        _may_start: Option<StartCheck>,
        _timed_out: impl FnOnce() + Send,
    ) -> HandlerExit {
        let returned = if event.is_delayed() {
            self.0.handle_delayed(event, &cx).await
        } else {
            self.0.handle(event, &cx).await
        };
        // The text of its error is written here: it is the handler's own code.
        HandlerExit::Returned(returned.map_err(Failure::report), cx.take_reply())
    }
}

/// A handler on its queue's own threads.
///
/// A thread cannot be stopped, so a handler that is too slow keeps its worker until it returns; its
/// event is settled at the timeout. For that reason the queue has no more threads than workers.
pub(crate) struct BlockingAttempt<H> {
    handler: Arc<Contained<H>>,
    threads: BlockingThreads,
    stuck: AtomicUsize,
}

impl<H> BlockingAttempt<H> {
    pub(crate) fn new(handler: H, threads: BlockingThreads) -> Self {
        Self {
            handler: Arc::new(Contained::new(handler)),
            threads,
            stuck: AtomicUsize::new(0),
        }
    }
}

impl<H: BlockingHandler> Attempt for BlockingAttempt<H> {
    type Payload = H::Payload;
    const CAN_BE_DROPPED: bool = false;

    async fn attempt(
        &self,
        event: Event<H::Payload>,
        cx: AttemptContext<'_>,
        limit: Duration,
        may_start: Option<StartCheck>,
        timed_out: impl FnOnce() + Send,
    ) -> HandlerExit {
        let handler = Arc::clone(&self.handler);
        let mut own = cx.fork();
        let (span, carried) = (tracing::Span::current(), CurrentEvent::current());
        let attempt = RunningAttempt::current();
        let (starts, started) = oneshot::channel();
        let (ends, mut ended) = oneshot::channel();
        let runtime = Handle::current();
        let job = move || {
            let _inside = runtime.enter();
            if may_start.is_some_and(|may_start| !may_start()) {
                return;
            }
            let _ = starts.send(Instant::now());
            let call = || {
                if event.is_delayed() {
                    handler.handle_delayed(event, &own)
                } else {
                    handler.handle(event, &own)
                }
            };
            let call = || {
                span.in_scope(|| carried.within(call))
                    .map_err(Failure::report)
            };
            let call = || match attempt {
                Some(attempt) => attempt.within(call),
                None => call(),
            };
            let returned = catch_unwind(AssertUnwindSafe(call));
            let _ = ends.send(returned.map(|returned| (returned, own.take_reply())));
        };
        if let Err(error) = self.threads.run(job) {
            panics::reported(|| {
                tracing::debug!(
                    queue = %cx.queue_name(), %error,
                    "no thread for a blocking handler"
                );
            });
            return HandlerExit::NotStarted;
        }
        let Ok(started) = started.await else {
            return HandlerExit::NotStarted;
        };
        let returned = match timeout_at(started + limit, &mut ended).await {
            Ok(returned) => returned,
            Err(_elapsed) => {
                cx.cancellation().cancel();
                let _stuck = StuckGuard::new(&self.stuck);
                timed_out();
                let _ = ended.await;
                return HandlerExit::Late;
            }
        };
        match returned {
            Ok(Ok((returned, reply))) => HandlerExit::Returned(returned, reply),
            Ok(Err(panic)) => resume_unwind(panic),
            // The thread sends the result whatever happens to the handler.
            Err(_gone) => HandlerExit::NotStarted,
        }
    }

    fn stuck(&self) -> usize {
        self.stuck.load(Ordering::Relaxed)
    }
}

/// Counts a handler that runs on after its timeout, until it is dropped.
struct StuckGuard<'a>(&'a AtomicUsize);

impl<'a> StuckGuard<'a> {
    fn new(stuck: &'a AtomicUsize) -> Self {
        stuck.fetch_add(1, Ordering::Relaxed);
        Self(stuck)
    }
}

impl Drop for StuckGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
