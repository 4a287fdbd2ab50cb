//! Tests of the embedded store beyond the contract: its file, its disk and its process.
//!
//! The contract itself is tested in `store_contract`, random operations and reopening in
//! `store_model`.

mod ahead;
mod check;
mod child;
mod crash;
pub(crate) mod damage;
mod ended;
mod erase;
mod file;
mod full;
pub(crate) mod harness;
mod history;
mod log;
mod many;
mod moved;
mod no_room;
mod records;
mod refused;
mod released;
mod shortage;
mod starts;
mod stop;
mod subscriber;
mod unreadable;
mod waiting;
