//! What a handler may know and do besides its event.

use std::any::type_name;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::core::op::{Lease, RequestId};
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::handler::extract::{State, States};
use crate::record::NodeId;

/// What a handler may know and do besides its event.
///
/// It belongs to one attempt. When the attempt is over, however it ended, its
/// [cancellation token](Self::cancellation) is cancelled, so that what the handler has spawned can
/// end too.
#[derive(Debug)]
pub struct Context {
    shared: Arc<Surroundings>,
    /// The fetch that leased the event, for one that a store knows.
    request: Option<RequestId>,
    /// Made when first asked for: most handlers never do.
    rare: OnceLock<Box<Rare>>,
}

/// What few attempts need.
#[derive(Debug)]
struct Rare {
    token: CancellationToken,
    reply: OnceLock<Vec<u8>>,
}

/// What all attempts of a queue share.
#[derive(Clone)]
#[repr(align(128))] // its reference count has a cache line of its own
pub(crate) struct Surroundings {
    pub(crate) queue: QueueName,
    pub(crate) node: NodeId,
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

/// The surroundings of a queue, a copy for each thread or two.
///
/// Each attempt counts itself in and out of its surroundings. Were there one copy, the cores would
/// spend more time on handing its reference count to each other than on small handlers.
#[derive(Clone)]
pub(crate) struct Stripes([Arc<Surroundings>; STRIPES]);

const STRIPES: usize = 8;

impl Stripes {
    pub(crate) fn new(surroundings: &Surroundings) -> Self {
        Self(std::array::from_fn(|_| Arc::new(surroundings.clone())))
    }

    /// The copy that this thread uses.
    pub(crate) fn of_this_thread(&self) -> Arc<Surroundings> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        Arc::clone(&self.0[STRIPE.with(|stripe| *stripe)])
    }
}

impl Deref for Stripes {
    type Target = Surroundings;

    fn deref(&self) -> &Surroundings {
        &self.0[0]
    }
}

impl Context {
    pub(crate) fn new(shared: Arc<Surroundings>, request: Option<RequestId>) -> Self {
        Self {
            shared,
            request,
            rare: OnceLock::new(),
        }
    }

    /// A context outside of any bus, to call a handler by hand in a test.
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
    /// When `queue` is not a legal name.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn detached(queue: &str, states: States) -> Self {
        let queue = match QueueName::new(queue) {
            Ok(queue) => queue,
            Err(error) => panic!("{error}"),
        };
        let (states, stop) = (Arc::new(states), CancellationToken::new());
        let surroundings = Surroundings {
            queue,
            node: NodeId::default(),
            states,
            stop,
        };
        Self::new(Arc::new(surroundings), None)
    }

    /// The queue that the event came from.
    #[must_use]
    pub fn queue_name(&self) -> &QueueName {
        &self.shared.queue
    }

    /// The lease under which this attempt runs: no other attempt of the event, on any node, has the
    /// same. `None` for an event that no store knows.
    ///
    /// Pass it on to a system that can refuse what comes twice, or write it down to tell attempts
    /// apart that share a number, as after a snooze.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        let node = self.shared.node;
        self.request.map(|request| Lease { node, request })
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
        self.rare().token.clone()
    }

    /// Whether this attempt has been given up. For blocking handlers, which nobody can stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match self.rare.get() {
            Some(rare) => rare.token.is_cancelled(),
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
        let _ = self.rare().reply.set(bytes); // a second reply of one attempt is ignored, as documented
        Ok(())
    }

    pub(crate) fn take_reply(&mut self) -> Option<Vec<u8>> {
        self.rare.get_mut().and_then(|rare| rare.reply.take())
    }

    /// Another context of the same attempt, for a thread of its own.
    pub(crate) fn fork(&self) -> Self {
        let rare = Rare {
            token: self.cancellation(),
            reply: OnceLock::new(),
        };
        Self {
            shared: Arc::clone(&self.shared),
            request: self.request,
            rare: OnceLock::from(Box::new(rare)),
        }
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(|| {
            Box::new(Rare {
                token: self.shared.stop.child_token(),
                reply: OnceLock::new(),
            })
        })
    }
}

const ADVICE: &str = "give it to the builder with `.state(..)`, and name it in the annotation, \
                      `state(..)`, so that a missing one fails the start";

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(rare) = self.rare.get() {
            rare.token.cancel();
        }
    }
}
