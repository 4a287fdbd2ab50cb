//! The promises of the bus, one by one, over every store and on virtual time.
//!
//! `src/docs/mechanisms.md` names the file of this folder that tests each promise.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod accepted;
mod apart;
mod asking;
mod audit;
mod audited;
mod blocking;
mod bulk;
mod call;
mod called;
mod cancel;
mod closed;
mod controls;
mod counts;
mod dead_letter;
mod declared_rate;
mod doubt;
mod enemy;
mod erase;
mod erase_waiting;
mod exports;
mod finding;
mod full;
mod futures;
mod handlers;
mod ids;
mod in_the_ring;
mod kit;
mod late;
mod lease;
mod listing;
mod names;
mod nodes;
mod outside;
mod program_audit;
mod publish;
mod pull;
mod punctual;
mod pushes;
mod records;
mod refused;
mod renewed;
mod replay;
mod retry;
mod shutdown;
mod spread;
mod start;
mod suspended;
mod workers;
