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
    pub(crate) mod node {
        pub(crate) mod lease_fence;
        pub(crate) mod mailbox;
    }
    pub(crate) mod pool {
        pub(crate) mod on_demand;
        pub(crate) mod waiters;
        pub(crate) mod wake;
    }
}
