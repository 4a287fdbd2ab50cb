//! Tests of `bus.explain(id)`: each reason by itself, over every store and on virtual time.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod away;
mod clock;
mod ended;
mod journal;
mod nodes;
mod past;
mod redis;
mod waiting;
