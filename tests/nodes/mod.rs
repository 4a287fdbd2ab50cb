//! Processes that push and handle until they are killed, and the account of what they did.
//!
//! A child process runs the test [`child`] of this module. Each child pushes, cancels and
//! handles on the store of a [`Site`], and writes what it was answered and what it started into a
//! history that all share, one plain `write` a line. In the end the store is worked off, the
//! history is completed with the store's records and states, and [`duly_conformance::history::Account`] follows
//! every event through it: see [`account`].

#![allow(dead_code)] // each program that takes this in uses a part of it

mod account;
mod child;
mod log;
mod process;

#[allow(unused_imports)]
pub(crate) use self::{
    account::{Memory, account},
    child::{ATTEMPTS, HANGS, Role},
    log::{Log, Start, node_of, starts, starts_of},
    process::{Node, Site, now_us},
};

/// Not a test by itself: it is what a child process runs.
#[test]
fn child() {
    child::child();
}
