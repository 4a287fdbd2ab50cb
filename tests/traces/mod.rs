//! Tests of `tracing` output: spans, log lines, and the trace that an event carries.

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
