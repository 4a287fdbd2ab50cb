//! The context of an attempt.

use std::any::type_name;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::codec::{Codec, Encoded, encode};
use crate::core::op::{Lease, RequestId};
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::handler::extract::{State, States};
use crate::record::NodeId;

/// The context of an attempt: queue, lease, shared state, cancellation and reply.
///
/// When the attempt ends for any reason, its [cancellation token](Self::cancellation) is cancelled,
/// so that tasks spawned by the handler can end too.
#[derive(Debug)]
pub struct Context {
    shared: Arc<HandlerEnv>,
    /// The fetch that leased the event; `None` for an event that is in no store.
    request: Option<RequestId>,
    /// Created on first use, which is rare.
    rare: OnceLock<Box<RareState>>,
}

/// State that few attempts need.
#[derive(Debug)]
struct RareState {
    token: CancellationToken,
    reply: OnceLock<Vec<u8>>,
}

/// The environment that all attempts of a queue share.
pub(crate) struct HandlerEnv {
    pub(crate) queue: QueueName,
    pub(crate) node: NodeId,
    pub(crate) states: Arc<States>,
    /// Cancelled when the bus begins to stop.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when the bus stops waiting for handlers.
    pub(crate) stop: CancellationToken,
}

impl fmt::Debug for HandlerEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerEnv")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn new(shared: Arc<HandlerEnv>, request: Option<RequestId>) -> Self {
        Self {
            shared,
            request,
            rare: OnceLock::new(),
        }
    }

    /// Creates a context without a bus, to call a handler directly in a test.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::{State, States};
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
    /// assert!(greet(Event::published("hello".to_owned()), cx.share()).await.is_ok());
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `queue` is not a valid name.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn detached(queue: &str, states: States) -> Self {
        let queue = match QueueName::new(queue) {
            Ok(queue) => queue,
            Err(error) => panic!("{error}"),
        };
        let env = HandlerEnv {
            queue,
            node: NodeId::default(),
            states: Arc::new(states),
            stopping: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        Self::new(Arc::new(env), None)
    }

    /// The queue of the event.
    #[must_use]
    pub fn queue_name(&self) -> &QueueName {
        &self.shared.queue
    }

    /// The lease of this attempt, which no other attempt of the event has, on any node. `None` for
    /// an event that is in no store.
    ///
    /// Use it as a fencing token, or to tell attempts with the same number apart, as after a
    /// snooze.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        let node = self.shared.node;
        self.request.map(|request| Lease { node, request })
    }

    /// Returns the shared value of type `T` that was passed to the builder.
    ///
    /// # Panics
    ///
    /// If there is none. Name the type in the annotation, `state(Db)`, or take it as a
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

    /// Returns a handle to the shared value of type `T`.
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

    /// A token that is cancelled when this attempt ends: the handler returned, timed out, or was
    /// interrupted by a stop.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.rare().token.clone()
    }

    /// Returns whether this attempt was given up. For blocking handlers, which cannot be stopped.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match self.rare.get() {
            Some(rare) => rare.token.is_cancelled(),
            None => self.shared.stop.is_cancelled(),
        }
    }

    /// A token that is cancelled when the bus begins to stop: the handler has the grace period of
    /// [`Bus::shutdown`](crate::Bus::shutdown) to end.
    ///
    /// A handler that may need longer watches it, puts its progress away and
    /// [snoozes](crate::Failure::snooze); the next attempt goes on from there, in another process.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use duly::prelude::*;
    ///
    /// #[delay_event(queue = "export", register = false)]
    /// async fn export(event: Event<u64>, cx: &Context) -> Result<(), Failure> {
    ///     let stopping = cx.stopping();
    ///     for part in 0..event.payload {
    ///         if stopping.is_cancelled() {
    ///             // Note `part` where the next attempt finds it.
    ///             return Err(Failure::snooze(Duration::ZERO));
    ///         }
    ///         tokio::task::yield_now().await; // export `part`
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.shared.stopping.clone()
    }

    /// Returns whether the bus has begun to stop. For blocking handlers.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.is_cancelled()
    }

    /// Sets the reply to the caller in `Queue::call`; sent when the handler succeeds. Only the
    /// first reply of an attempt counts; without a caller it is dropped.
    ///
    /// One to a caller in another process is stored as a payload. If it is too large for one, or the
    /// store does not take it within half a minute, the event ends as discarded, with the reason, and
    /// the caller gets that.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `value` cannot be encoded, or would reach
    /// the caller as another one: one with a float that JSON lacks, or an empty value in an option.
    pub fn reply<R: Serialize>(&self, value: &R) -> Result<()> {
        let encoded = encode(Codec::Json, value)
            .and_then(Encoded::certain)
            .map_err(|error| Error::invalid("the reply cannot be encoded").because(error))?;
        let _ = self.rare().reply.set(encoded); // a second reply is ignored, as documented
        Ok(())
    }

    /// Lends it to the attempt of the event that `request` leased.
    #[inline]
    pub(crate) fn lend(&mut self, request: Option<RequestId>) -> AttemptContext<'_> {
        self.request = request;
        AttemptContext(self)
    }

    /// Ends the attempt.
    #[inline]
    fn end(&mut self) {
        if let Some(rare) = self.rare.take() {
            rare.token.cancel();
        }
    }

    pub(crate) fn take_reply(&mut self) -> Option<Vec<u8>> {
        self.rare.get_mut().and_then(|rare| rare.reply.take())
    }

    /// Creates another context of the same attempt, for another thread.
    pub(crate) fn fork(&self) -> Self {
        let rare = RareState {
            token: self.cancellation(),
            reply: OnceLock::new(),
        };
        Self {
            shared: Arc::clone(&self.shared),
            request: self.request,
            rare: OnceLock::from(Box::new(rare)),
        }
    }

    fn rare(&self) -> &RareState {
        self.rare.get_or_init(|| {
            Box::new(RareState {
                token: self.shared.stop.child_token(),
                reply: OnceLock::new(),
            })
        })
    }
}

const ADVICE: &str = "pass it to the builder with `.state(..)`, and name it in the annotation, \
                      `state(..)`, so that a missing one fails the start";

impl Drop for Context {
    fn drop(&mut self) {
        self.end();
    }
}

/// A context that is lent to one attempt, and ends with it.
///
/// A worker keeps one context for all its attempts: a new one each time would count references to
/// what the queue's attempts share, which costs more than a small handler.
pub(crate) struct AttemptContext<'a>(&'a mut Context);

impl Deref for AttemptContext<'_> {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        self.0
    }
}

impl DerefMut for AttemptContext<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Context {
        self.0
    }
}

impl Drop for AttemptContext<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.end();
    }
}
