//! Records on their way from a store's outboxes to the journal: nothing is lost between them, nothing
//! is there twice, and no handler waits for it.
//!
//! Most of it runs on virtual time, with a journal that does badly where a test says so; `kills` is
//! about real processes and files. `DULY_RECORD_KILLS` says how many kills each of its cases has.

#![allow(clippy::print_stdout)] // counts that are not printed show nothing
#![allow(clippy::unwrap_used)] // what several tests share fails as they do

mod away;
mod bad;
mod carried;
mod deaf;
mod full;
mod kills;
mod left;
mod limits;
mod several;
mod start;
mod stop;
mod world;
