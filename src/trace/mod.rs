//! Tracing: spans, log lines of failed handlers, and the trace context of events.
//!
//! [`names`] has all names; the guide is [here](crate::_docs::tracing).
//!
//! Spans and formatting cost nothing without a subscriber. Payloads are never in a span nor in a
//! log line.

mod context;
mod log;
pub mod names;
#[cfg(feature = "opentelemetry")]
mod otel;
mod span;

pub(crate) use context::{CurrentEvent, stamp};
pub(crate) use log::unread;
pub(crate) use span::{
    AttemptSpan, call_of_settle, handle, push, push_many, pushed, pushed_many, settled,
};
