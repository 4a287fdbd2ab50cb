//! What `tracing` hears of an event's way: its spans, what the log says of a handler that fails,
//! and the place in a trace that an event carries along.
//!
//! [`names`] has every name there is; the guide is [here](crate::_docs::tracing).
//!
//! A span is made only where somebody listens, and nothing is formatted where nobody does. Payloads
//! are never in a span nor in a line of the log.

mod context;
mod log;
pub mod names;
#[cfg(feature = "opentelemetry")]
mod otel;
mod span;

pub(crate) use context::{Carried, stamp};
pub(crate) use log::unread;
pub(crate) use span::{
    Handled, call_of_settle, handle, push, push_many, pushed, pushed_many, settled,
};
