//! Tests of metrics: counters, stages of lateness, store calls, gauges, and their page.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod calls;
mod catalogue;
mod counters;
mod gauges;
mod labels;
mod seen;
mod stages;
