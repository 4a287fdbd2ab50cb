//! Tests of records from a store's outboxes to the journal: none is lost or duplicated, and no
//! handler waits for it.
//!
//! Most of it runs on virtual time, with a failing journal where a test needs one; `kills` uses
//! real processes and files. `DULY_RECORD_KILLS` sets the number of kills in each of its cases.

#![allow(clippy::print_stdout)] // counts that are not printed show nothing
#![allow(clippy::unwrap_used)] // what several tests share fails as they do

mod away;
mod bad;
mod carried;
mod deaf;
mod failing;
mod full;
mod kills;
mod left;
mod limits;
mod several;
mod start;
mod stop;
mod world;
