//! What metrics say is so: counters, stages of lateness, store calls, gauges, and the page of them.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

// Its macro is for tests that run over every store; these have one.
#[path = "../delivery/world.rs"]
#[allow(dead_code, unused_macros)]
mod world;

#[path = "../delivery/faulty.rs"]
#[allow(dead_code)]
mod faulty;

mod calls;
mod catalogue;
mod counters;
mod gauges;
mod labels;
mod seen;
mod stages;
