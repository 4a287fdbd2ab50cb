//! The coming load, and what every node tells of the events that it answers for.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod depths;
mod forecast;
mod kit;
mod own_recorder;
#[path = "../servers/mod.rs"]
mod servers;
