//! What `tracing` hears of an event's way: spans, lines of the log, and the trace that it carries.

#![allow(clippy::unwrap_used)] // these are tests, though some are helpers of tests

mod capture;
mod carried;
mod guide;
mod kit;
mod log_lines;
#[cfg(feature = "opentelemetry")]
mod otel;
#[cfg(feature = "opentelemetry")]
mod spans;
