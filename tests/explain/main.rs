//! `bus.explain(id)`: why an event is where it is, each reason by itself, over every store and on
//! virtual time.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

#[macro_use]
#[allow(dead_code)]
#[path = "../delivery/world.rs"]
mod world;
#[allow(dead_code)]
#[path = "../records/bad.rs"]
mod bad;
#[allow(dead_code)]
#[path = "../delivery/faulty.rs"]
mod faulty;

mod away;
mod ended;
mod journal;
mod nodes;
mod past;
mod redis;
#[path = "../servers/mod.rs"]
mod servers;
mod waiting;
