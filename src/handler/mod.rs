//! Handlers: the traits that users implement, their context, annotation and errors.

mod annotation;
mod context;
mod extract;
mod failure;
mod upgrade;

use serde::{Serialize, de::DeserializeOwned};

pub use annotation::{Annotated, AnnotatedSchedule, Annotation, StateRequirement, delay_event};
pub use context::Context;
pub(crate) use context::{AttemptContext, HandlerEnv};
pub use extract::{State, States};
pub use failure::{Failure, FailureExt};
pub(crate) use failure::{FailureKind, FailureReport};
pub use upgrade::{OldPayload, Upgrade};

use crate::event::Event;

/// An asynchronous handler of the events of one queue.
///
/// One value serves all attempts of its queue concurrently. Shared resources such as a database or
/// a client are passed to the builder and read with [`Context::state`].
///
/// # Guarantees
///
/// **At least once.** An event is handled until it succeeds or its attempts are used up; if the
/// process dies during a handler, another attempt follows elsewhere. So handlers should be
/// idempotent; [`Event::id`] is the same in each attempt and can serve as the idempotency key.
///
/// **Never early.** `handle` is not called before the event is due.
///
/// **Timeout.** A handler that is suspended when its execution timeout expires is dropped at its
/// current `.await`. One that blocks its thread cannot be stopped, and counts as timed out when it
/// returns: use a [`BlockingHandler`] for blocking code, and check [`Context::is_cancelled`] in
/// long loops.
///
/// **Panics are contained.** They fail the attempt and nothing else. So are those of the handler's
/// error, of its payload and of the values that it owns, wherever the bus drops or prints them.
///
/// # Examples
///
/// ```
/// use duly::prelude::*;
///
/// struct Greet;
///
/// impl Handler for Greet {
///     type Payload = String;
///
///     async fn handle(&self, event: Event<String>, _cx: &Context) -> Result<(), Failure> {
///         if event.payload.is_empty() {
///             return Err(Failure::permanent("nobody to greet"));
///         }
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "missing `impl Handler for {Self}`",
    note = "write `impl Handler for {Self}` with `type Payload` and `async fn handle(&self, event: Event<Self::Payload>, cx: &Context) -> Result<(), Failure>`",
    note = "if it implements `BlockingHandler`, add `blocking` to its `#[delay_event]`"
)]
pub trait Handler: Send + Sync + 'static {
    /// The type of the payload.
    type Payload: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Handles one event.
    fn handle(
        &self,
        event: Event<Self::Payload>,
        cx: &Context,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Handles an event that was pushed with a delay. Calls [`handle`](Self::handle) by default.
    fn handle_delayed(
        &self,
        event: Event<Self::Payload>,
        cx: &Context,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        self.handle(event, cx)
    }
}

/// A blocking handler of the events of one queue.
///
/// Each queue has its own threads, at most as many as workers, started on demand. The guarantees
/// are those of [`Handler`], except for the timeout, as a thread cannot be stopped: when it expires
/// the attempt is settled as timed out and the context is cancelled, but the handler keeps its
/// worker and its thread until it returns. Set timeouts on everything it waits for.
///
/// # Examples
///
/// ```
/// use duly::prelude::*;
///
/// struct Compress;
///
/// impl BlockingHandler for Compress {
///     type Payload = Vec<u8>;
///
///     fn handle(&self, event: Event<Vec<u8>>, cx: &Context) -> Result<(), Failure> {
///         for _chunk in event.payload.chunks(4_096) {
///             if cx.is_cancelled() {
///                 return Err(Failure::retry("gave up halfway"));
///             }
///         }
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a blocking handler",
    label = "missing `impl BlockingHandler for {Self}`",
    note = "write `impl BlockingHandler for {Self}` with `type Payload` and `fn handle(&self, event: Event<Self::Payload>, cx: &Context) -> Result<(), Failure>`",
    note = "if it implements `Handler`, remove `blocking` from its `#[delay_event]`"
)]
pub trait BlockingHandler: Send + Sync + 'static {
    /// The type of the payload.
    type Payload: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Handles one event.
    ///
    /// # Errors
    ///
    /// A [`Failure`], which also chooses the outcome.
    fn handle(&self, event: Event<Self::Payload>, cx: &Context) -> Result<(), Failure>;

    /// Handles an event that was pushed with a delay. Calls [`handle`](Self::handle) by default.
    ///
    /// # Errors
    ///
    /// A [`Failure`], which also chooses the outcome.
    fn handle_delayed(&self, event: Event<Self::Payload>, cx: &Context) -> Result<(), Failure> {
        self.handle(event, cx)
    }
}
