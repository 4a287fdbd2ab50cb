//! What a handler may know and do besides its event.

use std::any::type_name;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::handler::extract::{State, States};

/// What a handler may know and do besides its event.
///
/// It belongs to one attempt. When the attempt is over, however it ended, its
/// [cancellation token](Self::cancellation) is cancelled, so that what the handler has spawned can
/// end too.
#[derive(Debug)]
pub struct Context {
    shared: Arc<Surroundings>,
    /// Made when first asked for: most handlers never do.
    token: OnceLock<CancellationToken>,
    reply: OnceLock<Vec<u8>>,
}

/// What all attempts of a queue share.
pub(crate) struct Surroundings {
    pub(crate) queue: QueueName,
    pub(crate) states: Arc<States>,
    /// Cancelled when the bus gives up waiting for handlers.
    pub(crate) stop: CancellationToken,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn new(shared: Arc<Surroundings>) -> Self {
        Self {
            shared,
            token: OnceLock::new(),
            reply: OnceLock::new(),
        }
    }

    /// A context outside of any bus, to call a handler by hand in a test.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::handler::States;
    /// use duly::prelude::*;
    ///
    /// #[delay_event(queue = "greet", register = false)]
    /// async fn greet(_event: Event<String>, name: State<String>) -> Result<(), Failure> {
    ///     assert_eq!(*name, "Ada");
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut states = States::default();
    /// states.insert("Ada".to_owned());
    /// let cx = Context::detached("greet", states);
    /// assert!(greet.handle(Event::published("hello".to_owned()), &cx).await.is_ok());
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// When `queue` is not a legal name.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn detached(queue: &str, states: States) -> Self {
        let queue = match QueueName::new(queue) {
            Ok(queue) => queue,
            Err(error) => panic!("{error}"),
        };
        let (states, stop) = (Arc::new(states), CancellationToken::new());
        Self::new(Arc::new(Surroundings {
            queue,
            states,
            stop,
        }))
    }

    /// The queue that the event came from.
    #[must_use]
    pub fn queue_name(&self) -> &QueueName {
        &self.shared.queue
    }

    /// The shared value of type `T` that was given to the builder.
    ///
    /// # Panics
    ///
    /// When there is none. Name the type in the annotation, `state(Db)`, or take it as a
    /// [`State<Db>`](State) argument of a handler function, and a missing one fails the start.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> &T {
        match self.shared.states.get() {
            Some(value) => value,
            None => panic!(
                "no state of type `{name}`; {ADVICE}",
                name = type_name::<T>()
            ),
        }
    }

    /// The shared value of type `T`, to keep.
    ///
    /// # Panics
    ///
    /// As [`state`](Self::state).
    #[must_use]
    pub fn share<T: Send + Sync + 'static>(&self) -> State<T> {
        match self.shared.states.share() {
            Some(value) => State(value),
            None => panic!(
                "no state of type `{name}`; {ADVICE}",
                name = type_name::<T>()
            ),
        }
    }

    /// Cancelled when this attempt is over: its handler ended, was too slow, or was cut short by a
    /// stop.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.token
            .get_or_init(|| self.shared.stop.child_token())
            .clone()
    }

    /// Whether this attempt has been given up. For blocking handlers, which nobody can stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match self.token.get() {
            Some(token) => token.is_cancelled(),
            None => self.shared.stop.is_cancelled(),
        }
    }

    /// Answers the caller that waits in `Queue::call`; sent when the handler succeeds. The first
    /// reply of an attempt counts; without a caller it is dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when `value` cannot be encoded.
    pub fn reply<R: Serialize>(&self, value: &R) -> Result<()> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| Error::invalid("the reply cannot be encoded").because(error))?;
        let _ = self.reply.set(bytes); // a second reply of one attempt is ignored, as documented
        Ok(())
    }

    pub(crate) fn take_reply(&mut self) -> Option<Vec<u8>> {
        self.reply.take()
    }

    /// Another context of the same attempt, for a thread of its own.
    pub(crate) fn fork(&self) -> Self {
        let token = OnceLock::from(self.cancellation());
        Self {
            shared: Arc::clone(&self.shared),
            token,
            reply: OnceLock::new(),
        }
    }
}

const ADVICE: &str = "give it to the builder with `.state(..)`, and name it in the annotation, \
                      `state(..)`, so that a missing one fails the start";

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }
}
