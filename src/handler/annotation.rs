//! What `#[delay_event]` says of a handler, as a value.

use std::{any, any::TypeId, fmt, time::Duration};

use crate::codec::Codec;
use crate::event::Late;
use crate::handler::Upgrade;
use crate::retry::RetryPolicy;

/// Makes a struct or a function the handler of a queue.
///
/// The annotation and a start are a whole program: the bus finds every annotated handler in the
/// binary by itself.
///
/// # Examples
///
/// ```
/// use duly::{Context, Event, Failure, Handler, delay_event};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Unpaid {
///     order: u64,
/// }
///
/// #[delay_event(queue = "order-close", workers = 16, timeout = "30s", backoff = "exp(1s..10m)")]
/// struct CloseOrder;
///
/// impl Handler for CloseOrder {
///     type Payload = Unpaid;
///
///     async fn handle(&self, event: Event<Unpaid>, _cx: &Context) -> Result<(), Failure> {
///         assert!(event.payload.order > 0);
///         Ok(())
///     }
/// }
/// ```
///
/// # Examples: a function
///
/// The function becomes a unit struct of the same name, which is then the handler.
///
/// ```
/// use duly::{Annotated, Context, Event, Failure, State, delay_event};
///
/// struct Db;
///
/// #[delay_event(queue = "order-remind", attempts = 3)]
/// async fn remind(event: Event<u64>, cx: &Context, State(db): State<Db>) -> Result<(), Failure> {
///     let (_order, _cx, _db) = (event.payload, cx, db);
///     Ok(())
/// }
///
/// assert_eq!(remind::ANNOTATION.queue, "order-remind");
/// assert_eq!(remind::ANNOTATION.states.len(), 1);
/// ```
#[doc(inline)]
pub use duly_macros::delay_event;

/// A handler that carries its annotation; implemented by [`delay_event`], not by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no annotation",
    label = "missing `#[delay_event(queue = \"...\")]` on `{Self}`"
)]
pub trait Annotated {
    /// What is pushed to its queue: its handler's payload.
    type Value;

    /// What the annotation says.
    const ANNOTATION: Annotation;

    /// What makes a payload of this version of one of an older version; `None` where such a one is
    /// decoded as it is.
    const UPGRADE: Option<Upgrade<Self::Value>> = None;
}

/// What an annotation says of its handler.
///
/// A choice that it does not make is `None` here, and is made by the next weaker source of
/// settings. [`delay_event`] checks each value while the program is compiled; a value built by
/// hand is checked when the bus starts.
///
/// # Examples
///
/// ```
/// use duly::Annotation;
/// use std::time::Duration;
///
/// const CLOSE: Annotation = Annotation::new("order-close").workers(16).timeout(Duration::from_secs(30));
///
/// assert_eq!(CLOSE.queue, "order-close");
/// assert_eq!(CLOSE.workers, Some(16));
/// assert_eq!(CLOSE.buckets, None);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Annotation {
    /// The queue the handler serves.
    pub queue: &'static str,
    /// How many buckets the queue is spread over, 1 to 1024.
    pub buckets: Option<u16>,
    /// How many handlers of the queue may run at once on a node, 1 to 65536.
    pub workers: Option<u32>,
    /// How long one attempt may take, at most 7 days.
    pub timeout: Option<Duration>,
    /// How often an event is tried before it is dead, 1 to 1000.
    pub attempts: Option<u16>,
    /// How long a failed attempt waits for the next.
    pub backoff: Option<RetryPolicy>,
    /// What becomes of an event that is late.
    pub late: Option<Late>,
    /// Over which window events are spread, at most a day.
    pub spread: Option<Duration>,
    /// Slots in the queue's ring, a power of two from 64 to 65536.
    pub ring: Option<usize>,
    /// How long a worker without work looks for more before it goes to sleep.
    pub linger: Option<Duration>,
    /// The version of the payload that is pushed.
    pub version: Option<u32>,
    /// Whether records keep the payloads that are pushed.
    pub keep_payload: Option<bool>,
    /// How payloads that are pushed become bytes.
    pub codec: Option<Codec>,
    /// Whether payloads that are pushed are encrypted.
    pub encrypt: Option<bool>,
    /// Whether the queue has a runtime of its own, for handlers that are heavy on the processor.
    pub dedicated: bool,
    /// Whether the handler blocks its thread, and so runs on threads of its own.
    pub blocking: bool,
    /// The states the handler asks for; one that was not given to the builder fails the start.
    pub states: &'static [StateNeed],
}

impl Annotation {
    /// An annotation that only names its queue.
    #[must_use]
    pub const fn new(queue: &'static str) -> Self {
        Self {
            queue,
            buckets: None,
            workers: None,
            timeout: None,
            attempts: None,
            backoff: None,
            late: None,
            spread: None,
            ring: None,
            linger: None,
            version: None,
            keep_payload: None,
            codec: None,
            encrypt: None,
            dedicated: false,
            blocking: false,
            states: &[],
        }
    }

    /// Spreads the queue over this many [`buckets`](Self#structfield.buckets).
    #[must_use]
    pub const fn buckets(mut self, buckets: u16) -> Self {
        self.buckets = Some(buckets);
        self
    }

    /// Lets this many handlers run at once: [`workers`](Self#structfield.workers).
    #[must_use]
    pub const fn workers(mut self, workers: u32) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Ends an attempt after this long: [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Tries an event this often: [`attempts`](Self#structfield.attempts).
    #[must_use]
    pub const fn attempts(mut self, attempts: u16) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// Waits like this between attempts: [`backoff`](Self#structfield.backoff).
    #[must_use]
    pub const fn backoff(mut self, backoff: RetryPolicy) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Does this with what is late: [`late`](Self#structfield.late).
    #[must_use]
    pub const fn late(mut self, late: Late) -> Self {
        self.late = Some(late);
        self
    }

    /// Spreads events over a window: [`spread`](Self#structfield.spread).
    #[must_use]
    pub const fn spread(mut self, window: Duration) -> Self {
        self.spread = Some(window);
        self
    }

    /// Gives the ring this many slots: [`ring`](Self#structfield.ring).
    #[must_use]
    pub const fn ring(mut self, ring: usize) -> Self {
        self.ring = Some(ring);
        self
    }

    /// Lets an idle worker look for work this long: [`linger`](Self#structfield.linger).
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
        self
    }

    /// Pushes payloads of this [`version`](Self#structfield.version).
    #[must_use]
    pub const fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Has records keep payloads, or not: [`keep_payload`](Self#structfield.keep_payload).
    #[must_use]
    pub const fn keep_payload(mut self, keep_payload: bool) -> Self {
        self.keep_payload = Some(keep_payload);
        self
    }

    /// Makes bytes of payloads by this [`codec`](Self#structfield.codec).
    #[must_use]
    pub const fn codec(mut self, codec: Codec) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Has payloads encrypted, or not: [`encrypt`](Self#structfield.encrypt).
    #[must_use]
    pub const fn encrypt(mut self, encrypt: bool) -> Self {
        self.encrypt = Some(encrypt);
        self
    }

    /// Gives the queue a runtime of its own: [`dedicated`](Self#structfield.dedicated).
    #[must_use]
    pub const fn dedicated(mut self) -> Self {
        self.dedicated = true;
        self
    }

    /// Runs the handler on threads that may block: [`blocking`](Self#structfield.blocking).
    #[must_use]
    pub const fn blocking(mut self) -> Self {
        self.blocking = true;
        self
    }

    /// Asks for these [`states`](Self#structfield.states).
    #[must_use]
    pub const fn states(mut self, states: &'static [StateNeed]) -> Self {
        self.states = states;
        self
    }
}

/// A type of state that a handler asks for.
///
/// Holds functions rather than values, because a constant cannot ask a type for its name.
///
/// # Examples
///
/// ```
/// use duly::StateNeed;
/// use std::any::TypeId;
///
/// struct Db;
///
/// const NEED: StateNeed = StateNeed::of::<Db>();
/// assert_eq!((NEED.id)(), TypeId::of::<Db>());
/// assert!((NEED.name)().ends_with("Db"));
/// ```
#[derive(Clone, Copy)]
pub struct StateNeed {
    /// The type's name, for messages.
    pub name: fn() -> &'static str,
    /// The type's id, by which the state is found.
    pub id: fn() -> TypeId,
}

impl StateNeed {
    /// The need for a state of type `T`.
    #[must_use]
    pub const fn of<T: Send + Sync + 'static>() -> Self {
        Self {
            name: any::type_name::<T>,
            id: TypeId::of::<T>,
        }
    }
}

impl fmt::Debug for StateNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateNeed").field(&(self.name)()).finish()
    }
}
