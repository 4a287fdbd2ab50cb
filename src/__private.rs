//! The names used by code that `#[delay_event]` generates; not part of the public API.
//!
//! Generated code names only this module, the standard library and what the user wrote.

pub use inventory;

pub use crate::codec::Codec;
pub use crate::event::delivered::Event;
pub use crate::event::late::LatePolicy;
pub use crate::flow::{Construct, Registration};
use crate::handler::State;
pub use crate::handler::{
    Annotated, AnnotatedSchedule, Annotation, BlockingHandler, Context, Failure, Handler,
    OldPayload, StateRequirement, Upgrade,
};
pub use crate::retry::RetryPolicy;

/// [`Default`], with an error message for handlers that lack it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has fields, so `#[delay_event]` needs `Default` to make one",
    label = "missing `Default`",
    note = "derive or implement `Default`, or say `register = false` and give a value to `register` of the builder"
)]
pub trait ByDefault {
    /// Returns the default value.
    fn by_default() -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Default> ByDefault for T {
    fn by_default() -> Self {
        Self::default()
    }
}

/// The return type of a handler function.
#[diagnostic::on_unimplemented(
    message = "a handler function cannot return `{Self}`",
    label = "expected `Result<(), Failure>`, or `Result<(), E>` where `E` converts into `Failure`",
    note = "every `std::error::Error` that is `Send`, `Sync` and `'static` converts into `Failure`, and so do `anyhow::Error`, `eyre::Report` and texts"
)]
pub trait Returned {
    /// Converts it to the return type of a handler.
    fn returned(self) -> Result<(), Failure>;
}

#[diagnostic::do_not_recommend]
impl<E: Into<Failure>> Returned for Result<(), E> {
    fn returned(self) -> Result<(), Failure> {
        self.map_err(Into::into)
    }
}

/// Returns the state of an argument `State<T>` of a handler function.
#[must_use]
pub fn state<T: Send + Sync + 'static>(cx: &Context) -> State<T> {
    cx.share()
}

/// Converts the return value of a handler function to that of a handler.
///
/// # Errors
///
/// Returns the failure that the function returned.
pub fn returned<R: Returned>(result: R) -> Result<(), Failure> {
    result.returned()
}

/// The return type of an upgrade function for a payload of type `T`.
#[diagnostic::on_unimplemented(
    message = "the upgrade function cannot return `{Self}`",
    label = "expected `Result<{T}, Failure>`, or `Result<{T}, E>` where `E` converts into `Failure`",
    note = "an upgrade is `fn(old: duly::OldPayload<'_>) -> Result<{T}, E>`, where `{T}` is the handler's payload",
    note = "every `std::error::Error` that is `Send`, `Sync` and `'static` converts into `Failure`, and so do `anyhow::Error`, `eyre::Report` and texts"
)]
pub trait Upgraded<T> {
    /// Converts it to the return type of an upgrade.
    fn upgraded(self) -> Result<T, Failure>;
}

#[diagnostic::do_not_recommend]
impl<T, E: Into<Failure>> Upgraded<T> for Result<T, E> {
    fn upgraded(self) -> Result<T, Failure> {
        self.map_err(Into::into)
    }
}

/// Converts the return value of an upgrade function to that of an upgrade.
///
/// # Errors
///
/// Returns the failure that the function returned.
pub fn upgraded<T, R: Upgraded<T>>(result: R) -> Result<T, Failure> {
    result.upgraded()
}
