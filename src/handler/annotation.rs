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

macro_rules! annotation {
    (
        always {$(
            #[doc = $summary:literal] $(#[doc = $doc:literal])*
            $name:ident: $type:ty = $value:expr, $kind:expr,
                $example:literal, $values:literal, $default:literal;
        )*}
        perhaps {$(
            #[doc = $maybe_summary:literal] $(#[doc = $maybe_doc:literal])*
            $maybe:ident: $maybe_type:ty, $maybe_kind:expr,
                $maybe_example:literal, $maybe_values:literal, $maybe_default:literal;
        )*}
    ) => {
        annotation! {
            $(#[doc = $summary] $name: $type, $values;)*
            $(#[doc = $maybe_summary] $maybe: $maybe_type, $maybe_values;)*
        }
    };
    ($(#[doc = $summary:literal] $name:ident: $type:ty, $values:literal;)*) => {
        /// The options of a handler's annotation.
        ///
        /// An option that it does not set is `None` and comes from the next source of settings.
        /// [`delay_event`] checks each value at compile time; values built by hand are checked when
        /// the bus starts.
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
            $(
                #[doc = concat!($summary, " Value:", " ", $values, ".")]
                pub $name: Option<$type>,
            )*
            /// The schedule of the queue, which has its name.
            pub schedule: Option<AnnotatedSchedule>,
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
                    $($name: None,)*
                    schedule: None,
                    blocking: false,
                    states: &[],
                }
            }

            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
                #[must_use]
                pub const fn $name(mut self, $name: $type) -> Self {
                    self.$name = Some($name);
                    self
                }
            )*

            /// Sets the schedule of the queue.
            #[must_use]
            pub const fn schedule(mut self, schedule: AnnotatedSchedule) -> Self {
                self.schedule = Some(schedule);
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
    };
}
duly_options::queue_options!(annotation);

/// The schedule of an annotation, as texts that are parsed when the bus starts; the keys are those of
/// [settings](crate::config#keys).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AnnotatedSchedule {
    /// When it recurs.
    pub when: &'static str,
    /// The payload of its occurrences, as JSON.
    pub payload: Option<&'static str>,
    /// What becomes of missed occurrences.
    pub missed: Option<&'static str>,
    /// What becomes of overlapping ones.
    pub overlap: Option<&'static str>,
    /// The window over which they are spread.
    pub jitter: Option<&'static str>,
    /// The names of the calendars whose days are left out.
    pub exclude: Option<&'static str>,
    /// The names of the calendars on whose days alone it runs.
    pub only: Option<&'static str>,
}

macro_rules! annotated_schedule {
    ($($name:ident,)*) => {
        impl AnnotatedSchedule {
            /// A schedule with the defaults of all that is not said.
            #[must_use]
            pub const fn new(when: &'static str) -> Self {
                Self { when, $($name: None,)* }
            }

            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
                #[must_use]
                pub const fn $name(mut self, $name: &'static str) -> Self {
                    self.$name = Some($name);
                    self
                }
            )*
        }
    };
}
annotated_schedule!(payload, missed, overlap, jitter, exclude, only,);

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
