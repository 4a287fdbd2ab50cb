//! What the bus promises, mostly in memory and on virtual time: a folder for each part of it.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

#[macro_use]
#[path = "delivery/world.rs"]
mod world;
#[allow(dead_code)] // the tests of records need more of it
#[path = "records/bad.rs"]
mod bad;
#[path = "delivery/faulty.rs"]
mod faulty;
#[path = "mutants/plant/mod.rs"]
mod plant;
mod servers;

mod dead_letters;
mod delivery;
mod explain;
mod hostile;
mod metrics;
mod payloads;
mod schedule;
mod traces;
