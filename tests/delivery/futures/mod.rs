//! Every public future: dropped at every await, and beside, during and after a stop, on another
//! runtime, and after its own has ended.
//!
//! `table.rs` lists all of them, and `complete.rs` compares it with the sources.

mod beside;
mod complete;
pub(super) mod dropped;
mod gone;
pub(super) mod slow;
mod stage;
mod stops;
mod table;
