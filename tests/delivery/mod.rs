//! What the bus promises, promise by promise, over every store and on virtual time.
//!
//! `src/docs/delivery.md` says for each promise which file of this folder holds it.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod accepted;
mod apart;
mod asking;
mod blocking;
mod call;
mod cancel;
mod closed;
mod controls;
mod dead_letter;
mod doubt;
mod exports;
mod finding;
mod full;
mod handlers;
mod ids;
mod kit;
mod late;
mod lease;
mod names;
mod nodes;
mod publish;
mod punctual;
mod pushes;
mod records;
mod refused;
mod renewed;
mod retry;
mod shutdown;
mod spread;
mod start;
mod workers;
