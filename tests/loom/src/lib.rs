//! What the crate synchronises by hand, in every interleaving that weak memory allows.
//!
//! The code under test is the real file, each time. Each model has a control: with one step left
//! out it must fail, or it would hold nothing.

#![cfg(test)]

mod crowd;
mod gate;
mod mailbox;
mod ticking;
mod wake;

/// The files under test.
#[path = "../../../src/flow"]
#[allow(dead_code, reason = "the crate calls more of them than the models do")]
mod flow {
    pub(crate) mod crowd;
    pub(crate) mod gate;
    pub(crate) mod mailbox;
    pub(crate) mod ticking;
    pub(crate) mod wake;
}
