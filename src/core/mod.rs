//! The decision core: pure code without I/O.
//!
//! It has the store operations as values ([`op`]), their semantics ([`engine`])
//! and the state machines of a node. No threads, runtime, clock or random numbers: time and replies
//! are arguments, actions are return values. `flow` drives it for real; `tests/simulation` drives
//! it on virtual time, from a seed, with injected faults.

mod bucket_state;
pub(crate) mod clock;
pub(crate) mod engine;
mod holdings;
mod lease;
mod members;
pub(crate) mod membership;
mod mover;
pub(crate) mod node;
pub(crate) mod op;
pub(crate) mod options;
mod prefetch;
pub(crate) mod pull;
pub(crate) mod push;
mod queue_state;
mod rate;
mod reaper;
mod settle;
mod standby;
mod starts;
pub(crate) mod step;
