//! The annotation of a handler, as a value.

use std::{any, any::TypeId, fmt, time::Duration};

use crate::codec::Codec;
use crate::event::LatePolicy;
use crate::handler::Upgrade;
use crate::retry::RetryPolicy;

/// Registers a struct or a function as the handler of a queue.
///
/// The bus finds every annotated handler in the binary automatically.
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

/// A handler with its annotation; implemented by [`delay_event`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no annotation",
    label = "missing `#[delay_event(queue = \"...\")]` on `{Self}`"
)]
pub trait Annotated {
    /// The payload type of the handler.
    type Value;

    /// The annotation.
    const ANNOTATION: Annotation;

    /// The function that upgrades a payload of an older version; `None`: decode it unchanged.
    const UPGRADE: Option<Upgrade<Self::Value>> = None;
}

/// The options of a handler's annotation.
///
/// An option that it does not set is `None` and comes from the next source of settings.
/// [`delay_event`] checks each value at compile time; values built by hand are checked when the bus
/// starts.
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
    /// The queue.
    pub queue: &'static str,
    /// The number of buckets, 1 to 1024.
    pub buckets: Option<u16>,
    /// The number of handlers that run at once on a node, 1 to 65536.
    pub workers: Option<u32>,
    /// The execution timeout of an attempt, at most 7 days.
    pub timeout: Option<Duration>,
    /// The maximum number of attempts, 1 to 1000.
    pub attempts: Option<u16>,
    /// The interruptions by a stop in a row that use up no attempt, at most 15.
    pub free_interruptions: Option<u8>,
    /// The retry policy.
    pub backoff: Option<RetryPolicy>,
    /// The lateness policy.
    pub late: Option<LatePolicy>,
    /// The jitter window, at most a day.
    pub spread: Option<Duration>,
    /// The number of slots in the queue's ring, a power of two from 64 to 65536.
    pub ring: Option<usize>,
    /// How long an idle worker spins before it sleeps.
    pub linger: Option<Duration>,
    /// The version of pushed payloads.
    pub version: Option<u32>,
    /// Whether records include payloads.
    pub keep_payload: Option<bool>,
    /// The codec of pushed payloads.
    pub codec: Option<Codec>,
    /// Whether pushed payloads are encrypted.
    pub encrypt: Option<bool>,
    /// Whether the queue has a dedicated runtime, for CPU-heavy handlers.
    pub dedicated: bool,
    /// Whether the handler blocks its thread and needs dedicated threads.
    pub blocking: bool,
    /// The states that the handler needs; a missing one fails the start.
    pub states: &'static [StateRequirement],
}

impl Annotation {
    /// Creates an annotation with only a queue.
    #[must_use]
    pub const fn new(queue: &'static str) -> Self {
        Self {
            queue,
            buckets: None,
            workers: None,
            timeout: None,
            attempts: None,
            free_interruptions: None,
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

    /// Sets the number of [`buckets`](Self#structfield.buckets).
    #[must_use]
    pub const fn buckets(mut self, buckets: u16) -> Self {
        self.buckets = Some(buckets);
        self
    }

    /// Sets the number of [`workers`](Self#structfield.workers).
    #[must_use]
    pub const fn workers(mut self, workers: u32) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the execution [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of [`attempts`](Self#structfield.attempts).
    #[must_use]
    pub const fn attempts(mut self, attempts: u16) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// Sets how many interruptions by a stop in a row use up no attempt:
    /// [`free_interruptions`](Self#structfield.free_interruptions).
    #[must_use]
    pub const fn free_interruptions(mut self, free: u8) -> Self {
        self.free_interruptions = Some(free);
        self
    }

    /// Sets the retry policy: [`backoff`](Self#structfield.backoff).
    #[must_use]
    pub const fn backoff(mut self, backoff: RetryPolicy) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Sets the lateness policy: [`late`](Self#structfield.late).
    #[must_use]
    pub const fn late(mut self, late: LatePolicy) -> Self {
        self.late = Some(late);
        self
    }

    /// Sets the jitter window: [`spread`](Self#structfield.spread).
    #[must_use]
    pub const fn spread(mut self, window: Duration) -> Self {
        self.spread = Some(window);
        self
    }

    /// Sets the size of the [`ring`](Self#structfield.ring).
    #[must_use]
    pub const fn ring(mut self, ring: usize) -> Self {
        self.ring = Some(ring);
        self
    }

    /// Sets how long an idle worker spins: [`linger`](Self#structfield.linger).
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
        self
    }

    /// Sets the payload [`version`](Self#structfield.version).
    #[must_use]
    pub const fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets whether records include payloads: [`keep_payload`](Self#structfield.keep_payload).
    #[must_use]
    pub const fn keep_payload(mut self, keep_payload: bool) -> Self {
        self.keep_payload = Some(keep_payload);
        self
    }

    /// Sets the [`codec`](Self#structfield.codec).
    #[must_use]
    pub const fn codec(mut self, codec: Codec) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Sets whether payloads are encrypted: [`encrypt`](Self#structfield.encrypt).
    #[must_use]
    pub const fn encrypt(mut self, encrypt: bool) -> Self {
        self.encrypt = Some(encrypt);
        self
    }

    /// Gives the queue a [`dedicated`](Self#structfield.dedicated) runtime.
    #[must_use]
    pub const fn dedicated(mut self) -> Self {
        self.dedicated = true;
        self
    }

    /// Runs the handler on [`blocking`](Self#structfield.blocking) threads.
    #[must_use]
    pub const fn blocking(mut self) -> Self {
        self.blocking = true;
        self
    }

    /// Sets the required [`states`](Self#structfield.states).
    #[must_use]
    pub const fn states(mut self, states: &'static [StateRequirement]) -> Self {
        self.states = states;
        self
    }
}

/// A type of state that a handler needs.
///
/// It has functions instead of values, because a constant cannot query a type's name.
///
/// # Examples
///
/// ```
/// use duly::StateRequirement;
/// use std::any::TypeId;
///
/// struct Db;
///
/// const NEED: StateRequirement = StateRequirement::of::<Db>();
/// assert_eq!((NEED.id)(), TypeId::of::<Db>());
/// assert!((NEED.name)().ends_with("Db"));
/// ```
#[derive(Clone, Copy)]
pub struct StateRequirement {
    /// The type name, for messages.
    pub name: fn() -> &'static str,
    /// The type id, to look the state up.
    pub id: fn() -> TypeId,
}

impl StateRequirement {
    /// Creates the requirement of a state of type `T`.
    #[must_use]
    pub const fn of<T: Send + Sync + 'static>() -> Self {
        Self {
            name: any::type_name::<T>,
            id: TypeId::of::<T>,
        }
    }
}

impl fmt::Debug for StateRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateRequirement")
            .field(&(self.name)())
            .finish()
    }
}
