//! Parsing and formatting of durations: `250ms`, `30s`, `1m30s`.

pub use duly_options::duration::{ParseDurationError, format, parse};
