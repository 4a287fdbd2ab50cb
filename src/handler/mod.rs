//! What a user writes: handlers, and what is said of them.

mod annotation;
mod context;
mod extract;
mod failure;
mod upgrade;

use serde::{Serialize, de::DeserializeOwned};

pub use annotation::{Annotated, Annotation, StateNeed, delay_event};
pub use context::Context;
pub(crate) use context::{Stripes, Surroundings};
pub use extract::{State, States};
pub(crate) use failure::Ending;
pub use failure::{Failure, FailureExt};
pub use upgrade::{OldPayload, Upgrade};

use crate::event::Event;

/// Handles the events of one queue.
///
/// One value serves all attempts of its queue at once, so what it keeps must be shareable. What
/// handlers share (a database, a client) is given to the builder and read with
/// [`Context::state`].
///
/// # The contract
///
/// **At least once.** An event is handled until it succeeds or its attempts are used up; a process
/// that dies in the middle of a handler means another attempt elsewhere. The effect of a handler
/// should therefore be the same when it happens twice; [`Event::id`] is the same in each attempt
/// and can serve as a key for that.
///
/// **Never early.** `handle` is not called before the event is due.
///
/// **A time limit.** A handler that is still suspended when its execution timeout is over is
/// dropped at the `.await` it waits at. One that blocks its thread cannot be stopped by anybody,
/// and has timed out all the same when it returns: write a [`BlockingHandler`] for what blocks, and
/// look at [`Context::is_cancelled`] in long loops.
///
/// **Panics are contained.** They fail the attempt and nothing else.
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
    note = "if it implements `BlockingHandler`, say `blocking` in its `#[delay_event]`"
)]
pub trait Handler: Send + Sync + 'static {
    /// What is pushed.
    type Payload: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Handles one event.
    fn handle(
        &self,
        event: Event<Self::Payload>,
        cx: &Context,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Handles one event that was pushed with a delay. Calls [`handle`](Self::handle) by default.
    fn handle_delayed(
        &self,
        event: Event<Self::Payload>,
        cx: &Context,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        self.handle(event, cx)
    }
}

/// Handles the events of one queue on threads that may block.
///
/// A queue has threads of its own, at most as many as workers; they are started when they are
/// needed. The contract is that of [`Handler`], but for the time limit: nobody can stop a thread.
/// When the execution timeout is over the attempt is settled as timed out, the context is
/// cancelled, and the handler keeps its worker and its thread until it returns. Give whatever it
/// waits for a timeout of its own.
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
    note = "if it implements `Handler`, leave `blocking` out of its `#[delay_event]`"
)]
pub trait BlockingHandler: Send + Sync + 'static {
    /// What is pushed.
    type Payload: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Handles one event.
    ///
    /// # Errors
    ///
    /// A [`Failure`] says what should become of the event.
    fn handle(&self, event: Event<Self::Payload>, cx: &Context) -> Result<(), Failure>;

    /// Handles one event that was pushed with a delay. Calls [`handle`](Self::handle) by default.
    ///
    /// # Errors
    ///
    /// A [`Failure`] says what should become of the event.
    fn handle_delayed(&self, event: Event<Self::Payload>, cx: &Context) -> Result<(), Failure> {
        self.handle(event, cx)
    }
}
