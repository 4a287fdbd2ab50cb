//! Dead letters: found, read, revived, edited and dropped, each with a record of who did it.

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

mod edited;
mod found;
mod journal;
mod kit;
mod redis;
#[path = "../servers/mod.rs"]
mod servers;
mod shown;
mod stopped;
mod swept;
