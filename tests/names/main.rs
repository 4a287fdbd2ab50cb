//! What grows by names: queues, ids, keys, buses and look-ups of what never was leave nothing behind.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it
#![allow(clippy::print_stdout)] // they tell which seed to run again, and what is left

mod buses;
#[allow(dead_code)] // the tests of the bus need more of it
#[path = "../delivery/faulty.rs"]
mod faulty;
mod kept;
mod kit;
mod places;
mod redis;
#[path = "../servers/mod.rs"]
mod servers;
mod soak;
