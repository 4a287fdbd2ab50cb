//! What stores and journals promise, against real files and real servers: a folder for each.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

#[path = "servers/lines.rs"]
mod lines;
mod servers;

mod embedded;
mod engine;
mod history;
mod journal;
mod redis_store;
mod store_contract;
mod store_model;
mod wire;
