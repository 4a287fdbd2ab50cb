//! What stores and journals promise, against real files and real servers: a folder for each.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

#[path = "servers/lines.rs"]
mod lines;
#[path = "metrics/seen.rs"]
#[allow(dead_code)] // its other users need it
mod seen;
mod servers;

#[path = "embedded/counted.rs"]
mod counted; // apart from its folder, which the oldest SQLite runs without metrics
mod embedded;
mod engine;
mod history;
mod journal;
mod redis_store;
mod store_contract;
mod store_model;
mod wire;
