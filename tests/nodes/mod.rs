//! Node processes that push and handle until they are killed, and their account.
//!
//! A child process runs the test [`child`] of this module. Each child pushes, cancels and handles
//! on the store of a [`Site`], and writes the results of its calls and its starts into a shared
//! history, one plain `write` a line. In the end the store is drained, the history is completed
//! with the store's records and states, and [`duly_conformance::history::ClientChecker`] follows every
//! event through it: see [`account`].

#![allow(dead_code)] // each program that takes this in uses a part of it

mod account;
mod child;
mod log;
mod process;

#[allow(unused_imports)]
pub(crate) use self::{
    account::{Memory, account},
    child::{ATTEMPTS, HANGS, Role, bus, push_one},
    log::{Log, Start, node_of, starts, starts_of},
    process::{Node, Site, now_us},
};

/// Not a test by itself: it is what a child process runs.
#[test]
fn child() {
    child::child();
}
