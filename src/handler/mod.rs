//! What a user writes: handlers, and what is said of them.

mod annotation;
mod context;
mod extract;
pub(crate) mod registry;

use std::{error, future::Future};

use serde::{Serialize, de::DeserializeOwned};

pub use annotation::{Annotated, Annotation, StateNeed, delay_event};
pub use context::Context;
pub use extract::State;

use crate::event::Event;

/// Handles the events of one queue.
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

    /// Handles one event that was pushed with a delay.
    fn handle_delayed(
        &self,
        event: Event<Self::Payload>,
        cx: &Context,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        self.handle(event, cx)
    }
}

/// Handles the events of one queue on a thread that may block.
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
    fn handle(&self, event: Event<Self::Payload>, cx: &Context) -> Result<(), Failure>;

    /// Handles one event that was pushed with a delay.
    fn handle_delayed(&self, event: Event<Self::Payload>, cx: &Context) -> Result<(), Failure> {
        self.handle(event, cx)
    }
}

/// Why an attempt failed.
#[derive(Debug)]
pub struct Failure {
    /// The error behind it.
    pub source: Box<dyn error::Error + Send + Sync>,
}

impl<E: error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            source: Box::new(error),
        }
    }
}
